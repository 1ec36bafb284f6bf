"""GPT, the first: GPT-2's names, but each sum of stream and sublayer is normed, and there is no norm before the head."""

from nnatlas.families._shapes import GPT2, NORMED_SUMS, WRITTEN_OUT

FAMILY = GPT2.but(
    **NORMED_SUMS,
    **WRITTEN_OUT,
    covers="openai-gpt",
    embed_tokens="base.tokens_embed",
    readout="lm_head",
    passes="base.positions_embed block.ln_1 block.ln_2",
    mlp_activation="same as mlp_neurons",
    attention_output="self_attn > out[0]",
)
