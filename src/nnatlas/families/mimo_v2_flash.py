"""MiMo-V2-Flash: wider keys than values, sliding blocks with other head counts and a learned sink, and a mixture of experts."""

from nnatlas.families._shapes import LLAMA, kind

FAMILY = LLAMA.but(
    kinds=(
        kind(
            "sink", "has self_attn.sinks", attention_scores="attention > scores as batch num_heads query key_and_sink"
        ),
    ),
    notes={
        "attention_scores": "less each row's maximum; where there is a sink, its score is one more column at the end",
        "attention_probabilities": "rows sum to less than 1 where there is a sink, which takes the rest",
    },
)
