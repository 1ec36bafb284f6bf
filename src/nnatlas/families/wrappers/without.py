"""Wrapper types without a tower that is served, each with its reason."""

from nnatlas.families._wrapper import Without


def _without(reason: str, covers: str) -> Without:
    return Without(tuple(covers.split()), reason)


WRAPPERS = (
    _without("it reads proteins, not images", "evolla"),
    _without("transformers brings it without a tower: text alone", "mistral4"),
)  # fmt: skip
