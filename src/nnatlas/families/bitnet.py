"""BitNet b1.58: ternary weights, and a norm on what the output and down projections receive."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    attention_premix="o_proj > in : batch seq (num_heads head_dim)",
    notes={"mlp_neurons": "normed", "attention_premix": "the heads' outputs, normed across all heads at once"},
    breaks={
        "chain mlp_neurons": "the neurons are normed before they are projected",
        "chain attention_premix": "the heads' outputs are normed across all heads before they are projected",
    },
)
