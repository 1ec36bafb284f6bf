"""Notes on a model's ends and on what to mind: the readout, values with a meaning of their own, absences, exceptions, loading.

Like `generated_inside`, a function for each chapter.  Reasons are the rows' own words, so that a page, an error and `support()`
give the same one; values that share a reason are told together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from nnatlas.encyclopedia.generated_facts import Facts, capital, link, listed
from nnatlas.encyclopedia.notes import Items, Part, Text
from nnatlas.encyclopedia.outline import Variant
from nnatlas.families._row import Family
from nnatlas.places import Absent
from nnatlas.values import HOSTS, RARE, VALUES

# -- the ends ----------------------------------------------------------------------------------------------------------------


def readout(facts: Facts) -> Iterator[Part]:
    """From the stream to the logits."""
    way = facts.own.readout
    if isinstance(way, Absent):
        yield facts.by_row(f"`project_on_vocab` is not to be had: {way.reason}.")
    else:
        yield facts.by_row(f"`project_on_vocab` is {listed(_steps(way, facts.outline.root.roles))}.")
    if facts.found.laws.get("head") == "holds" and not isinstance(way, Absent):
        yield facts.measured("On the last block's output it gives the model's own logits: the law `head` holds.")
    tied = "is the embedding matrix" if "ties embeddings" in facts.found.facts else "has a weight of its own"
    yield facts.measured(f"By default the head {tied}.")
    if facts.has("scaled-embeddings"):
        yield facts.measured("Token embeddings are multiplied by a number before the first block.")


def _steps(way: str, roles: Mapping[str, str]) -> list[str]:
    """The readout's steps in words."""
    return [_step(step.strip(), roles) for step in way.split("|")]


_SIGNS = {"*": "times", "/": "divided by", "cap": "a soft cap at", "keep": "cut to", "never": "none for"}
_ENDS = {"norm": "the final norm", "lm_head": "the head"}


def _step(step: str, roles: Mapping[str, str]) -> str:
    """One step of a row's readout: a module by its role or path, or what is done with a number of the config."""
    plain = step.removeprefix("maybe ")
    sign, _, rest = plain.partition(" ")
    if sign in _SIGNS:
        said = f"{_SIGNS[sign]} `{rest}`"
    elif plain in _ENDS:
        said = f"{_ENDS[plain]} (`{roles.get(plain, plain)}`)"
    else:
        said = f"`{plain.split('.')[-1]}`"
    return said + (" where there is one" if step != plain else "")


# -- what to mind ---------------------------------------------------------------------------------------------------------------


def meanings(facts: Facts) -> Iterator[Part]:
    """What the rows add to the descriptions of values."""
    notes = {key: said for row in (facts.row, facts.own) for key, said in _notes(row)}
    here = {key: said for key, said in notes.items() if key in facts.found.served or key in RARE}
    if here:
        yield Items(tuple(facts.by_row(f"{link(key)}: {said}.") for key, said in here.items()))


def _notes(row: Family) -> Iterator[tuple[str, str]]:
    """A row's notes by the keys of their values; a name alone means every value of that name."""
    for name, said in row.notes.items():
        yield from ((key, said) for key, value in (VALUES | RARE).items() if name in (key, value.name))


def absent(facts: Facts) -> Iterator[Part]:
    """What blocks do not have, by reason: parts as a whole, and single values."""
    missing: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for key in (*HOSTS, *VALUES):
        for why, blocks in facts.of_variants(partial(_why_not, key)).items():
            missing.setdefault((why, blocks), []).append(key)
    if missing:
        yield Items(tuple(_lacking(facts, keys, *at) for at, keys in missing.items()))


def _why_not(key: str, variant: Variant) -> str:
    """The reason for an absence on one sort of block, or nothing where the value is there."""
    return variant.bound.absent.get(key, "")


def _lacking(facts: Facts, keys: list[str], why: str, blocks: tuple[int, ...]) -> Text:
    """One reason, with what lacks for it: whole parts of a block first."""
    parts = [f"all of `{key}`" for key in keys if key in HOSTS]
    said = listed([*parts, *(link(key) for key in keys if key not in HOSTS)])
    return facts.by_row(f"{capital(said)}{facts.within(blocks)}: {why}.")


def exceptions(facts: Facts) -> Iterator[Part]:
    """What the row excepts from the laws, by reason."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for said in facts.found.exceptions:
        law, about, why = said.split(": ", 2)
        reasons.setdefault(why, {}).setdefault(_about(about), []).append(f"`{law}`")
    if reasons:
        yield Items(tuple(facts.by_row(f"{capital(_excepted(about))}: {why}.") for why, about in reasons.items()))


def _about(about: str) -> str:
    """What an exception is about: a value by link, or the rows that the law `batch` compares."""
    rows = {"padding": "padded rows", "a padded": "padded rows", "cache": "cached steps", "cached": "cached steps"}
    return (
        link(about)
        if about in VALUES | RARE
        else next((said for start, said in rows.items() if about.startswith(start)), about)
    )


def _excepted(about: Mapping[str, list[str]], most: int = 4) -> str:
    """Values that the same laws leave out together; a long list of them by its number."""
    together: dict[str, list[str]] = {}
    for name, laws in about.items():
        together.setdefault(listed(dict.fromkeys(laws)), []).append(name)
    parts = [
        f"{listed(names) if len(names) <= most else f'{len(names)} values'} under {laws}"
        for laws, names in together.items()
    ]
    return listed(parts)


def loading(facts: Facts) -> Iterator[Part]:
    """Which checkpoints are bound by the row."""
    yield facts.by_row(f"Checkpoints whose `model_type` is `{facts.model_type}`.")
    others = [f"`{name}`" for name in facts.own.covers if name != facts.model_type]
    if others:
        yield facts.by_row(f"The same row binds {listed(others)}.")
    if facts.has("images", "audio"):
        what = listed([word for key, word in (("images", "images"), ("audio", "sound")) if facts.has(key)])
        yield facts.measured(f"The type also takes {what}; text alone runs as in any other model.")
