"""Small wrappers and made-up pictures that the tests of images share."""

from __future__ import annotations

from functools import cache
from typing import Any

from nnatlas.check.vision.sighted import picture
from nnatlas.model import StandardizedTransformer, load


@cache
def wrapper(model_type: str) -> StandardizedTransformer:
    """One small random wrapper of a type per process: tests must leave it as they found it."""
    return load(f"tiny:{model_type}", task="image-text-to-text")


@cache
def pictured(seed: int = 0) -> Any:
    return picture(seed)
