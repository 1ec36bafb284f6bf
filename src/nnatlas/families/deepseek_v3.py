"""DeepSeek 3 and R1, and others of that build: latent attention, and experts chosen by sigmoid scores in groups."""

from nnatlas.families._shapes import LATENT_KEYS, LLAMA

FAMILY = LLAMA.but(
    **LATENT_KEYS,
    covers="deepseek_v3 kimi_k25 sarvam_mla glm4_moe_lite youtu",
)
