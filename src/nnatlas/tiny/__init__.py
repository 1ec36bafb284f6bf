"""Tiny random models of any decoder type of transformers, and a byte tokenizer for them: for trying things offline.

    model = tiny_model("gemma2")
    tokenizer = byte_tokenizer(model.config.vocab_size)

This package imports only the errors, transformers and torch.
"""

from __future__ import annotations

from .config import tiny_config
from .model import shows_pictures, tiny_model
from .processor import TinyProcessor
from .tokenizer import byte_tokenizer

__all__ = ["TinyProcessor", "byte_tokenizer", "shows_pictures", "tiny_config", "tiny_model"]
