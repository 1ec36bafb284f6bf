"""Which module plays which role, told by what the modules did in the probe, not by their names.

The attention is the module that made an attention call.  What adds to the stream is found by least squares (`sums`); what a
norm is, by the two tensors that it stands between; a projection of queries or keys by their first position, where every
rotary's angle is 0 and turns nothing.  Names are never looked at, so that `thinker` may be an MLP.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor, nn

from nnatlas.bind.sizes import width_in
from nnatlas.engine.payloads import Result
from nnatlas.guess import sums
from nnatlas.guess.probe import Note, Probe, same


@dataclass(slots=True)
class Block:
    """What was found in one block: roles as paths below it, and the sum it makes."""

    path: str
    roles: dict[str, str] = field(default_factory=dict)
    total: sums.Sum | None = None
    parallel: bool = False
    heads: dict[str, str] = field(default_factory=dict)  # value -> cell, where heads are not split as Llama's are
    written: dict[str, tuple[str, float]] = field(default_factory=dict)  # value -> role whose output it is, factor


def stack(module: nn.Module, probe: Probe) -> str | None:
    """The path of the list of blocks: each is given what the one before it returned; of several lists the heaviest."""
    lists = [(path, part) for path, part in module.named_modules() if isinstance(part, nn.ModuleList) and len(part)]
    chained = [(path, part) for path, part in lists if _is_chain(probe, path, len(part))]
    return max(chained, key=lambda item: _weight(item[1]))[0] if chained else None


def _weight(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _is_chain(probe: Probe, path: str, count: int) -> bool:
    found = [note for at in range(count) if (note := probe.notes.get(f"{path}.{at}")) is not None]
    if len(found) < count or any(note.given is None or note.given.ndim != 3 for note in found):
        return False
    return all(same(later.given, earlier.returned) for earlier, later in pairwise(found))


def block(probe: Probe, path: str) -> Block:
    """The roles inside one block.

    The last of the outputs that make the sum is the MLP's, the first the attention's, or a norm on what one of them wrote.
    A role for which nothing fits is left out: the row then says that it is absent, and the laws decide what that costs.
    """
    whole, inside = probe.notes[path], probe.under(path)
    found = Block(path)
    entering, leaving = whole.given, whole.returned
    assert entering is not None and leaving is not None
    attention = next((probe.notes[at] for at in probe.attentions if at.startswith(f"{path}.")), None)
    found.total = sums.find(leaving - entering, inside)
    last = found.total.parts[-1] if found.total else None
    first = found.total.parts[0] if found.total and len(found.total.parts) > 1 else None
    if attention is not None:
        _attention(found, probe, attention, first, entering)
    worker = _worker(last, inside, attention) if last is not None and last is not attention else None
    if worker is not None and last is not None and not _mixes(worker):
        mlp = _home(probe, path, worker) if _projects(worker) else worker
        _mlp(found, probe, mlp, worker, last, _middle(found, entering), entering)
    return found


def _home(probe: Probe, block: str, down: Note) -> Note:
    """The module that a down projection belongs to where it is the projection that adds: the next one above, or the block."""
    above = down.path.rpartition(".")[0]
    while above != block and above not in probe.notes:  # a list of modules is called by nobody
        above = above.rpartition(".")[0]
    return probe.notes[above]


def _attention(found: Block, probe: Probe, attention: Note, writes: Note | None, entering: Tensor) -> None:
    """Who plays which part in an attention, by what they did in the probe forward.

    The output projection returns what the attention returns; a query projection made the numbers that the attention call was
    given, or made what the norm before them read.
    """
    inside, inner = probe.under(found.path), probe.under(attention.path)
    _name(found, "self_attn", attention)
    _name(found, "attention_norm", _between(inside, entering, attention.given))
    _name(found, "o_proj", _first(inner, lambda n: _projects(n) and same(n.returned, attention.returned)), attention)
    _written(found, "attention_output", "self_attn", "attention_post_norm", attention, writes, 0)
    if attention.path in probe.sinks:
        found.heads["attention_scores"] = "attention > scores as batch num_heads query key_and_sink"
    queries, keys, values, _ = probe.attentions[attention.path]
    for role, heads in (("q", queries), ("k", keys), ("v", values)):
        making = [note for note in inner if _makes(note.returned, heads)]
        linear, normed = _first(making, _projects), _first(making, lambda note: not _projects(note))
        if role != "v" and normed is not None:
            before = [note for note in inner if _projects(note) and _flat(note.returned, normed.given)]
            linear = linear or (before[0] if before else None)
            _name(found, f"{role}_norm", normed, attention)
            _split(found, role, normed, heads)
        _name(found, f"{role}_proj", linear, attention)
        if linear is None and any(_piece(note, heads) for note in inner if _projects(note)):
            found.heads |= _UNROTATED.get(role, {})


_UNROTATED = {
    "q": {"unrotated_queries": "same as attention_queries"},
    "k": {"unrotated_keys": "same as attention_keys"},
}


def _piece(fused: Note, heads: Tensor) -> bool:
    """Whether a fused projection's output holds these heads side by side as they enter attention, so that nothing turned them."""
    flat = heads.transpose(1, 2).flatten(2)
    width = flat.shape[-1]
    if fused.returned is None or fused.returned.ndim != 3 or fused.returned.shape[:2] != flat.shape[:2]:
        return False
    starts = range(0, fused.returned.shape[-1] - width + 1, heads.shape[-1])
    return any(same(fused.returned[..., at : at + width], flat) for at in starts)


