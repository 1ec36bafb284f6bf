"""MiniCPM 3: latent attention without experts, a factor on what each sublayer adds, and a head that reads a scaled stream."""

from nnatlas.families._shapes import LATENT_KEYS, LLAMA

FAMILY = LLAMA.but(
    **LATENT_KEYS,
    attention_output="self_attn > out * block.residual_scale",
    mlp_output="mlp > out * block.residual_scale",
    readout="norm | / logits_scaling | lm_head",
)
