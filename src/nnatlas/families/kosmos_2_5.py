"""KOSMOS-2.5: sinusoidal positions, and a norm on what the down projection receives."""

from nnatlas.families._shapes import LLAMA, NO_ROTARY

FAMILY = LLAMA.but(
    covers="kosmos-2.5",
    **NO_ROTARY,
    counts_positions=True,
    base="text_model.model",
    norm="base.layer_norm",
    lm_head="text_model.lm_head",
    attention_norm="self_attn_layer_norm",
    mlp_norm="final_layer_norm",
    mlp="ffn",
    o_proj="out_proj",
    passes="base.segment_emb",
    notes={"mlp_neurons": "normed"},
    breaks={
        "chain mlp_neurons": "the neurons are normed before they are projected",
    },
    up_proj="fc1",
    down_proj="fc2",
)
