"""Chameleon: text and image tokens in one vocabulary; each head of queries and keys has a LayerNorm of its own."""

from nnatlas.families._shapes import LLAMA, POST_NORM_ATTENTION, POST_NORM_MLP, absent, kind

FAMILY = LLAMA.but(
    unrotated_queries="q_norm > out : (batch seq) num_heads qk_head_dim",
    unrotated_keys="k_norm > out : (batch seq) num_kv_heads qk_head_dim",
    lm_head_output="lm_head > out copied",
    notes={"logits": "the scores of image tokens are put down to the least number, in place"},
    kinds=(
        kind(
            "norm after",
            "config.swin_norm",
            attention_norm=absent(POST_NORM_ATTENTION),
            mlp_norm=absent(POST_NORM_MLP),
            attention_post_norm="input_layernorm",
            mlp_post_norm="post_attention_layernorm",
            attention_norm_output=absent(POST_NORM_ATTENTION),
            mlp_norm_output=absent(POST_NORM_MLP),
            layer_mid="mlp > in shared",
            mlp_input="mlp > in copied",
            attention_output="attention_post_norm > out",
            mlp_output="mlp_post_norm > out",
        ),
    ),
    tiny={"vocabulary_map": {"<image>": 5}},
)
