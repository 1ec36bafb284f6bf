"""MiMo-V2-Flash: wider keys than values, sliding blocks with other head counts and a learned sink, and a mixture of experts."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    attention_scores="attention > scores as batch num_heads query key_and_sink",
    notes={"attention_probabilities": "rows sum to less than 1 on the sliding blocks: their sinks take the rest"},
)
