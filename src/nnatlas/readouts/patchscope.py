"""Patchscopes: one prompt's value put into another prompt, which then says what it holds (Ghandeharioun et al. 2024).

The second prompt asks, by its few examples, for a word about what stands at its last place, and generation goes on from
there.  Every layer that is asked about has a row of one batch, so a whole sweep over layers is one generation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor

from nnatlas.errors import InputError
from nnatlas.grid import Axis, Grid, Pages, Shown
from nnatlas.model.asked import layers_of, whole
from nnatlas.model.positions import real_positions
from nnatlas.model.prompts import read
from nnatlas.model.tokens import token_text

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer

IDENTITY: Final = "cat -> cat\n1135 -> 1135\nhello -> hello\n?"
"""The token identity prompt of the paper: what is put at its last token is said again."""


@dataclass(frozen=True, repr=False)
class Patchscope(Shown):
    """What was generated for each source layer; made by `patchscope`.

    `texts` is one for each of `layers`; `ids` and `probabilities` are `layers new_tokens`, the latter that of each token
    when it was chosen, NaN after the end of a text.
    """

    layers: tuple[int, ...]
    into: tuple[int, ...]
    texts: tuple[str, ...]
    ids: Tensor
    probabilities: Tensor
    tokenizer: Any
    title: str

    def __getitem__(self, layer: int) -> str:
        """The text for one source layer."""
        if layer not in self.layers:
            raise InputError(f"layer {layer!r} was not read; there are {', '.join(map(str, self.layers))}")
        return self.texts[self.layers.index(layer)]

    def grid(self) -> Grid | Pages:
        """Source layers by new tokens, coloured by how sure the model was."""
        count = self.ids.shape[1]
        texts = [
            ["" if chance != chance else token_text(self.tokenizer, token) for token, chance in zip(*row, strict=True)]
            for row in zip(self.ids.tolist(), self.probabilities.tolist(), strict=True)
        ]
        rows, columns = Axis("layer", self.layers), Axis("new token", range(1, count + 1))
        title, units = self.title, "probability"
        return Grid(self.probabilities, rows, columns, title=title, units=units, text=texts, limits=(0, 1))


def patchscope(
    model: StandardizedTransformer,
    source: Any,
    target: str = IDENTITY,
    layers: Iterable[int] | int | None = None,
    *,
    into: int | None = None,
    position: int = -1,
    into_position: int = -1,
    value: str = "layer_output",
    **keywords: Any,
) -> Patchscope:
    """Put a value of one prompt into another prompt, and let it go on.

    Args:
        model: any model that `nnatlas.load` made, with a tokenizer.
        source: the prompt whose value is read.
        target: the prompt it is put into.
        layers: the layers it is read from, one text each; by default all.
        into: the layer it is put into; by default the one it was read from.
        position, into_position: where, in the one and the other prompt, counted among real tokens; -1 is the last.
        value: which value of a block, `batch seq ...`, such as "layer_input" or "mlp.mlp_output".
        keywords: go to `generate`; by default `max_new_tokens=8, do_sample=False`.

    Raises:
        InputError: more than one source prompt, or a layer or position that there is not.

    Example:
        >>> found = patchscope(model, "The Eiffel Tower is in Paris", layers=[5, 10, 20])
        >>> found[10]  # what the target prompt goes on with, once it holds what layer 10 says of the last token
        ' -> Paris...'
    """
    froms = layers_of(model, layers)
    tos = froms if into is None else layers_of(model, into)[:1] * len(froms)
    if not isinstance(target, str):
        raise InputError(f"a patchscope puts values into one text, not a {type(target).__name__}: target='...'")
    vectors = _read(model, source, [f"layers.{layer}.{value}" for layer in froms], position)
    patches = list(zip(tos, vectors, strict=True))
    put = lambda: _put(model, patches, value, into_position)
    ids, chances, texts = _generated(
        model, [target] * len(froms), put, {"max_new_tokens": 8, "do_sample": False, **keywords}
    )
    title = f"patchscope: {value} of {source!r}"
    return Patchscope(tuple(froms), tuple(tos), tuple(texts), ids, chances, model.tokenizer, title)


def _read(model: StandardizedTransformer, source: Any, names: list[str], position: int) -> list[Tensor]:
    """Each value at the source's position, `[...]`."""
    found, prompts = read(model, source, names)
    if len(prompts) != 1:
        raise InputError(f"a patchscope reads one source prompt, got {len(prompts)}")
    at = int(real_positions(prompts.mask, whole(position, "position")))
    for name in names:
        if found[name].shape[:2] != prompts.mask.shape:
            raise InputError(
                f"{name} is {list(found[name].shape)}: a patchscope reads values with the axes batch seq ..."
            )
    return [found[name][0, at].clone() for name in names]


def _generated(
    model: StandardizedTransformer, prompts: list[str], put: Callable[[], None], options: dict[str, Any]
) -> tuple[Tensor, Tensor, list[str]]:
    """Generate with an edit in the first step: ids and probabilities `rows new_tokens`, and texts."""
    chances = []
    with torch.no_grad(), model.generate(prompts, **options) as run:
        for step in run.steps():
            if step == 0:
                start = model.input_size[1]
                put()
            chances.append(model.logits[:, -1].float().softmax(-1).cpu())
    ids = getattr(run.output, "sequences", run.output)[:, start:].cpu()
    probabilities = torch.stack([chance.gather(1, ids[:, [at]])[:, 0] for at, chance in enumerate(chances)], 1)
    texts = [run.text] if isinstance(run.text, str) else run.text
    return ids, probabilities.masked_fill(_after_the_end(model, ids), torch.nan), texts


def _put(model: StandardizedTransformer, patches: list[tuple[int, Tensor]], value: str, position: int) -> None:
    """Write every row's vector at its layer, in the order in which the forward comes to them."""
    at = int(real_positions(torch.ones(1, model.input_size[1]), position))
    host, _, name = value.rpartition(".")
    for layer in sorted({layer for layer, _ in patches}):
        node = model.layers[layer]
        tensor = getattr(getattr(node, host) if host else node, name)
        for row, (where, vector) in enumerate(patches):
            if where == layer:
                tensor[row, at] = vector.to(tensor)


def _after_the_end(model: StandardizedTransformer, ids: Tensor) -> Tensor:
    """Which new tokens come after their row's end token: they only fill the batch."""
    ends = getattr(model._module.generation_config, "eos_token_id", None)
    if ends is None:
        return torch.zeros_like(ids, dtype=torch.bool)
    ended = torch.isin(ids, torch.tensor(ends)).cumsum(1)
    return torch.cat([torch.zeros_like(ended[:, :1]), ended[:, :-1]], 1) > 0
