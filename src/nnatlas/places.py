"""The place language: the short strings in which a family says where its values are read.

    o_proj > in : batch seq (num_heads head_dim)          a module's input, its last axis split into heads
    self_attn > out[0] * residual_multiplier              one element of an output, times a number the config states
    attention > query                                     a point inside the attention call
    attentions > query                                    the same where one forward makes a call for each image or window:
                                                          all of them together; `groups` says which patch is in which call
    self_attn ~ softmax[0] > in                           the input of the first torch softmax in that module's forward
    qkv_proj > out : batch seq (num_heads 3 head_dim) -> 0    one part of a fused projection
    linear_attn calls chunk_rule|step_rule > in.query     an argument of the first call of a named function (or the one of
                                                          several that is called) while that module's forward runs
    linear_attn calls scan > out[1] or step > after.state     each function with a side of its own; `after` is an argument as
                                                          the call leaves it, `nothing` what a function has no place for
    next_token_probs(logits)                              computed by a named function from values, or from places
    same as attention_queries                             the very place of another value

In a path `#` stands for the block's number, for parts that are kept in lists beside the blocks (`root.transformer.ffns.#`).
An axis `seq?` is one that a call for a single token leaves out; `(batch seq)` also fits a tensor that keeps the two apart;
a first axis `image_tokens+` also fits one that keeps it in several, which are laid end to end.
Then, in this order: `* factor` or `/ factor` (a number, a config field, `sqrt(field)`, `tanh(block.gate)`, `sqrt(field - 1)`),
`through exp` or `through sigmoid` (the value is that function of what the model holds), `or zeros` (zeros of the layout's size
where the model passes none), `as <axes>` (this family's own axes), `copied` (the forward later overwrites the tensor, or edits
must reach this reader alone), `shared` (the forward uses the same tensor elsewhere too, so a write goes into it in place),
`reported` (the forward hands the tensor out but goes on with another, so an edit would reach nothing), `after layers` (the call
that comes after the last block).  Cells are parsed once into frozen records; an error quotes the cell and puts a caret under the
fault.

The sum that a block makes of its stream is written with the names of values or with places, each times factors:

    layer_input + attention_output + mlp_output + extra_norm > out = layer_output / block.layer_scalar
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from nnatlas._record import Record
from nnatlas.errors import PlaceError

ATTENTION_POINTS: Final = ("query", "key", "value", "scores", "probabilities", "out")
GROUPS: Final = "groups"


class Side(Record):
    """A module's input or output; `item` picks an element, an argument or a field of it."""

    path: str
    side: str
    item: int | str | None = None

    def words(self, names: Mapping[str, str]) -> str:
        return f"the module {names.get(self.path, self.path)}'s {_side_words(self.side, self.item)}"


class Attention(Record):
    """A point inside the call of the attention interface, or inside all of one forward's calls together."""

    point: str
    gathered: bool = False

    def words(self, names: Mapping[str, str]) -> str:
        said = {"query": "queries", "key": "keys", "value": "values", "out": "output"}.get(self.point, self.point)
        if self.point == GROUPS:
            return "which of the attention calls each patch is in"
        return (
            f"inside all attention calls together: their {said}"
            if self.gathered
            else f"inside the attention call: its {said}"
        )


class Operation(Record):
    """The `index`-th call of a torch function while the module's forward runs."""

    path: str
    function: str
    index: int
    side: str
    item: int | str | None = None

    def words(self, names: Mapping[str, str]) -> str:
        where = names.get(self.path, self.path)
        return f"inside {where}'s forward: {self.function} number {self.index}'s {_side_words(self.side, self.item)}"


class Way(Record):
    """One side of the `index`-th call of any one of `functions`."""

    functions: tuple[str, ...]
    index: int
    side: str
    item: int | str | None = None

    def words(self) -> str:
        number = f" number {self.index}" if self.index else ""
        side = "nothing" if self.side == "nothing" else _side_words(self.side, self.item)
        return f"{' or '.join(self.functions)}{number}'s call: {side}"


class Calls(Record):
    """A call of a named Python function, found in the module itself or in its modeling file, while its forward runs."""

    path: str
    ways: tuple[Way, ...]

    @property
    def functions(self) -> tuple[str, ...]:
        """Every function that may be the one, each once."""
        return tuple(dict.fromkeys(name for way in self.ways for name in way.functions))

    def words(self, names: Mapping[str, str]) -> str:
        where = names.get(self.path, self.path)
        return f"inside {where}'s forward, {'; or '.join(way.words() for way in self.ways)}"


class Derived(Record):
    """A named function over other values of the host; an argument with a `>` is a place itself."""

    function: str
    arguments: tuple[str, ...]

    def words(self, names: Mapping[str, str]) -> str:
        said = (parse(one).words(names) if ">" in one else one for one in self.arguments)
        return f"computed from {', '.join(said)}" if self.arguments else f"computed by {self.function}"


class Same(Record):
    """The very place of another value."""

    value: str

    def words(self, names: Mapping[str, str]) -> str:
        return f"the same as {self.value}"


