"""Who reads what inside a block: found on one forward of the tiny model, by least squares, never told by hand.

A block's modules are watched while it runs.  Everything of the stream's size that a module receives is then solved for as a sum
of what was there before: the stream as it entered, and what the modules called so far have given,

    input of post_attention_layernorm  =  1 · layer_input + 0.22 · self_attn

The forward has more numbers (two rows of twelve tokens times the width) than a block has modules, so that the answer is the only
one, and an input that is no such sum leaves a rest and is kept as unknown.  Where one number for each module does not explain an
input, one for each module and channel is tried: that is how per-channel scales of the stream (Doge, Zaya) are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from nnatlas.bind.tree import Host
from nnatlas.encyclopedia.course import CHANNELS, ENTERS, Seen, Sum
from nnatlas.encyclopedia.outline import SOFTMAX

OUTPUT: Final = " output "
REST: Final = 1e-4
"""How large the unexplained part may be beside the whole: rounding of float32."""
SKIPPED: Final = ("dropout", "identity", "rotary", "drop_path")


@dataclass(slots=True)
class _Watch:
    """What one forward passes through a block, in the order of calls.

    `given` holds of every call its path, class, inputs and outputs, each `[tokens size]` in float64; `enters` and `leaves` are the
    block's own input and output.  `running` is the stack of paths that are being called, `sizes` how many numbers went in and out.
    """

    given: list[tuple[str, str, list[Tensor], list[Tensor]]] = field(default_factory=list)
    enters: list[Tensor] = field(default_factory=list)
    leaves: list[Tensor] = field(default_factory=list)
    calls: dict[str, list[str]] = field(default_factory=dict)
    running: list[str] = field(default_factory=list)
    sizes: dict[tuple[str, str], tuple[int, ...]] = field(default_factory=dict)

    def call(self, path: str, name: str, module: nn.Module, into: Any, out: Any) -> None:
        """A module inside one of the block's was called; a norm of what the last one reads marks that the mixing is over."""
        self.calls[path].append(name)
        self.sizes[path, name] = tuple(sum(one.numel() for one in _numbers(held)) for held in (into, out))

    def keep(self, path: str, name: str, into: list[Tensor], out: list[Tensor]) -> None:
        self.given.append((path, name, into, out))


def wirings(blocks: Sequence[Host], run: Callable[[], Any]) -> list[dict[str, Any]]:
    """What was seen of each block: `wiring`, its modules with what they read; `leaves`, its output as a sum; `calls`.

    `calls` are the modules inside each module of the block, in the order in which they are called, and `SOFTMAX` among them.
    """
    watches: list[_Watch] = [_Watch() for _ in blocks]
    hooks: list[Any] = []
    try:
        for block, watch in zip(blocks, watches, strict=True):
            hooks += _listen(block, watch)
        with torch.no_grad(), _Softmax(watches):
            run()
    finally:
        for hook in hooks:
            hook.remove()
    return [_explained(watch) for watch in watches]


class _Softmax(TorchFunctionMode):
    """Notes in the calls of whatever part is running that a softmax is taken."""

    def __init__(self, watches: Sequence[_Watch]) -> None:
        super().__init__()
        self.watches = watches

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(function, "__name__", "") == "softmax":
            for watch in self.watches:
                for path in watch.running[-1:]:
                    watch.calls[path].append(SOFTMAX)
        return function(*args, **(kwargs or {}))


# -- watching ----------------------------------------------------------------------------------------------------------


def _listen(block: Host, watch: _Watch) -> Iterator[Any]:
    """Hooks on a block, on the modules in it and, only for their order, on those inside these."""
    for path, module in _nodes(block):
        yield from _on(module, partial(watch.keep, path, type(module).__name__))
        watch.calls[path] = []
        yield module.register_forward_pre_hook(lambda *_, at=path, watch=watch: watch.running.append(at))
        yield module.register_forward_hook(lambda *_, watch=watch: watch.running.pop() and None)
        for name, child in _expanded(module):
            if not _passing(child):
                yield child.register_forward_hook(partial(watch.call, path, name))

    def whole(into: list[Tensor], out: list[Tensor]) -> None:
        if not watch.enters:  # a block that runs several times is told by its first pass
            watch.enters, watch.leaves = into[:1], out[:1]

    yield from _on(block.module, whole)


def _on(module: nn.Module, told: Callable[[list[Tensor], list[Tensor]], None]) -> Iterator[Any]:
    """Hooks that tell what a module is called with and gives, both as they are at that moment."""
    held: list[list[Tensor]] = []
    yield module.register_forward_pre_hook(
        lambda _, args, kwargs: held.append(list(_numbers((args, tuple(kwargs.values()))))), with_kwargs=True
    )
    yield module.register_forward_hook(lambda _, args, out: told(held.pop(), list(_numbers(out))))


def _numbers(found: Any) -> Iterator[Tensor]:
    """The tensors of real numbers among what is passed, `[tokens size]`, copied: the forward may overwrite them."""
    if isinstance(found, tuple | list):
        for one in found:
            yield from _numbers(one)
    elif isinstance(found, Tensor) and found.is_floating_point() and found.ndim > 1:
        yield found.detach().double().clone().flatten(0, -2)


def parts_of(block: Host) -> frozenset[str]:
    """The paths of a block's attention, mixer and MLP, below the block."""
    return frozenset(part.path.removeprefix(f"{block.path}.") for part in block.parts.values())


