"""StarCoder 2: LayerNorms, biases and an MLP without a gate, within a sliding window."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    up_proj="c_fc",
    down_proj="c_proj",
)