def _split(found: Block, role: str, normed: Note, heads: Tensor) -> None:
    """How a norm on queries or keys has them: every head apart after positions, before them, or all in one axis."""
    name, count = ("unrotated_queries", "num_heads") if role == "q" else ("unrotated_keys", "num_kv_heads")
    assert normed.returned is not None
    if normed.returned.ndim == 3:
        found.heads[name] = f"{role}_norm > out : batch seq ({count} qk_head_dim)"
    elif normed.returned.shape == heads.shape:
        found.heads[name] = f"{role}_norm > out"


def _mlp(
    found: Block, probe: Probe, mlp: Note, worker: Note, writes: Note, middle: Tensor | None, entering: Tensor
) -> None:
    """The MLP's roles; `worker` computes what `writes` adds: the MLP itself, or a down projection that adds on its own."""
    inside, inner = probe.under(found.path), probe.under(mlp.path)
    _name(found, "mlp", mlp)
    down = _first(inner, lambda n: _projects(n) and same(n.returned, worker.returned))
    neurons = down.given if down is not None else None
    act = _first(inner, lambda note: _plain(note) and _as_wide(note, neurons))
    wide = [note for note in inner if _projects(note) and _as_wide(note, neurons)]
    gate = next((n for n in wide if act is not None and same(n.returned, act.given)), None)
    up = next((n for n in wide if n is not gate), gate)
    read = mlp.given
    if mlp.path == found.path:  # its layers hang on the block itself
        read = up.given if up is not None else None
        found.heads["mlp_input"] = "up_proj > in"
    norm = _between(inside, middle, read)
    if norm is None and (norm := _between(inside, entering, read)) is not None:
        found.parallel = True
    found.parallel = found.parallel or same(read, entering)
    _name(found, "mlp_norm", norm)
    if worker is mlp:
        _written(found, "mlp_output", "mlp", "mlp_post_norm", mlp, writes, -1)
    else:
        _written(found, "mlp_output", "down_proj", "mlp_post_norm", worker, writes, -1)
    for role, note in (("down_proj", down), ("act_fn", act), ("up_proj", up)):
        _name(found, role, note, mlp)
    _name(found, "experts", _first(inner, lambda n: any(p.ndim == 3 for p in n.module.parameters(recurse=False))), mlp)
    _name(found, "router", _first(inner, lambda n: n.chooses), mlp)


def _as_wide(note: Note, neurons: Tensor | None) -> bool:
    return neurons is not None and note.returned is not None and note.returned.shape == neurons.shape


