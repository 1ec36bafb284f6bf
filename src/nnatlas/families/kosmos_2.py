"""KOSMOS-2: sinusoidal positions, and a norm on what the output and down projections receive."""

from nnatlas.families.kosmos_2_5 import FAMILY as KOSMOS_2_5

FAMILY = KOSMOS_2_5.twin(
    covers="kosmos-2",
    token_embeddings="embed_tokens > out copied",
    notes={"attention_premix": "the heads' outputs, normed across all heads at once"},
    breaks={"chain attention_premix": "the heads' outputs are normed across all heads before they are projected"},
)
