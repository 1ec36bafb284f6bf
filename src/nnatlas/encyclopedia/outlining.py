"""Making outlines: a flagship's shape is built on the meta device and bound, and the tiny model is run for what only a run shows.

Nothing here computes with real weights of the flagship; a model of any size takes a second or two and little memory.

Two models meet in an outline: the flagship's on the meta device says how many blocks of which sort there are and where every
value is bound; the tiny one, which runs, says what blocks of each sort do.  They are matched by kinds and by the config's
per-block lists.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import torch

from nnatlas import families
from nnatlas.bind.cells import resolve
from nnatlas.bind.tree import Host
from nnatlas.check.trial import identity_of
from nnatlas.encyclopedia.behaviour import Behaviour, behaviour, sample, says
from nnatlas.encyclopedia.course import BESIDE, PLUS, from_data, to_data
from nnatlas.encyclopedia.flagships import SMALL, Flagship, configuration, drawn, flagship
from nnatlas.encyclopedia.outline import Bound, Outline, Variant
from nnatlas.encyclopedia.printout import folded
from nnatlas.model import StandardizedTransformer, load
from nnatlas.model.printing import Tree
from nnatlas.places import Absent
from nnatlas.traits.fingerprint import of_type

_WITHOUT: Final = frozenset(
    "transformers_version return_dict output_attentions output_hidden_states chunk_size_feed_forward problem_type id2label "
    "label2id is_encoder_decoder use_cache initializer_range architectures model_type _name_or_path".split()
)
"""Config fields that say nothing of what the model computes."""


def outline(model_type: str) -> Outline:
    """A type's outline, made anew from its flagship's shape; errors are those of building and binding the model."""
    _make_known(model_type)
    shown, picture = flagship(model_type), drawn(model_type)
    model, built = _on_meta(model_type, shown)
    seen = behaviour(model_type)
    made = outline_of(model, model_type, built.checkpoint, built.known, seen)
    if picture == shown:
        return made
    stack, label = _on_meta(model_type, picture)
    return replace(made, variants=tuple(_variants(stack, seen)), drawn=label.checkpoint)


def outline_of(model: StandardizedTransformer, model_type: str, name: str, known: str, seen: Behaviour) -> Outline:
    """The outline of a model at hand; `seen` is what a run of its type's tiny model showed."""
    family = model._owner.family
    return Outline(
        model_type=model_type,
        family=family.name,
        row=of_type(model_type, family.name) if model_type in families.rows() else "",
        checkpoint=name,
        known=known,
        model=type(model._module).__name__,
        root=_bound(model._owner.root, [model._owner.root]),
        variants=tuple(_variants(model, seen)),
        config=_config(model._owner.config),
        printout=folded((line.plain.rstrip() for line in Tree(model).lines()), family.notes),
        plain=seen.plain,
        facts=seen.facts,
        **_tower(model._owner.vision),
        versions=_versions(),
    )


def _tower(tower: Any) -> dict[str, Any]:
    """The tower in front of a model and its projector, and what its blocks serve."""
    if tower is None:
        return {}
    hosts = [tower.root, *([tower.projector] if tower.projector is not None else [])]
    first = tower.blocks[:1]  # a tower may serve its ends alone
    blocks = [_bound(block, [block, *block.parts.values()]).cells for block in first]
    return {"vision": _bound(tower.root, hosts), "in_tower": tuple(key for cells in blocks for key in cells)}


def _make_known(model_type: str) -> None:
    """Import what makes a type known to transformers, where that is not transformers itself."""
    row = families.find(model_type)
    if row is not None and row.defined_in:
        importlib.import_module(row.defined_in)


def _versions() -> dict[str, str]:
    import transformers

    return {"torch": torch.__version__.partition("+")[0], "transformers": transformers.__version__}


def _on_meta(model_type: str, shown: Flagship) -> tuple[StandardizedTransformer, Flagship]:
    """The model of that shape without weights, and whose shape it is.

    Of a wrapper that transformers does not build from a config alone, the text model; where the class's defaults build nothing
    at all, the small model of the type.
    """
    with torch.device("meta"):
        for part in ("whole", "text"):
            try:
                config, name = configuration(model_type, shown)
                config = config if part == "whole" else config.get_text_config(decoder=True)
                return load(config), replace(shown, checkpoint=name)
            except Exception:
                if shown.checkpoint:
                    raise
    return sample(model_type), Flagship("", SMALL)


# -- blocks ------------------------------------------------------------------------------------------------------------


