"""DBRX: one module holds both norms, the attention and the first sum; queries, keys and values are fused and cut off at a bound."""

from nnatlas.families._shapes import AS_CALLED, LLAMA, kind

FAMILY = LLAMA.but(
    **AS_CALLED,
    base="transformer",
    layers="base.blocks",
    embed_tokens="base.wte",
    norm="base.norm_f",
    self_attn="norm_attn_norm.attn",
    mlp="ffn",
    attention_norm="norm_attn_norm.norm_1",
    mlp_norm="norm_attn_norm.norm_2",
    o_proj="out_proj",
    mlp_input="mlp > in",
    mlp_output="mlp > out",
    kinds=(
        kind(
            "sparse",
            "has ffn.experts",
            expert_indices="experts > in[1] : (batch seq) top_k",
            expert_weights="experts > in[2] : (batch seq) top_k",
            routed_output="same as mlp_output",
        ),
    ),
    sizes={"num_experts": "config.ffn_config.moe_num_experts", "top_k": "config.ffn_config.moe_top_k"},
    tiny={
        "attn_config.rope_theta": 10000.0,
        "attn_config.kv_n_heads": 2,
        "num_key_value_heads": 2,
        "attn_config.clip_qkv": 1.5,
        "ffn_config.moe_num_experts": 4,
        "ffn_config.moe_top_k": 2,
    },
)
