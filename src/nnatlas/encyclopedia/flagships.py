"""The checkpoint whose real shape a page shows, by model type, and the configuration that gives that shape.

`data/flagships.json` holds the checkpoints whose `config.json` is known, field by field.  For any other type the page shows
the configuration class's own defaults and says so, with the checkpoint that the class names for them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from nnatlas.encyclopedia.outline import DEFAULTS

KEPT: Final = Path(__file__).parents[1] / "data" / "flagships.json"
SMALL: Final = "a small configuration, as the class's defaults build no model"
_NAMED = re.compile(r"similar configuration to that of the \[([\w./-]+)\]")


@dataclass(frozen=True, slots=True)
class Flagship:
    """A checkpoint by name, and the config fields in which it differs from the class's defaults.

    `known` says where these are from; `folder` marks a checkpoint that comes with nnatlas, and `sample` the config fields with
    which it shows on a short prompt what it does (a window that is shorter than the prompt).
    """

    checkpoint: str
    known: str = DEFAULTS
    config: Mapping[str, Any] = field(default_factory=dict)
    folder: bool = False
    sample: Mapping[str, Any] = field(default_factory=dict)


@cache
def _kept() -> Mapping[str, Any]:
    return json.loads(KEPT.read_text(encoding="utf-8"))


def flagship(model_type: str) -> Flagship:
    """The checkpoint that a type's page shows."""
    told = _kept().get(model_type)
    return Flagship(**{key: value for key, value in told.items() if key != "drawn"}) if told else Flagship("")


def drawn(model_type: str) -> Flagship:
    """The checkpoint whose blocks are drawn: the flagship, unless another shows more kinds of block."""
    told = _kept().get(model_type, {}).get("drawn")
    return Flagship(**told) if told else flagship(model_type)


def configuration(model_type: str, shown: Flagship) -> tuple[Any, str]:
    """A transformers config of that shape, and the checkpoint's name."""
    from transformers import CONFIG_MAPPING, AutoConfig

    if shown.folder:
        from nnatlas.model.load import _place

        return AutoConfig.from_pretrained(_place(shown.checkpoint)), shown.checkpoint
    made = CONFIG_MAPPING[model_type](**shown.config)
    return made, shown.checkpoint or _documented(type(made))


def _documented(config_class: type) -> str:
    """The checkpoint that a config class's documentation names for its defaults, if it does."""
    found = _NAMED.search(" ".join((config_class.__doc__ or "").split()))
    return found[1] if found else ""
