"""Readouts: one method a file, each over the public surface of a model, as a user's own would be."""

from nnatlas.readouts.logit_attribution import LogitAttribution, logit_attribution
from nnatlas.readouts.logit_lens import LogitLens, Top, logit_lens

__all__ = ["LogitAttribution", "LogitLens", "Top", "logit_attribution", "logit_lens"]
