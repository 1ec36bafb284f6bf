"""BLOOM: ALiBi positions, attention written out inside the module, and residuals added inside attention and MLP."""

from nnatlas.families._shapes import LLAMA, MEGATRON, NO_ROTARY, kind

FAMILY = LLAMA.but(
    **MEGATRON,
    **NO_ROTARY,
    act_fn="gelu_impl",
    passes="base.word_embeddings_layernorm",
    attention_output="o_proj > out",
    mlp_output="down_proj > out",
    attention_queries="self_attn ~ baddbmm[0] > in.batch1 : (batch num_heads) seq qk_head_dim",
    attention_keys="self_attn ~ baddbmm[0] > in.batch2 : (batch num_kv_heads) qk_head_dim seq",
    attention_values="self_attn ~ bmm[0] > in[1] : (batch num_kv_heads) seq head_dim",
    attention_scores="self_attn ~ softmax[0] > in",
    attention_probabilities="self_attn ~ dropout[0] > out",
    attention_head_outputs="self_attn ~ bmm[0] > out : (batch num_heads) seq head_dim",
    kinds=(
        kind(
            "normed residual",
            "config.apply_residual_connection_post_layernorm",
            identity="mlp_norm_output + mlp_output = layer_output",
            mlp_input="mlp > in copied",
        ),
    ),
)