def _variants(model: StandardizedTransformer, seen: Behaviour) -> Iterator[Variant]:
    """The sorts of block, in the order in which they first come."""
    groups: dict[Any, list[Host]] = {}
    for block in model._owner.blocks:
        groups.setdefault(_looks(block), []).append(block)
    for blocks in groups.values():
        first = blocks[0]
        identity = identity_of(first)
        said = says(first)
        yield Variant(
            blocks=tuple(block.index or 0 for block in blocks),
            bound=_bound(first, [first, *first.parts.values()]),
            kinds=first.kinds,
            says=said,
            identity="" if isinstance(identity, Absent) else identity,
            no_identity=identity.reason if isinstance(identity, Absent) else "",
            facts=_fitting(first, seen.of(first.kinds, said)) | _window(model._owner.config),
        )


def _fitting(block: Host, facts: dict[str, Any]) -> dict[str, Any]:
    """What was seen of a block of the tiny model, as far as this one is made of the same modules.

    A tiny model has every optional part, such as a shared MLP, that a checkpoint's config may leave out.
    """
    there = {path for path, _ in block.module.named_modules()} | {PLUS}
    steps = from_data(facts.get("course", ()))
    for step in steps:
        step.adds = [add for add in step.adds if set(add.chain) <= there or BESIDE in "".join(add.chain)]
    kept = [step for step in steps if step.adds or step.stands]
    return facts | ({"course": to_data(kept)} if kept else {})


def _window(config: Any) -> dict[str, int]:
    """The width of sliding windows, where the config states one."""
    width = getattr(config, "sliding_window", None)
    return {"window": width} if isinstance(width, int) and not isinstance(width, bool) else {}


def _looks(block: Host) -> Any:
    """What tells blocks apart: their kinds and classes, sizes of their parts, and what the config lists of them."""
    parts = tuple((name, type(part.module), tuple(part.sizes.items())) for name, part in block.parts.items())
    return block.kinds, type(block.module), parts, tuple(says(block).items())


def _bound(top: Host, hosts: Sequence[Host]) -> Bound:
    """Roles, cells and absences of a block and its parts, or of the model."""
    roles, classes, cells, absent, layouts = ({} for _ in range(5))  # type: ignore[var-annotated]  # told below
    for host in hosts:
        classes[host.kind] = type(host.module).__name__
        roles |= {name: _below(top, at[1]) for name, at in host.roles.items() if isinstance(at, tuple)}
        classes |= {name: type(at[0]).__name__ for name, at in host.roles.items() if isinstance(at, tuple)}
        for value in host.values.values():
            place, why = resolve(host, value), host.absence(value.name)
            if why is not None or isinstance(place, Absent):  # a cell may name the place of a value that is absent here
                absent[value.key] = why or str(place)
                continue
            cells[value.key] = place.text
            layout = host.point(value.name).layout
            if layout != value.layout:
                layouts[value.key] = str(layout)
    absent |= {name: at.reason for host in hosts for name, at in host.roles.items() if isinstance(at, Absent)}
    sizes = {axis: size for host in hosts for axis, size in host.sizes.items() if isinstance(size, int)}
    return Bound(roles, classes, cells, absent, layouts, sizes)


def _below(top: Host, path: str) -> str:
    """A module's path from a block, or from the root."""
    return path.removeprefix(f"{top.path}.") if top.path else path


# -- config ------------------------------------------------------------------------------------------------------------


def _config(config: Any) -> dict[str, Any]:
    """The fields of a config that say something of the model, flat, lists told shortly."""
    from transformers import PreTrainedConfig

    usual = PreTrainedConfig().to_dict()
    fields = {"architectures": config.architectures, **config.to_dict()}
    kept = {
        name: value
        for name, value in fields.items()
        if name not in _WITHOUT and not name.startswith("_") and (name not in usual or usual[name] != value)
    }
    return dict(_flat(kept))


def _flat(fields: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, dict):
            if not above and len(value) < 12:
                yield from _flat(value, f"{name}.")
        elif value is not None:
            yield above + name, _short(value) if isinstance(value, list | tuple) else value


def _short(entries: Sequence[Any]) -> str:
    """`[a, a, a, b]` as `3 × a, 1 × b` where a few things are said of many blocks."""
    counts = Counter(map(str, entries))
    if len(entries) > 4 and len(counts) <= 4:
        return ", ".join(f"{count} × {entry}" for entry, count in counts.items())
    return ", ".join(map(str, entries)) if len(entries) <= 12 else f"{len(entries)} entries"
