"""Traits of model types: what sets families apart in the words of the field, read off their rows and kept measurements.

    traits_of("mixtral")                       # ("gqa", "rotary", "pre-norms", ..., "moe")
    having(["moe", "parallel"], ["rotary"])    # model types with both of the first and none of the second

`measured` holds the kept measurements, `named` the traits and what shows each.  Nothing here imports torch.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from nnatlas import families
from nnatlas.errors import InputError
from nnatlas.traits.measured import Measurement, kept
from nnatlas.traits.named import TRAITS, Trait

__all__ = ["TRAITS", "Measurement", "Trait", "having", "kept", "traits_of"]


def traits_of(model_type: str) -> tuple[str, ...]:
    """The keys of a type's traits, in the order of TRAITS; none for a type that has not been measured.

    >>> "gqa" in traits_of("llama"), "moe" in traits_of("llama")
    (True, False)
    """
    family, found = families.find(model_type), kept().types.get(model_type)
    if family is None or found is None or found.error:
        return ()
    return tuple(key for key, trait in TRAITS.items() if trait.shown(family, found))


def having(wanted: Iterable[str] = (), unwanted: Iterable[str] = ()) -> list[str]:
    """The measured model types that have all `wanted` traits and none of the `unwanted`; `InputError` for an unknown one."""
    wanted, unwanted = set(map(_known, wanted)), set(map(_known, unwanted))
    by_type = {name: set(traits_of(name)) for name in families.rows() if name in kept().types}
    return sorted(name for name, own in by_type.items() if wanted <= own and not unwanted & own)


def _known(word: str) -> str:
    """A trait's key, given the key or the name that the field has for it."""
    by_word = {said: key for key, trait in TRAITS.items() for said in (key, trait.name)}
    if word in by_word:
        return by_word[word]
    near = difflib.get_close_matches(word, by_word, 3)
    raise InputError(
        f"there is no trait {word!r}; {'near: ' + ', '.join(near) if near else 'there are ' + ', '.join(TRAITS)}"
    )