class Absent(Record):
    """A role or value that this family does not have, and why."""

    reason: str

    def words(self, names: Mapping[str, str]) -> str:
        return "nowhere"


class Pattern(Record):
    """Axes of a native tensor.  Each group is one native axis: parts laid end to end, each part a product of axes.

    A digit stands for an axis of that length, of which `pick` chooses one entry; where a group has several parts and no
    digit, `pick` chooses the part.
    """

    groups: tuple[tuple[tuple[str, ...], ...], ...]
    pick: int | None = None


class Factor(Record):
    """Multiply by (or divide by) a config field, a number, or a live attribute such as `block.layer_scalar`.

    `sqrt(field)`, `tanh(block.gate)` and `sqrt(field - 1)` say that it is a function of that, of which `less` is taken first.
    """

    name: str
    divides: bool = False
    root: bool = False
    tanh: bool = False
    less: int = 0

    @property
    def said(self) -> str:
        """As it stands in a cell, without its sign."""
        inner = f"{self.name} - {self.less}" if self.less else self.name
        return f"sqrt({inner})" if self.root else f"tanh({inner})" if self.tanh else inner

    def __str__(self) -> str:
        return f"{'/' if self.divides else '*'} {self.said}"


Source = Side | Attention | Operation | Calls | Derived | Same


class Place(Record):
    """A parsed cell."""

    text: str
    source: Source
    pattern: Pattern | None = None
    factors: tuple[Factor, ...] = ()
    through: str = ""
    zeros: bool = False
    axes: tuple[str, ...] | None = None
    copied: bool = False
    shared: bool = False
    reported: bool = False
    after_layers: bool = False

    def words(self, names: Mapping[str, str] | None = None) -> str:
        """The cell in plain words; `names` maps role names to the family's own module names."""
        said = self.source.words(names or {})
        for factor in self.factors:
            said += f", {'divided by' if factor.divides else 'times'} {str(factor)[2:]}"
        said += f", through {self.through}" if self.through else ""
        return said + (", the call after the last block" if self.after_layers else "")


class Term(Record):
    """One summand of an identity: a value by name (`linear_attn.x` where two parts have one), times factors, or a place."""

    value: str
    factors: tuple[Factor, ...] = ()
    place: Place | None = None


def absent(reason: str) -> Absent:
    """What a family does not have, with the reason that errors, `support()` and the encyclopedia show."""
    return Absent(reason)


def _side_words(side: str, item: int | str | None) -> str:
    if side == "after":
        return f"argument {item} when its call is over"
    noun = "input" if side == "in" else "output"
    if item is None:
        return noun
    return f"{noun}, element {item}" if isinstance(item, int) else f"{noun} {item}"


_PATH = r"[A-Za-z_][\w.#]*"
_SIDE = r">\s*(?P<side>in|out|after)(?:\[(?P<number>\d+)\]|\.(?P<field>\w+))?"
_WAY = re.compile(
    r"(?P<functions>\w+(?:\|\w+)*)(?:\[(?P<index>\d+)\])?\s*>\s*"
    r"(?P<side>in|out|after|nothing)(?:\[(?P<number>\d+)\]|\.(?P<field>\w+))?"
)
_CALLS = re.compile(rf"(?P<path>{_PATH})\s+calls\s")
_OR = re.compile(r"or (?!zeros)")
_SOURCES: Final = (
    re.compile(r"same as (?P<value>\w+)"),
    re.compile(
        rf"attention\s*>\s*(?P<point>{'|'.join(ATTENTION_POINTS)})\b"
        rf"|attentions\s*>\s*(?P<all>{'|'.join((*ATTENTION_POINTS, GROUPS))})\b"
    ),
    re.compile(rf"(?P<path>{_PATH})\s*~\s*(?P<function>\w+)\[(?P<index>\d+)\]\s*{_SIDE}"),
    re.compile(r"(?P<call>\w+)\((?P<arguments>[^()]*)\)"),
    re.compile(rf"(?P<path>{_PATH})\s*{_SIDE}"),
)
_FACTOR = re.compile(
    r"(?P<sign>[*/])\s*(?:(?P<function>sqrt|tanh)\()?(?P<name>[A-Za-z_][\w.]*|\d+(?:\.\d+)?)(?: - (?P<less>\d+))?\)?"
)
_SUFFIXES: Final = ("copied", "shared", "reported", "after layers")
_UP_TO_SUFFIX = re.compile(r"[^*/>]*?(?=\s*(?:->|[*/]|\b(?:through|or|as|copied|shared|reported|after)\b|$))")
_GROUP = re.compile(r"\(([^()]*)\)|(\S+)")


