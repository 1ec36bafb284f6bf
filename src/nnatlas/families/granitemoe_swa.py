"""Granite with experts, a shared MLP, sliding windows and a learned sink per head, applied as a gate."""

from nnatlas.families._shapes import SINK_GATE
from nnatlas.families.granitemoeshared import FAMILY as GRANITEMOESHARED

FAMILY = GRANITEMOESHARED.twin(
    **SINK_GATE,
    tiny={"shared_intermediate_size": 112, "layer_rope_theta": [10000.0, 500.0, 10000.0, 10000.0]},
)
