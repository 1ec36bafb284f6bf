"""XGLM: sinusoidal positions, an MLP whose layers hang on the block itself, and attention written out over flattened heads."""

from nnatlas.families._shapes import FAIRSEQ, LLAMA, NO_ROTARY

FAMILY = LLAMA.but(
    **FAIRSEQ,
    **NO_ROTARY,
    norm="base.layer_norm",
    mlp="block",
    mlp_input="up_proj > in",
    mlp_output="down_proj > out",
    attention_queries="self_attn ~ bmm[0] > in[0] : (batch num_heads) seq qk_head_dim",
    attention_keys="self_attn ~ bmm[0] > in[1] : (batch num_kv_heads) qk_head_dim seq",
    attention_values="self_attn ~ bmm[1] > in[1] : (batch num_kv_heads) seq head_dim",
    attention_scores="self_attn ~ softmax[0] > in : (batch num_heads) query key",
    attention_probabilities="self_attn ~ dropout[0] > out : (batch num_heads) query key",
    attention_head_outputs="self_attn ~ bmm[1] > out : (batch num_heads) seq head_dim",
    notes={"attention_queries": "already scaled"},
)
