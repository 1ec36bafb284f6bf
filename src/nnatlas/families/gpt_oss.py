"""gpt-oss: a learned sink beside the scores of every head, and a mixture of experts on every block."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    attention_scores="attention > scores as batch num_heads query key_and_sink",
    notes={
        "attention_scores": "less each row's maximum, with the sink's score as one more column at the end",
        "attention_probabilities": "rows sum to less than 1: the sink takes the rest",
    },
)
