"""nnatlas: one name for one thing, on every transformer.

    import nnatlas

    model = nnatlas.load("smollm2")
    with model.trace("The Eiffel Tower is in the city of"):
        stream = model.layers[5].layer_output      # batch seq hidden_size
        probs = model.next_token_probs             # batch vocab_size

Experiments live in `nnatlas.readouts`, `nnatlas.edits`, `nnatlas.patching`, `nnatlas.dictionaries` and `nnatlas.vision`.
Importing this does not import torch: the names below are looked up when first used.  `check` and `pull` are each a
function and the package it lives in; `_callable.py` says how both hold.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nnatlas.errors import (
    AlreadyRan,
    AtlasError,
    DamagedFile,
    DownloadFailed,
    InputError,
    LawBroken,
    LayoutError,
    NeverReached,
    NotInRun,
    PlaceError,
    ReadOnly,
    RowDoesNotFit,
    Unavailable,
    UnsupportedFamily,
)

if TYPE_CHECKING:
    from nnatlas import apex, dictionaries, edits, patching, readouts, vision
    from nnatlas.check import check
    from nnatlas.model import StandardizedTransformer
    from nnatlas.model.load import load
    from nnatlas.pull import pull

__version__ = "0.1.0"

__all__ = [
    "AlreadyRan",
    "AtlasError",
    "DamagedFile",
    "DownloadFailed",
    "InputError",
    "LawBroken",
    "LayoutError",
    "NeverReached",
    "NotInRun",
    "PlaceError",
    "ReadOnly",
    "RowDoesNotFit",
    "StandardizedTransformer",
    "Unavailable",
    "UnsupportedFamily",
    "__version__",
    "apex",
    "check",
    "dictionaries",
    "edits",
    "load",
    "patching",
    "pull",
    "readouts",
    "vision",
]

_LIVES_IN = {
    "StandardizedTransformer": "nnatlas.model",
    "apex": "nnatlas.apex",
    "check": "nnatlas.check",
    "dictionaries": "nnatlas.dictionaries",
    "edits": "nnatlas.edits",
    "load": "nnatlas.model",
    "patching": "nnatlas.patching",
    "pull": "nnatlas.pull",
    "readouts": "nnatlas.readouts",
    "vision": "nnatlas.vision",
}


def __getattr__(name: str) -> Any:
    """Import what was asked for.  Packages that are functions too are given as the (callable) package itself."""
    if name not in _LIVES_IN:
        raise AttributeError(f"module 'nnatlas' has no attribute {name!r}; there is: {', '.join(__all__)}")
    home = importlib.import_module(_LIVES_IN[name])
    found = home if home.__name__ == f"nnatlas.{name}" else getattr(home, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
