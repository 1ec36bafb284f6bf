"""KOSMOS-2.5: sinusoidal positions, and a norm on what the down projection receives."""

from nnatlas.families._shapes import FAIRSEQ, LLAMA, NO_ROTARY

FAMILY = LLAMA.but(
    covers="kosmos-2.5",
    **FAIRSEQ,
    **NO_ROTARY,
    counts_positions=True,
    base="text_model.model",
    norm="base.layer_norm",
    lm_head="text_model.lm_head",
    mlp="ffn",
    passes="base.segment_emb",
    notes={"mlp_neurons": "normed"},
    breaks={"chain mlp_neurons": "the neurons are normed before they are projected"},
)
