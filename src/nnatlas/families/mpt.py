"""MPT: ALiBi positions, LayerNorms without biases, attention written out, and a residual added inside the MLP."""

from nnatlas.families._shapes import LLAMA, NO_ROTARY

FAMILY = LLAMA.but(
    **NO_ROTARY,
    base="transformer",
    layers="base.blocks",
    embed_tokens="base.wte",
    norm="base.norm_f",
    self_attn="attn",
    mlp="ffn",
    attention_norm="norm_1",
    mlp_norm="norm_2",
    o_proj="out_proj",
    mlp_output="down_proj > out",
    attention_queries="self_attn ~ matmul[0] > in[0]",
    attention_keys="self_attn ~ matmul[0] > in[1] : batch num_kv_heads qk_head_dim seq",
    attention_values="self_attn ~ matmul[1] > in[1]",
    attention_scores="self_attn ~ softmax[0] > in",
    attention_probabilities="self_attn ~ dropout[0] > out",
    attention_head_outputs="self_attn ~ matmul[1] > out : batch num_heads seq head_dim",
    breaks={
        "batch cache self_attn.attention_scores": "a cached step's ALiBi bias is shifted by a constant, which the softmax drops"
    },
)