def _written(found: Block, value: str, role: str, norm: str, worker: Note, writes: Note | None, at: int) -> None:
    """What adds to the stream: the worker itself, or a norm on what it wrote."""
    if writes is None or found.total is None:
        return
    if not same(writes.returned, worker.returned):
        _name(found, norm, writes)
        role = norm
    found.written[value] = (role, found.total.factors[at])


def _worker(writes: Note, inside: list[Note], attention: Note | None) -> Note | None:
    """The module that computed what `writes` adds: itself if it has matrices, else the one whose output it norms."""
    if _works(writes):
        return writes
    able = [n for n in inside if n is not attention and _works(n) and same(n.returned, writes.given)]
    return min(able, key=lambda note: note.path.count("."), default=None)


def _mixes(note: Note) -> bool:
    """Whether a module mixes tokens, as no MLP does: called on the later positions alone, it answers otherwise."""
    if note.given is None or note.returned is None or note.given.ndim != 3:
        return False
    half = note.given.shape[1] // 2
    try:
        with torch.no_grad():
            alone = Result(note.module(note.given[:, half:])).get(None)
    except Exception:  # noqa: BLE001  a module that wants more than its stream cannot be asked this way
        return False
    return not same(alone, note.returned[:, half:])


def _middle(found: Block, entering: Tensor) -> Tensor | None:
    """The stream between the contributions, `[batch, seq, hidden_size]`: what entered plus all but the last; None if one is all."""
    total = found.total
    if total is None or len(total.parts) < 2:
        return None
    middle = entering
    for part, factor in list(zip(total.parts, total.factors, strict=True))[:-1]:
        middle = middle + part.returned * factor if part.returned is not None else middle
    return middle


def _between(inside: Iterable[Note], before: Tensor | None, after: Tensor | None) -> Note | None:
    """The norm that was given one tensor and returned another."""
    return _first(inside, lambda n: same(n.given, before) and same(n.returned, after) and not _works(n))


def _makes(returned: Tensor | None, heads: Tensor) -> bool:
    """Whether an output is these heads `[batch, heads, seq, width]` at the first position, which no rotary turns."""
    if returned is None or returned.numel() != heads.numel() or returned.shape[0] != len(heads):
        return False
    if returned.ndim == 3:
        returned = returned.unflatten(-1, (heads.shape[1], -1))
    turned = returned if returned.shape == heads.shape else returned.transpose(1, 2)
    return same(turned[:, :, 0], heads[:, :, 0])


def _flat(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether two outputs hold the same numbers, whatever their heads' axes."""
    if one is None or other is None or one.ndim < 3 or one.shape[:2] != other.shape[:2]:
        return False
    return same(one.flatten(2), other.flatten(2))


def _works(note: Note) -> bool:
    """Whether a module has matrices of its own or below: a norm or an activation has none."""
    return any(parameter.ndim > 1 for parameter in note.module.parameters())


def _projects(note: Note) -> bool:
    return width_in(note.module) is not None and not list(note.module.children())


def _plain(note: Note) -> bool:
    """An activation: no matrices, and its output differs from its input."""
    return not _works(note) and not same(note.given, note.returned) and note.given is not None


def _first(notes: Iterable[Note], wanted: Callable[[Note], bool]) -> Note | None:
    return next((note for note in notes if wanted(note)), None)


def _name(found: Block, role: str, note: Note | None, host: Note | None = None) -> None:
    """Write a role down, as a path below its host."""
    if note is not None:
        start = host.path if host is not None else found.path
        found.roles[role] = note.path[len(start) + 1 :] if note.path != start else "block"


def head(probe: Probe, last: Note, head_path: str) -> tuple[str | None, Tensor | None]:
    """The path of the final norm, and what it returned."""
    head_note = probe.notes.get(head_path)
    outside = [n for n in probe.notes.values() if n.began > last.ended and not _works(n)]
    entering = head_note.given if head_note is not None else None
    found = _first(outside, lambda n: same(n.given, last.returned))
    if found is None:
        return None, last.returned if same(entering, last.returned) else None
    return found.path, found.returned


__all__ = ["Block", "block", "head", "stack"]
