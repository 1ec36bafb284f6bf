"""Granite 4 with sliding windows: Granite with a learned sink per head, applied as a gate on what the head mixed."""

from nnatlas.families._shapes import GRANITE, LLAMA, SINK_GATE

FAMILY = LLAMA.but(
    **GRANITE,
    **SINK_GATE,
    readout="norm | lm_head | / logits_scaling",
    tiny={"layer_rope_theta": [10000.0, 500.0, 10000.0, 10000.0]},
)
