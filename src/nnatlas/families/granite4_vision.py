"""Granite 4 Vision: Granite behind an image tower, whose features are added to the stream between early blocks."""

from nnatlas.families._shapes import GRANITE, LLAMA

FAMILY = LLAMA.but(
    **GRANITE,
    readout="norm | lm_head | / logits_scaling",
    tiny={"deepstack_layer_map": [[0, 1]], "spatial_target_layers": [1, 2, 3, 3], "downsample_rate": "1/2"},
)
