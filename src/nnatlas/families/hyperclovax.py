"""HyperCLOVA X: Granite's constants, and in newer sizes a norm on what each sublayer writes."""

from nnatlas.families._shapes import LLAMA, absent

FAMILY = LLAMA.but(
    covers="hyperclovax hyperclovax_vision_v2",
    attention_post_norm=("post_norm1", absent("this size norms nothing that the attention writes")),
    mlp_post_norm=("post_norm2", absent("this size norms nothing that the MLP writes")),
    attention_output=("attention_post_norm > out * residual_multiplier", "self_attn > out * residual_multiplier"),
    mlp_output=("mlp_post_norm > out * residual_multiplier", "mlp > out * residual_multiplier"),
    readout="norm | lm_head | * logits_scaling",
)
