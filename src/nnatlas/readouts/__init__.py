"""Readouts: one method a file, each over the public surface of a model, as a user's own would be."""

from nnatlas.readouts.attention_patterns import AttentionPatterns, attention_patterns
from nnatlas.readouts.head_scores import HeadScores, head_scores, repeated_random_tokens
from nnatlas.readouts.logit_attribution import LogitAttribution, logit_attribution
from nnatlas.readouts.logit_lens import LogitLens, Top, logit_lens

__all__ = [
    "AttentionPatterns",
    "HeadScores",
    "LogitAttribution",
    "LogitLens",
    "Top",
    "attention_patterns",
    "head_scores",
    "logit_attribution",
    "logit_lens",
    "repeated_random_tokens",
]
