"""HunYuan 4: four residual streams, latent attention over picked keys with gates and sinks, and experts chosen in groups."""

from nnatlas.families._shapes import GATED_HEADS, INDEXED, LATENT_KEYS, LLAMA, PICKED
from nnatlas.families._streams import HYPER, HYPER_BREAKS, HYPER_NOTES

FAMILY = LLAMA.but(
    **LATENT_KEYS,
    **HYPER,
    **GATED_HEADS,
    covers="hy_v4 hy_v4_vl",
    **PICKED,
    attention_scores="attention > scores as batch num_heads query key_and_sink",
    notes=HYPER_NOTES
    | {
        "attention_scores": "with the sink's score as one more column at the end",
        "attention_probabilities": "rows sum to less than 1: the sink takes the rest",
    },
    breaks=HYPER_BREAKS | INDEXED,
)
