"""BioGPT: learned positions, scaled embeddings, and an MLP whose layers hang on the block itself."""

from nnatlas.families._shapes import FAIRSEQ, LLAMA, NO_ROTARY

FAMILY = LLAMA.but(
    **FAIRSEQ,
    **NO_ROTARY,
    base="biogpt",
    norm="base.layer_norm",
    lm_head="output_projection",
    mlp="block",
    act_fn="activation_fn",
    mlp_input="up_proj > in",
    mlp_output="down_proj > out",
    passes="base.embed_positions",
)
