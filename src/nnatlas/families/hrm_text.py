"""HRM text: a slow and a fast stack of blocks that run in nested loops on each other's output; `layers` are the slow ones."""

from nnatlas.families._shapes import GATED_HEADS, LLAMA, PASS_BY_PASS

FAMILY = LLAMA.but(
    **GATED_HEADS,
    looped=True,
    layers="base.H_module.layers",
    norm="base.H_module.final_norm",
    final_norm_output="lm_head > in",
    passes="base.L_module base.z_L_init",
    notes=PASS_BY_PASS
    | {
        "layer_input": "in the first block of a pass the slow state plus the fast one, which L_module has just computed",
        "final_norm_output": "of the last pass, which is what the head reads",
    },
    breaks={
        "head": "values are of the first pass of several; the logits come from the last",
        "chain final_norm_output": "values of blocks are of the first pass of several; the head reads the last",
        "chain lm_head_output": "values of blocks are of the first pass of several; the head reads the last",
    },
    tiny={"num_layers_per_stack": 2, "num_hidden_layers": 16},
)
