"""dots 3 without its towers: latents with factors, sliding blocks of other head counts, and one gate per head."""

from nnatlas.families._shapes import INDEXED, LLAMA, NO_INDEXER, absent

FAMILY = LLAMA.but(
    attention_latent="self_attn.kv_a_layernorm > out * self_attn.kv_lora_scale as batch seq latent",
    attention_gate="self_attn.g_proj > out through sigmoid as batch seq num_heads",
    indexer_choice=("self_attn.indexer > out as batch query chosen", absent(NO_INDEXER)),
    breaks=INDEXED,
    tiny={"head_dim": 32},
)
