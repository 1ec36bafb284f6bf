"""Patching: which values carry the difference between two prompts.

    found = activation_patching(model, clean, corrupted, metric=LogitDifference(" Paris", " Rome"))
    found                             # a table: 0 is what the corrupted prompt gives, 1 what the clean one does
    found.html("patching.html")

`activation_patching` is exact and causal-aware, `attribution_patching` its estimate from one gradient, `path_patching`
follows single paths from a value to those that read it.
"""

from nnatlas.patching.activation import activation_patching
from nnatlas.patching.attribution import attribution_patching
from nnatlas.patching.metrics import METRICS, KLToClean, LogitDifference, Probability
from nnatlas.patching.path import path_patching
from nnatlas.patching.result import Agreement, Patching

__all__ = [
    "METRICS",
    "Agreement",
    "KLToClean",
    "LogitDifference",
    "Patching",
    "Probability",
    "activation_patching",
    "attribution_patching",
    "path_patching",
]
