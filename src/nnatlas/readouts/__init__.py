"""Readouts: one method a file, each over the public surface of a model, as a user's own would be."""

from nnatlas.readouts.attention_patterns import AttentionPatterns, attention_patterns
from nnatlas.readouts.head_scores import HeadScores, head_scores, repeated_random_tokens
from nnatlas.readouts.logit_attribution import LogitAttribution, logit_attribution
from nnatlas.readouts.logit_lens import LogitLens, Top, logit_lens
from nnatlas.readouts.patchscope import Patchscope, patchscope
from nnatlas.readouts.probing import Probes, probe
from nnatlas.readouts.tuned_lens import TunedLens, load_tuned_lens, train_tuned_lens

__all__ = [
    "AttentionPatterns",
    "HeadScores",
    "LogitAttribution",
    "LogitLens",
    "Patchscope",
    "Probes",
    "Top",
    "TunedLens",
    "attention_patterns",
    "head_scores",
    "load_tuned_lens",
    "logit_attribution",
    "logit_lens",
    "patchscope",
    "probe",
    "repeated_random_tokens",
    "train_tuned_lens",
]
