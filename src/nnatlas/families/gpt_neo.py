"""GPT-Neo: GPT-2's block with attention written out in a module of its own, unscaled, and a window in every other block."""

from nnatlas.families._shapes import GPT2

FAMILY = GPT2.but(
    self_attn="attn.attention",
    o_proj="out_proj",
    passes="base.wpe",
    attention_queries="self_attn ~ matmul[0] > in[0]",
    attention_keys="self_attn ~ matmul[0] > in[1] : batch num_kv_heads qk_head_dim seq",
    attention_values="self_attn ~ matmul[1] > in[1]",
    attention_scores="self_attn ~ softmax[0] > in",
    attention_probabilities="self_attn ~ dropout[0] > out",
    attention_head_outputs="self_attn ~ matmul[1] > out : batch num_heads seq head_dim",
    tiny={"attention_types": [[["global", "local"], 2]]},
)
