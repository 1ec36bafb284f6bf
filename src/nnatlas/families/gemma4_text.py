"""Gemma 4 without its towers: sandwich norms, an input per layer, and a factor on the whole stream."""

from nnatlas.families.gemma4 import FAMILY as GEMMA4

FAMILY = GEMMA4.twin(tiny={"head_dim": 8, "per_layer_config": {"3": {"head_dim": 16}}})
