"""KOSMOS-2: sinusoidal positions, and a norm on what the output and down projections receive."""

from nnatlas.families._shapes import LLAMA, NO_ROTARY

FAMILY = LLAMA.but(
    covers="kosmos-2",
    **NO_ROTARY,
    counts_positions=True,
    token_embeddings="embed_tokens > out copied",
    base="text_model.model",
    norm="base.layer_norm",
    lm_head="text_model.lm_head",
    attention_norm="self_attn_layer_norm",
    mlp_norm="final_layer_norm",
    mlp="ffn",
    o_proj="out_proj",
    up_proj="fc1",
    down_proj="fc2",
    notes={"attention_premix": "the heads' outputs, normed across all heads at once"},
    breaks={
        "chain mlp_neurons": "the neurons are normed before they are projected",
        "chain attention_premix": "the heads' outputs are normed across all heads before they are projected",
    },
)
