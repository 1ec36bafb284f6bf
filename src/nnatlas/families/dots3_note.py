"""dots 3: DeepSeek 3.2 latents with factors, sliding blocks of other head counts, and one gate per head."""

from nnatlas.families._shapes import INDEXED, LATENT_KEYS, LLAMA, NO_INDEXER, absent

FAMILY = LLAMA.but(
    **LATENT_KEYS,
    attention_latent="self_attn.kv_a_layernorm > out * self_attn.kv_lora_scale as batch seq latent",
    attention_gate="self_attn.g_proj > out through sigmoid as batch seq num_heads",
    indexer_choice=("self_attn.indexer > out as batch query chosen", absent(NO_INDEXER)),
    breaks=INDEXED,
    tiny={"text_config.head_dim": 32, "vision_config.mlp_bias": False, "audio_config.adapter_input_size": 64},
)
