"""APEX-1: a small language model to read top to bottom, and the trained checkpoint that needs no download.

`checkpoint_path()` is where the bundled checkpoint lies; `register()` makes transformers' Auto classes know the model.
The classes are imported on first use, so that importing this package does not import torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

_HOMES = {
    "Apex1Config": "configuration",
    "is_global_layer": "configuration",
    "Apex1Model": "modeling",
    "Apex1ForCausalLM": "modeling",
    "Apex1CausalLMOutput": "outputs",
    "PRESETS": "presets",
}
__all__ = ["checkpoint_path", "register", *_HOMES]  # noqa: PLE0604  _HOMES holds strings


def checkpoint_path() -> Path:
    """The folder of the bundled checkpoint: weights, tokenizer, configuration and model card.

    >>> (checkpoint_path() / "config.json").exists()
    True
    """
    return Path(__file__).parent / "checkpoint"


def register() -> None:
    """Make `AutoModelForCausalLM.from_pretrained` and its kin load APEX-1; harmless to call again."""
    import nnatlas.apex.modeling  # noqa: F401  registers on import


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"nnatlas.apex has no {name!r}; it has {', '.join(__all__)}")
    from importlib import import_module

    return getattr(import_module(f"nnatlas.apex.{_HOMES[name]}"), name)