def _nodes(block: Host) -> Iterator[tuple[str, nn.Module]]:
    """The modules directly in a block; of one that only holds an attention or MLP, those inside it."""
    parts = parts_of(block)
    for path, module in _expanded(block.module):
        if any(part.startswith(f"{path}.") for part in parts):
            yield from ((f"{path}.{name}", inner) for name, inner in _expanded(module) if not _passing(inner))
        elif not _passing(module):
            yield path, module


def _expanded(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """A module's children; of lists and dictionaries of modules, their entries."""
    for name, child in module.named_children():
        if isinstance(child, nn.ModuleList | nn.ModuleDict):
            yield from ((f"{name}.{inner}", one) for inner, one in child.named_children())
        else:
            yield name, child


def _passing(module: nn.Module) -> bool:
    return any(word in type(module).__name__.lower() for word in SKIPPED)


# -- explaining --------------------------------------------------------------------------------------------------------


def _explained(watch: _Watch) -> dict[str, Any]:
    if not watch.enters or not watch.leaves:
        return {}
    atoms: dict[str, Tensor] = {ENTERS: watch.enters[0]}
    nodes: list[Seen] = []
    for path, name, into, out in watch.given:
        nodes.append(Seen(path, name, _reads(into, atoms)))
        for at, one in enumerate(out if path not in atoms else ()):
            if not _known(one, atoms):
                atoms[f"{path}{OUTPUT}{at}" if at else path] = one
    called = {path: _in_order(names, path, watch) for path, names in watch.calls.items() if names}
    return {"wiring": nodes, "leaves": _by_module(explained(watch.leaves[0], atoms)), "calls": called}


def _in_order(names: list[str], path: str, watch: _Watch) -> list[str]:
    """Each module at its first call; the softmax at its last, as one for a router may come before the pattern's.

    A mixer takes no softmax: where the last module reads as many numbers as a norm before it gives, the mixing came before them.
    """
    last = max((at for at, name in enumerate(names) if name == SOFTMAX), default=-1)
    ordered = list(dict.fromkeys(name for at, name in enumerate(names) if name != SOFTMAX or at == last))
    if last < 0 and len(ordered) > 2 and "norm" in ordered[-2]:
        reads, gives = watch.sizes[path, ordered[-1]][0], watch.sizes[path, ordered[-2]][1]
        if reads == gives:
            ordered.insert(-2, SOFTMAX)
    return ordered


def _by_module(said: Sum | None) -> Sum | None:
    """Whichever of its outputs a module is read by."""
    return said and {name.partition(OUTPUT)[0]: number for name, number in said.items()}


def _reads(into: list[Tensor], atoms: Mapping[str, Tensor]) -> tuple[Sum | None, ...]:
    """Every input as a sum, each once; None for the rest together, masks and rotary tables left out."""
    found: list[Sum | None] = []
    for one in into:
        said = _by_module(explained(one, atoms))
        if said not in found and (said or one.numel() == atoms[ENTERS].numel()):
            found.append(said)
    return tuple(found) or (None,)


def _known(out: Tensor, atoms: Mapping[str, Tensor]) -> bool:
    """Whether a module gives what is there already: it passes something on."""
    same = [one for one in atoms.values() if one.numel() == out.numel()]
    return any(_rest(out.reshape(one.shape) - one, one) < REST for one in same)


def explained(whole: Tensor, atoms: Mapping[str, Tensor]) -> Sum | None:
    """A tensor as the sum of some of the atoms, each times a number; None where it is none.

    Shapes: `whole` and all atoms have as many numbers, `[tokens hidden_size]`.  The sum is found by least squares over all
    numbers at once, then over the tokens of each channel.

    >>> x, y = torch.eye(4, 3), torch.ones(4, 3)
    >>> explained(x + 0.5 * y, {"x": x, "y": y})
    {'x': 1, 'y': 0.5}
    """
    atoms = {name: one for name, one in atoms.items() if one.numel() == whole.numel()}
    if not atoms:
        return None
    shape = next(iter(atoms.values())).shape
    whole, columns = whole.reshape(shape), torch.stack([one.reshape(shape) for one in atoms.values()], -1)
    numbers = torch.linalg.lstsq(columns.flatten(0, 1), whole.flatten()[:, None]).solution[:, 0]
    if _rest(columns @ numbers - whole, whole) < REST:
        return {name: _tidy(float(one)) for name, one in zip(atoms, numbers, strict=True) if abs(one) > REST}
    return _by_channel(whole, columns, list(atoms))


def _by_channel(whole: Tensor, columns: Tensor, names: list[str]) -> Sum | None:
    if len(whole) < 3 * len(names):  # too few tokens to tell a law from a coincidence
        return None
    each = torch.linalg.lstsq(columns.transpose(0, 1), whole.T[..., None]).solution  # [hidden atoms 1]
    rest = (columns.transpose(0, 1) @ each)[..., 0].T - whole
    if _rest(rest, whole) > REST:
        return None
    return {
        name: _tidy_channels(each[:, at, 0])
        for at, name in enumerate(names)
        if float(each[:, at].abs().max()) > 10 * REST
    }


def _tidy_channels(numbers: Tensor) -> float | str:
    one = float(numbers.mean())
    return _tidy(one) if float((numbers - one).abs().max()) < 10 * REST else CHANNELS


def _tidy(number: float) -> float:
    """Without rounding's last digits."""
    return round(number) if abs(number - round(number)) < REST else round(number, 3)


def _rest(rest: Tensor, whole: Tensor) -> float:
    return float(rest.norm() / whole.norm().clamp_min(1e-12))
