"""VaultGemma: Gemma 2 with no norm on what the sublayers write."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    mlp_norm="pre_feedforward_layernorm",
    readout="norm | lm_head | maybe cap final_logit_softcapping",
)