class _Reader:
    """Walks one cell from left to right."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        while self.text[self.at : self.at + 1] == " ":
            self.at += 1
        found = pattern.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def fail(self, why: str) -> PlaceError:
        return PlaceError(f"{why}\n    {self.text}\n    {' ' * self.at}^")


def _item(found: re.Match[str]) -> int | str | None:
    return int(found["number"]) if found["number"] else found["field"]


def _ways(reader: _Reader) -> tuple[Way, ...]:
    """`f|g[n] > side`, alternatives parted by `or`."""
    ways: list[Way] = []
    while not ways or reader.match(_OR):
        if not (found := reader.match(_WAY)):
            raise reader.fail("a call is `function|function[n] > in.name|out|out[n]|after.name|nothing`")
        functions, index = tuple(found["functions"].split("|")), int(found["index"] or 0)
        ways.append(Way(functions, index, found["side"], _item(found)))
    return tuple(ways)


def _source(reader: _Reader) -> Source:
    """The first part of a cell: what is tapped.  The rarer forms are looked for only where their mark is in the text."""
    same, point, operation, call, side = _SOURCES
    if " calls " in reader.text and (found := reader.match(_CALLS)):
        return Calls(found["path"], _ways(reader))
    if found := reader.match(same):
        return Same(found["value"])
    if found := reader.match(point):
        return Attention(found["point"] or found["all"], bool(found["all"]))
    if "~" in reader.text and (found := reader.match(operation)):
        return Operation(found["path"], found["function"], int(found["index"]), found["side"], _item(found))
    if "(" in reader.text and (found := reader.match(call)):
        arguments = tuple(part.strip() for part in found["arguments"].split(",") if part.strip())
        for argument in arguments:
            if ">" in argument:
                parse(argument)
        return Derived(found["call"], arguments)
    if found := reader.match(side):
        return Side(found["path"], found["side"], _item(found))
    raise reader.fail(
        "a place starts with `module > in|out`, `attention > query|key|value|scores|probabilities|out`, "
        "`module ~ function[n] > in|out`, `module calls function > in.name|out` or `function(values)`"
    )


def _axes(text: str, reader: _Reader) -> tuple[str, ...]:
    axes = tuple(text.split())
    for axis in axes:
        if not re.fullmatch(r"[a-z_]+[?+]?|\d+", axis):
            raise reader.fail(f"{axis!r} is not an axis: a name such as num_heads, or a number")
    return axes


def _pattern(reader: _Reader) -> Pattern | None:
    if not reader.match(re.compile(":")):
        return None
    if not (found := reader.match(_UP_TO_SUFFIX)):
        raise reader.fail("axes are expected after `:`")
    groups = tuple(
        tuple(_axes(part, reader) for part in inner.split("|")) if inner else ((single,),)
        for inner, single in _GROUP.findall(found[0])
    )
    pick = reader.match(re.compile(r"->\s*(\d+)"))
    return Pattern(groups, int(pick[1]) if pick else None)


@cache
def parse(text: str) -> Place:
    """Read one cell.

    >>> parse("self_attn > out[0] * residual_multiplier").words()
    "the module self_attn's output, element 0, times residual_multiplier"
    """
    reader = _Reader(text)
    source, pattern = _source(reader), _pattern(reader)
    if reader.at == len(text):  # as most cells do
        return Place(text, source, pattern)
    factors = _factors(reader)
    through = reader.match(re.compile(r"through (exp|sigmoid)\b"))
    zeros = reader.match(re.compile(r"or zeros\b"))
    own = reader.match(re.compile(r"as ([a-z_ ]+?)(?=\s*(?:copied|shared|reported|after layers|$))"))
    copied, shared, reported, after = (reader.match(re.compile(word)) for word in _SUFFIXES)
    if reader.match(re.compile(".")):
        reader.at -= 1
        raise reader.fail("this part of the cell is not understood")
    axes = tuple(own[1].split()) if own else None
    flags = dict(copied=bool(copied), shared=bool(shared), reported=bool(reported), after_layers=bool(after))
    through_word = through[1] if through else ""
    return Place(text, source, pattern, factors, through_word, bool(zeros), axes, **flags)


@cache
def identity(text: str) -> tuple[Term, ...]:
    """The summands of an identity, and last what they make.

    >>> [term.value for term in identity("layer_input + attention_output = layer_mid")]
    ['layer_input', 'attention_output', 'layer_mid']
    """
    left, equals, right = text.partition(" = ")
    if not equals:
        raise PlaceError(f"an identity says what a sum makes, `a + b = c`, not {text!r}")
    return tuple(_term(part.strip()) for part in (*left.split(" + "), right))


def _term(text: str) -> Term:
    """One summand of an identity."""
    if ">" in text:
        return Term("", place=parse(text))
    reader = _Reader(text)
    name = reader.match(re.compile(r"[\w.]+"))
    factors = _factors(reader)
    if name is None or reader.at < len(text):
        raise reader.fail("a summand is a value's name or a place, times factors")
    return Term(name[0], factors)


def _factors(reader: _Reader) -> tuple[Factor, ...]:
    factors = []
    while found := reader.match(_FACTOR):
        function, less = found["function"], int(found["less"] or 0)
        factors.append(Factor(found["name"], found["sign"] == "/", function == "sqrt", function == "tanh", less))
    return tuple(factors)
