"""The tuned lens: each layer's stream through an affine translator of its own, then read out (Belrose et al. 2023).

Translator i takes the stream that enters block i, h, to h + W h + b, and is trained so that what the readout makes of
that is as near as can be, in KL, to what the model says in the end.  A translator of zeros is the logit lens.

The files are those of the `tuned-lens` package: a folder with `config.json` and `params.pt`, a state dict of `0.weight`,
`0.bias`, `1.weight`, ...  Published lenses load as they are, and lenses trained here load there.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import Tensor, nn

from nnatlas.errors import DamagedFile, InputError
from nnatlas.model.asked import at_least, finite, named_path, within
from nnatlas.model.prompts import read
from nnatlas.readouts.logit_lens import LogitLens, logit_lens

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer

CONFIG, PARAMETERS, KIND = "config.json", "params.pt", "linear_tuned_lens"
OLD_PREFIX: Final = "layer_translators."
"""What the package's first releases wrote in front of every name."""


@dataclass(frozen=True)
class TunedLens:
    """A translator for each layer of one model; `lens(prompt)` reads a prompt.

    `history` is the mean KL to the final layer in each step of training, in nats; empty where it was loaded.
    """

    model: StandardizedTransformer = field(repr=False)
    translators: nn.ModuleList = field(repr=False)
    history: tuple[float, ...] = field(default=(), repr=False)

    def __call__(self, prompt: Any, **keywords: Any) -> LogitLens:
        """Read every layer's translated stream out; the last layer is the model itself.

        The result is a `LogitLens`: `top`, `rank`, `probability`, `kl_to_final`, a table, a page.  Its streams are those
        that enter each block, and last what leaves the last one.

        >>> lens = train_tuned_lens(model, texts, steps=2)  # or load_tuned_lens(model, folder)
        >>> lens("def f(x):").top(1).tokens[0][0]  # layer 0, first prompt: a guess at every position
        [[...]...
        """
        plain = logit_lens(self.model, prompt, _values(self.model), **keywords)
        with torch.no_grad():
            translated = [self.translate(layer, stream) for layer, stream in enumerate(plain.streams[:-1])]
        streams = (*translated, plain.streams[-1])
        return LogitLens(self.model, plain.values, plain.input_ids, plain.mask, streams, plain.final)

    def translate(self, layer: int, stream: Tensor) -> Tensor:
        """The stream that enters a block, in the terms of the last one, `[..., hidden_size]`."""
        translator: Any = self.translators[within(layer, len(self.translators), "layer", "", InputError)]
        return stream + translator(stream.to(translator.weight.dtype)).to(stream)

    def save(self, folder: str | Path) -> Path:
        """Write `config.json` and `params.pt` as the `tuned-lens` package does.  Returns the folder."""
        place = named_path(folder, "a folder")
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as wrong:
            raise InputError(f"cannot write {str(place)!r}: {wrong.strerror}") from None
        torch.save(self.translators.state_dict(), place / PARAMETERS)
        (place / CONFIG).write_text(json.dumps(self._config(), indent=2) + "\n", encoding="utf-8")
        return place

    def _config(self) -> dict[str, Any]:
        return {
            "base_model_name_or_path": str(getattr(self.model.config, "_name_or_path", "")),
            "d_model": self.model.hidden_size,
            "num_hidden_layers": self.model.num_layers,
            "bias": True,
            "base_model_revision": None,
            "unembed_hash": None,
            "lens_type": KIND,
        }


def load_tuned_lens(model: StandardizedTransformer, folder: str | Path) -> TunedLens:
    """Load translators from a folder of the `tuned-lens` package.

    Raises:
        InputError: there is no such folder, or the lens is of another model: its sizes differ.
        DamagedFile: a file is not what it should be.
    """
    place = named_path(folder, "a folder")
    config, state = _read_config(place), _read_parameters(place)
    wanted = {"d_model": model.hidden_size, "num_hidden_layers": model.num_layers}
    differ = [
        f"{name} {config.get(name)}, the model {size}" for name, size in wanted.items() if config.get(name) != size
    ]
    if differ:
        of = config.get("base_model_name_or_path") or "another model"
        raise InputError(f"the lens in {str(place)!r} was made for {of}: it has {'; '.join(differ)}")
    made = _new(model, bias=bool(config.get("bias", True)))
    try:
        made.load_state_dict({name.removeprefix(OLD_PREFIX): tensor for name, tensor in state.items()})
    except RuntimeError as wrong:
        raise DamagedFile(f"{place / PARAMETERS}: {wrong}") from None
    return TunedLens(model, made.requires_grad_(False))


