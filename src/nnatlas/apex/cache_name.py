"""What the installed transformers calls the key/value cache in calls and outputs: it had another name before 5.24."""

from __future__ import annotations

from inspect import signature
from typing import Final

from transformers.masking_utils import create_causal_mask

CACHE: Final = next(name for name in ("cache", "past_key_values") if name in signature(create_causal_mask).parameters)
