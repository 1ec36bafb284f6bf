"""Gemma 4 Unified, the language model alone."""

from nnatlas.families.gemma4_unified import FAMILY as GEMMA4_UNIFIED

FAMILY = GEMMA4_UNIFIED.twin(tiny={"head_dim": 8, "per_layer_config": {"3": {"head_dim": 16}}})
