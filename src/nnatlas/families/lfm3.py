"""LFM3: gated short convolutions with gated attention in a few blocks, norms before and after each sublayer."""

from nnatlas.families._mixers import NO_ATTENTION, PADDED, SHORT_CONV, SHORT_CONV_NOTES
from nnatlas.families._shapes import LLAMA, absent, kind

FAMILY = LLAMA.but(
    covers="lfm3 lfm3_vl",
    norm="base.embedding_norm",
    attention_norm="operator_norm",
    mlp_norm="ffn_norm",
    attention_post_norm="post_operator_norm",
    mlp_post_norm="post_ffn_norm",
    mlp="feed_forward",
    mlp_activation="mlp ~ silu[0] > out",
    up_proj="w3",
    down_proj="w2",
    attention_output="attention_post_norm > out",
    mlp_output="mlp_post_norm > out",
    attention_gate=("self_attn.g_proj > out as batch seq num_heads", absent("this checkpoint does not gate its heads")),
    kinds=(
        kind(
            "convolution",
            "has conv",
            self_attn=absent(NO_ATTENTION),
            linear_attn={"path": "conv", **SHORT_CONV, "attention_output": "attention_post_norm > out"},
        ),
    ),
    breaks=PADDED,
    notes=SHORT_CONV_NOTES | {"self_attn.attention_gate": "one for each head, before its sigmoid"},
)
