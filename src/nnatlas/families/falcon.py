"""Falcon: attention written out inside the module, one or few key/value heads, attention and MLP mostly in parallel."""

from nnatlas.families._shapes import LLAMA, MEGATRON, PARALLEL, absent, kind

FAMILY = LLAMA.but(
    **MEGATRON,
    attention_norm=("ln_attn", "input_layernorm"),
    mlp_norm=("ln_mlp", "post_attention_layernorm", "input_layernorm"),
    act_fn="act",
    unrotated_queries="self_attn calls _split_heads > out[0] : batch seq num_heads qk_head_dim",
    unrotated_keys="self_attn calls _split_heads > out[1] : batch seq num_kv_heads qk_head_dim",
    attention_queries="self_attn ~ matmul[1] > in[0]",
    attention_keys="self_attn ~ matmul[1] > in[1] : batch num_kv_heads qk_head_dim seq",
    attention_values="self_attn ~ matmul[2] > in[1]",
    attention_scores="self_attn ~ softmax[0] > in",
    attention_probabilities="self_attn ~ matmul[2] > in[0]",
    attention_head_outputs="self_attn ~ matmul[2] > out : batch num_heads seq head_dim",
    notes={
        "attention_keys": "in the newer architecture every query head already has its own copy",
        "attention_values": "in the newer architecture every query head already has its own copy",
    },
    kinds=(
        kind(
            "parallel",
            "config.parallel_attn or config.new_decoder_architecture",
            layer_mid=absent(PARALLEL),
            mlp_output="mlp > out copied",
        ),
        kind(
            "repeated keys",
            "config.new_decoder_architecture",
            unrotated_keys="self_attn calls _split_heads > out[1] : batch seq num_heads qk_head_dim"
            " as batch num_heads seq qk_head_dim",
            attention_keys="self_attn ~ matmul[1] > in[1] : batch num_heads qk_head_dim seq as batch num_heads seq qk_head_dim",
            attention_values="self_attn ~ matmul[2] > in[1] as batch num_heads seq head_dim",
        ),
    ),
)
