"""CTRL: sinusoidal positions, scaled embeddings, and an MLP that is a plain sequence of layers."""

from nnatlas.families._shapes import LLAMA, NO_ROTARY

FAMILY = LLAMA.but(
    **NO_ROTARY,
    base="transformer",
    layers="base.h",
    embed_tokens="base.w",
    token_embeddings="embed_tokens > out copied",
    norm="base.layernorm",
    self_attn="multi_head_attention",
    mlp="ffn",
    attention_norm="layernorm1",
    mlp_norm="layernorm2",
    q_proj="Wq",
    k_proj="Wk",
    v_proj="Wv",
    o_proj="dense",
    up_proj="0",
    act_fn="1",
    down_proj="2",
)
