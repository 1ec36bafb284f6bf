"""StarCoder (GPT-BigCode): GPT-2 with one key/value head that all query heads share."""

from nnatlas.families._shapes import GPT2

FAMILY = GPT2.but(
    passes="base.wpe",
)
