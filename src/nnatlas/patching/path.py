"""Path patching: what one value does to the metric through chosen readers alone, everything else held as it was.

Attention and MLP of each block read the residual stream and write into it.  A sender's write reaches each later reader
directly, by the stream, and again through the readers in between.  Here two rows of a batch carry the stream, one as it is
(*plain*) and one with the sender's write patched (*told*).  Receivers compute in the told row, all others in the plain one,
and what each has written goes on in both: so the two rows differ by the sender's direct write alone, all the way up, and only
receivers have seen it.  What receivers then write is passed on freely.

With one receiver this is the path patching of Wang et al. 2022 ("Interpretability in the wild", their freezing of all other
heads) and of Goldowsky-Dill et al. 2023 ("Localizing model behavior with path patching"); with all of them and the logits, it
is patching the sender itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnatlas.errors import InputError
from nnatlas.model.asked import several, within
from nnatlas.patching.cells import AXES, Patch, node
from nnatlas.patching.forwards import Forward
from nnatlas.patching.metrics import Judge
from nnatlas.patching.result import Patching
from nnatlas.patching.situation import Situation
from nnatlas.patching.study import Asked, Found, study
from nnatlas.patching.ways import TOKENS
from nnatlas.values import VALUES

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer

LOGITS = "logits"
WRITES = ("self_attn.attention_output", "linear_attn.attention_output", "mlp.mlp_output")
"""What writes into the residual stream from within a block."""
ORDER = "layer_input attention_norm_output self_attn linear_attn layer_mid mlp_norm_output mlp_input mlp layer_output".split()
"""In which order a block comes by its values and parts."""
RANKS = list(VALUES)
Receiver = str | tuple[str, int]


def path_patching(
    model: StandardizedTransformer,
    clean: Any,
    corrupted: Any,
    sender: str = "attention_premix",
    receivers: Receiver | Iterable[Receiver] = LOGITS,
    over: str | Sequence[str] = "layer x head",
    metric: Asked = "logit_difference",
    *,
    direction: str = "denoise",
) -> Patching:
    """Patch the paths that lead from each place of a grid straight to the receivers: a number for each sender.

    Args:
        sender: the value patched at each place, as `value` of `activation_patching`.
        receivers: values by full name or pattern, `"layers.9.self_attn.attention_queries"`, `"layers.*.mlp.mlp_output"`;
            `(name, head)` takes one head of it; `"logits"` is the direct effect on the output.
        model, clean, corrupted, over, metric, direction: as for `activation_patching`.  Wang et al. bring the corrupted
            run's values into the clean one, which is `direction="noise"`.

    Raises:
        InputError: no value has a receiver's name, or what `activation_patching` raises.
        Unavailable: a receiver that this family does not have; with its reason.

    Example:
        >>> metric = patching.KLToClean()
        >>> direct = path_patching(model, clean, corrupted, metric=metric)  # every head's direct effect on the logits
        >>> path_patching(model, clean, corrupted, metric=metric, receivers=("layers.4.self_attn.attention_queries", 3))
    """
    heard = _receivers(receivers)
    ready = study(model, (clean, corrupted), sender, over, metric, direction, "path patching")
    ready.title += f", to {', '.join(one if isinstance(one, str) else f'{one[0]} head {one[1]}' for one in heard)}"
    return ready.run(lambda situation, judge: Paths(situation, heard).swept(judge))


def _receivers(given: Any) -> list[Receiver]:
    """One receiver or several, as a list."""
    listed = [given] if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], int) else several(given)
    right = lambda one: isinstance(one, str) or (isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str))
    if not listed or not all(map(right, listed)):
        raise InputError(f"receivers={given!r}: give names of values, (name, head), or 'logits'; one or a list of them")
    return listed


class Paths:
    """Paths from any sender to some receivers, of some pairs."""

    def __init__(self, situation: Situation, receivers: Iterable[Receiver]) -> None:
        self.situation = situation
        self.model, self.senders = situation.stack.model, situation.stack.names
        rows = self.model.support().rows
        self.writes = self._named([f"layers.*.{key}" for key in WRITES if key in rows and not rows[key].nowhere])
        self.heard: dict[str, list[tuple[Any, ...]]] = {}
        self.to_logits = False
        for one in receivers:
            self._listen(*((one, None) if isinstance(one, str) else one))
        named = {*self.writes, *self.heard, *self.senders.values()}
        self.order = sorted(named, key=_when)

    def _named(self, patterns: list[str]) -> list[str]:
        """The full names of values."""
        return list(self.model.collect(self.situation.base.ids[:1], patterns)) if patterns else []

    def _listen(self, name: str, head: int | None) -> None:
        if name == LOGITS:
            self.to_logits = True
            return
        for found in self._named([name]):
            if not found.startswith("layers."):
                raise InputError(f"{found} is no receiver: name values of blocks, or 'logits'")
            self.heard.setdefault(found, []).append(self._part(found, head))

    def _part(self, name: str, head: int | None) -> tuple[Any, ...]:
        """The index of one head in `batch ...`, or of everything."""
        if head is None:
            return (...,)
        axes = self.model.support().rows[_key(name)].layout.axes
        along = next((at for at, axis in enumerate(axes) if axis in AXES["head"]), None)
        if along is None:
            raise InputError(f"{name} has no heads: its axes are {' '.join(axes)}")
        size = self.model.layers[int(name.split(".")[1])].self_attn
        count = getattr(size, axes[along])
        return (*[slice(None)] * along, within(head, count, "head", f" of {name}"))

    # -- sweeping --------------------------------------------------------------------------------------------------

    def swept(self, judge: Judge) -> Found:
        """The metric for every sender."""
        patches = self.situation.patches()
        numbers: dict[Patch, float] = {}
        count = max(1, TOKENS // (2 * self.situation.length))
        for at in range(0, len(patches), count):
            senders = patches[at : at + count]
            judged = judge(self._forward(senders), [patch.pair for patch in senders])
            numbers |= zip(senders, judged.tolist(), strict=True)
        return Found(numbers, "two rows a path, many paths to a batch")

    def _forward(self, senders: Sequence[Patch]) -> Tensor:
        """Logits `[senders, vocab_size]`; the first half of the rows are plain, the second told."""
        count, prompts = len(senders), self.situation.base.ids[[patch.pair for patch in senders]]
        stack, source = self.situation.stack, self.situation.source.values
        writer = Forward(stack, prompts, senders, source)
        with torch.no_grad(), self.model.trace(**stack.call(torch.cat([prompts, prompts]))) as run:
            for name in self.order:
                value = getattr(*node(run, name))
                plain, told = value[:count], value[count:]
                for part in self.heard.get(name, ()):
                    plain[part] = told[part]
                if name in self.writes:
                    passed_on = [row for row, sender in enumerate(senders) if not self._inside(sender, name)]
                    told[passed_on] = plain[passed_on]
                for row, sender in self._sending(senders, name):
                    writer.put(told[row], sender)
            logits = run.logits[:, -1].float()
        return logits[count:] if self.to_logits else logits[:count]

    def _sending(self, senders: Sequence[Patch], name: str) -> Iterator[tuple[int, Patch]]:
        """The rows whose sender this value is."""
        return ((row, sender) for row, sender in enumerate(senders) if self.senders[sender.cell.layer] == name)

    def _inside(self, sender: Patch, write: str) -> bool:
        """Whether a sender is a part of what a module computes before it writes, so that its own write tells of it."""
        name = self.senders[sender.cell.layer]
        return name != write and name.rpartition(".")[0] == write.rpartition(".")[0]


def _key(name: str) -> str:
    """`layers.3.mlp.mlp_output` as the vocabulary has it."""
    _, _, rest = name.split(".", 2)
    return rest if "." in rest else f"block.{rest}"


def _when(name: str) -> tuple[int, int, int]:
    """Sorts full names as a forward comes by them."""
    key = _key(name)
    host, _, value = key.partition(".")
    return int(name.split(".")[1]), ORDER.index(value if host == "block" else host), RANKS.index(key)
