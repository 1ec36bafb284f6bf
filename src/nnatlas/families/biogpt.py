"""BioGPT: learned positions, scaled embeddings, and an MLP whose layers hang on the block itself."""

from nnatlas.families._shapes import LLAMA, NO_ROTARY

FAMILY = LLAMA.but(
    **NO_ROTARY,
    base="biogpt",
    norm="base.layer_norm",
    lm_head="output_projection",
    attention_norm="self_attn_layer_norm",
    mlp_norm="final_layer_norm",
    o_proj="out_proj",
    mlp="block",
    up_proj="fc1",
    down_proj="fc2",
    act_fn="activation_fn",
    mlp_input="up_proj > in",
    mlp_output="down_proj > out",
    passes="base.embed_positions",
)
