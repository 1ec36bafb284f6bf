"""What users hold: a loaded model whose every value has its standard name."""

from nnatlas.model.load import load
from nnatlas.model.transformer import StandardizedTransformer

__all__ = ["StandardizedTransformer", "load"]