def train_tuned_lens(
    model: StandardizedTransformer,
    prompts: Sequence[str] | Tensor,
    *,
    steps: int = 200,
    rows: int = 8,
    learning_rate: float = 1e-3,
    seed: int = 0,
) -> TunedLens:
    """Train translators on texts: small ones, for models and texts at hand; minutes, not days.

    Args:
        model: any model whose streams read out; it is not changed.
        prompts: texts, or ids `[rows, seq]`, of which each step takes `rows` at random; hundreds or more serve best.
        steps: steps of Adam, whose learning rate falls linearly from `learning_rate` to zero.
        seed: of the draws.

    Raises:
        InputError: there is nothing to train on.

    Example:
        >>> lens = train_tuned_lens(model, texts, steps=100)
        >>> lens.history[0], lens.history[-1]  # the logit lens's KL, and the tuned lens's
        >>> lens.save("my-lens")
    """
    at_least(1, steps=steps, rows=rows)
    finite(learning_rate=learning_rate)
    if isinstance(prompts, str):
        raise InputError("prompts are a list of texts; this is one text")
    if not len(prompts):
        raise InputError("no prompts to train a lens on")
    lens = TunedLens(model, _new(model, bias=True))
    parameters = list(lens.translators.parameters())
    optimizer = torch.optim.Adam(parameters, lr=learning_rate)
    falling = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / steps)
    draw, history = torch.Generator().manual_seed(seed), []
    for _ in range(steps):
        chosen = torch.randint(len(prompts), (min(rows, len(prompts)),), generator=draw).tolist()
        loss = _loss(lens, prompts[chosen] if isinstance(prompts, Tensor) else [prompts[at] for at in chosen])
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.grad = gradient
        optimizer.step()
        falling.step()
        history.append(float(loss.detach()))
    return TunedLens(model, lens.translators.requires_grad_(False), tuple(history))


def _loss(lens: TunedLens, prompts: Any) -> Tensor:
    """The mean over layers and real tokens of KL(final ‖ translated), in nats."""
    model = lens.model
    found, batch = read(model, prompts, _values(model))
    *streams, final = (found[name] for name in _values(model))
    real = batch.mask.to(final.device)
    with torch.no_grad():
        goal = model.project_on_vocab(final[real]).float().log_softmax(-1)
    losses = []
    with torch.enable_grad():
        for layer, stream in enumerate(streams):
            said = model.project_on_vocab(lens.translate(layer, stream[real])).float().log_softmax(-1)
            losses.append((goal.exp() * (goal - said)).sum(-1).mean())
        return torch.stack(losses).mean()


def _values(model: StandardizedTransformer) -> list[str]:
    """The streams that translators read, one for each block, and the one that needs none."""
    count = model.num_layers
    return [*(f"layers.{layer}.layer_input" for layer in range(count)), f"layers.{count - 1}.layer_output"]


def _new(model: StandardizedTransformer, bias: bool) -> nn.ModuleList:
    """Translators of zeros, in float32 beside the embedding."""
    size = model.hidden_size
    made = nn.ModuleList(nn.Linear(size, size, bias=bias, device=model.device) for _ in range(model.num_layers))
    for parameter in made.parameters():
        nn.init.zeros_(parameter)
    return made


def _read_config(place: Path) -> dict[str, Any]:
    if not (place / CONFIG).is_file():
        raise InputError(f"no tuned lens in {str(place)!r}: it should hold {CONFIG} and {PARAMETERS}")
    try:
        config = json.loads((place / CONFIG).read_text(encoding="utf-8"))
    except ValueError as wrong:
        raise DamagedFile(f"{place / CONFIG}: {wrong}") from None
    if config.get("lens_type", KIND) != KIND:
        raise InputError(f"{str(place)!r} holds a lens of type {config['lens_type']!r}; what is read here is {KIND!r}")
    return dict(config)


def _read_parameters(place: Path) -> dict[str, Tensor]:
    """The state dict; nothing but tensors is unpickled."""
    try:
        return dict(torch.load(place / PARAMETERS, map_location="cpu", weights_only=True))
    except FileNotFoundError:
        raise InputError(f"no {PARAMETERS} in {str(place)!r}") from None
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError) as wrong:
        raise DamagedFile(f"{place / PARAMETERS} is no state dict of tensors: {wrong}") from None
