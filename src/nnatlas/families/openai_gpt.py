"""GPT, the first: GPT-2's names, but each sum of stream and sublayer is normed, and there is no norm before the head."""

from nnatlas.families._shapes import GPT2, NORMED_SUMS

FAMILY = GPT2.but(
    **NORMED_SUMS,
    covers="openai-gpt",
    embed_tokens="base.tokens_embed",
    readout="lm_head",
    passes="base.positions_embed block.ln_1 block.ln_2",
    mlp_activation="same as mlp_neurons",
    attention_output="self_attn > out[0]",
    attention_queries="self_attn ~ matmul[0] > in[0]",
    attention_keys="self_attn ~ matmul[0] > in[1] : batch num_kv_heads qk_head_dim seq",
    attention_values="self_attn ~ matmul[1] > in[1]",
    attention_scores="self_attn ~ softmax[0] > in",
    attention_probabilities="self_attn ~ dropout[0] > out",
    attention_head_outputs="self_attn ~ matmul[1] > out : batch num_heads seq head_dim",
)
