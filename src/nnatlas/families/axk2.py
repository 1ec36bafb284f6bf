"""A.X K2: DeepSeek 3.2 with a gate on every head, projected together with its queries."""

from nnatlas.families._shapes import INDEXED, LATENT_KEYS, LLAMA

FAMILY = LLAMA.but(
    **LATENT_KEYS,
    unrotated_queries="self_attn ~ split[0] > out[0] : batch seq num_heads qk_head_dim",
    attention_gate="self_attn ~ sigmoid[0] > out : batch seq (num_heads head_dim) as batch seq num_heads head_dim",
    indexer_choice="self_attn.indexer > out as batch query chosen",
    breaks=INDEXED,
)
