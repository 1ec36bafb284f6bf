"""Inside a forward: the attention call, torch functions by operation, experts and recurrences.

Importing this package teaches the engine those stages (`engine.taps.INSTALLERS`) and the derived values that need them.
"""

from nnatlas.interior import attention, calls, experts, heads, images, latents, multi_token, operations, recurrence

__all__ = ["attention", "calls", "experts", "heads", "images", "latents", "multi_token", "operations", "recurrence"]
