"""A block's equations in the names of values, read off an outline: which norm reads what, what is added, what the sum makes.

The laws `chain` and `residual` are what proves them; a line whose value the row excepts from `chain` is left out.

    mlp_norm_output = post_attention_layernorm(layer_mid)
    mlp_output = mlp(mlp_norm_output) · residual_multiplier
    layer_output = layer_mid + mlp_output
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from nnatlas import places
from nnatlas.encyclopedia.outline import Bound, Variant
from nnatlas.places import Factor, Side, Term

MIXERS = ("self_attn", "linear_attn")
_USUAL = "layer_input + attention_output + mlp_output = layer_output"


def equations(variant: Variant, excepted: Collection[str] = ()) -> tuple[str, ...]:
    """The lines for one sort of block; `excepted` are keys of values that the chain law leaves out."""
    lines = [
        (key, line) for key, line in (*_mixing(variant), *_widening(variant), *_sum(variant)) if key not in excepted
    ]
    return tuple(dict.fromkeys(line for _, line in lines))


def _mixing(variant: Variant) -> Iterator[tuple[str, str]]:
    """The norm in front of the mixers, what each adds, and the stream after it."""
    bound = variant.bound
    yield from _norm(bound, "attention_norm", "layer_input")
    for part in MIXERS:
        key = f"{part}.attention_output"
        if key in bound.cells:
            name = key if key in variant.identity else "attention_output"
            yield key, f"{name} = {contribution(bound, part, key, _read(bound, 'attention_norm', 'layer_input'))}"
    if "block.layer_mid" in bound.cells and variant.identity == _USUAL:
        yield "block.layer_mid", "layer_mid = layer_input + attention_output"


def _widening(variant: Variant) -> Iterator[tuple[str, str]]:
    """The norm in front of the MLP, and what the MLP adds."""
    bound = variant.bound
    stream = "layer_mid" if "block.layer_mid" in bound.cells else "layer_input"
    if bound.has("mlp.mlp_output"):
        yield from _norm(bound, "mlp_norm", stream)
        read = _read(bound, "mlp_norm", stream)
        yield "mlp.mlp_output", f"mlp_output = {contribution(bound, 'mlp', 'mlp.mlp_output', read)}"


def _norm(bound: Bound, role: str, stream: str) -> Iterator[tuple[str, str]]:
    """`mlp_norm_output = post_attention_layernorm(layer_mid)`, where a module of that role is what makes it."""
    name = f"{role}_output"
    cell = bound.cells.get(f"block.{name}", "")
    if role not in bound.roles or _path(cell) != role or _has_streams(bound):
        return
    shared = role == "mlp_norm" and bound.roles[role] == bound.roles.get("attention_norm")
    yield f"block.{name}", f"{name} = {'attention_norm_output' if shared else f'{bound.roles[role]}({stream})'}"


def _has_streams(bound: Bound) -> bool:
    """Whether the stream has several copies, which something puts together before the norm."""
    return "streams" in bound.sizes or "streams" in bound.layouts.get("block.layer_input", "")


def _read(bound: Bound, role: str, stream: str) -> str:
    """What a sublayer reads: the normed stream, where there is one."""
    return f"{role}_output" if f"block.{role}_output" in bound.cells else stream


def contribution(bound: Bound, part: str, key: str, read: str) -> str:
    """What a part adds as a formula: `post_norm(mlp(mlp_norm_output)) · residual_multiplier`."""
    place = places.parse(bound.cells[key])
    called, path = f"{bound.roles.get(part, part)}({read})", _path(bound.cells[key])
    if path.endswith("_post_norm"):
        called = f"{bound.roles[path]}({called})"
    elif path != part:
        called = f"the output of {native(path, bound)}" if path else f"what {bound.roles.get(part, part)} adds"
    return called + "".join(map(factor_words, place.factors))


def _path(cell: str) -> str:
    """The module that a cell reads at, or the empty string for any other kind of place."""
    source = places.parse(cell).source if cell else None
    return source.path if isinstance(source, Side) else ""


def native(path: str, bound: Bound) -> str:
    """A cell's path with native names for its roles."""
    head, dot, rest = path.removeprefix("block.").partition(".")
    return bound.roles.get(head, head) + dot + rest


def factor_words(factor: Factor) -> str:
    """` · residual_multiplier`, ` / √width`."""
    name = factor.said.replace("block.", "")
    plain = factor.name.removeprefix("block.")
    return f" {'/' if factor.divides else '·'} {f'√{plain}' if factor.root and not factor.less else name}"


def _sum(variant: Variant) -> Iterator[tuple[str, str]]:
    """What leaves the block; a factor on the whole stream stays on its side, as the row states it."""
    if not variant.identity:
        return
    *terms, made = places.identity(variant.identity)
    if variant.identity == _USUAL and "block.layer_mid" in variant.bound.cells:
        yield "", "layer_output = layer_mid + mlp_output"
    elif made.factors:
        yield "", f"{_added(terms, variant)} = {_term(made, variant)}"
    else:
        yield "", f"{made.value} = {_added(terms, variant)}"


def _added(terms: list[Term], variant: Variant) -> str:
    """Summands as a sum."""
    return " + ".join(_term(term, variant) for term in terms)


def _term(term: Term, variant: Variant) -> str:
    """One summand: a value times its factors, or the output of a module that has no value."""
    if term.place is not None and isinstance(term.place.source, Side):
        return f"the output of {native(term.place.source.path, variant.bound)}"
    return term.value + "".join(map(factor_words, term.factors))
