"""Edits on disk: one safetensors file, its tensors by name, everything else as JSON in the file's metadata."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from nnatlas.edits.edit import KINDS, Edit
from nnatlas.edits.where import Where
from nnatlas.errors import DamagedFile, InputError
from nnatlas.model.asked import named_path

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer

KEY, FORMAT = "nnatlas", 1


def save(edit: Edit, path: str | Path) -> None:
    """Write an edit; `load` makes it again."""
    settings = {one.name: getattr(edit, one.name) for one in _settings_of(type(edit))}
    about = {"edit": type(edit).__name__, "describes": edit.describe(), "made_on": _fingerprint(edit.model)}
    write(path, settings, about)


def load(path: str | Path, model: StandardizedTransformer) -> Edit:
    """The edit that was saved at `path`, for `model`, not yet entered.

    Raises:
        InputError: there is no such file, or the edit was made on a model of another family or size.
        DamagedFile: the file is not a saved edit.

    >>> with edits.load("formal.safetensors", model), model.generate(prompt, max_new_tokens=20) as run:
    ...     pass
    """
    about, settings = read(path)
    kind = KINDS.get(str(about.get("edit")))
    if kind is None:
        raise DamagedFile(
            f"{str(path)!r} holds {about.get('edit')!r}, which is no edit; there are {', '.join(KINDS)}"
            + ("; SteeringVector.load(path) reads it" if about.get("edit") == "SteeringVector" else "")
        )
    made_on, here = about.get("made_on"), _fingerprint(model)
    made_on = made_on if isinstance(made_on, dict) else {}
    if made_on != here:
        other = ", ".join(
            f"{name} {made_on.get(name)} (here {here[name]})" for name in here if made_on.get(name) != here[name]
        )
        raise InputError(f"{str(path)!r} was saved on another model: {other}")
    if set(settings) != {one.name for one in _settings_of(kind)}:
        raise DamagedFile(
            f"{str(path)!r} holds other settings than {kind.__name__} has: {', '.join(settings) or 'none'}"
        )
    return kind(model, **settings)


def _settings_of(kind: type[Edit]) -> list[Any]:
    """The fields of a kind of edit that a file keeps."""
    return [one for one in dataclasses.fields(kind) if one.init and one.name != "model"]


def _fingerprint(model: StandardizedTransformer) -> dict[str, Any]:
    """What must agree between the model an edit was made on and the one it is loaded for."""
    return {"family": model.family.name, "num_layers": model.num_layers, "hidden_size": model.hidden_size}


def write(path: str | Path, settings: Mapping[str, Any], about: Mapping[str, Any]) -> None:
    """Write settings, tensors among them, with what they are about."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    tensors: dict[str, Tensor] = {}
    packed = {name: _packed(value, name, tensors) for name, value in settings.items()}
    try:
        save_file(tensors, path, {KEY: json.dumps({"format": FORMAT, **about, "settings": packed})})
    except (OSError, SafetensorError) as wrong:
        raise InputError(f"cannot write {str(path)!r}: {wrong}") from None


def read(path: str | Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a file is about, and its settings."""
    from safetensors import SafetensorError, safe_open

    if not named_path(path, "a file").is_file():
        raise InputError(f"there is no file {str(path)!r}")
    try:
        with safe_open(path, "pt") as opened:
            about = json.loads((opened.metadata() or {})[KEY])
            if about["format"] != FORMAT:
                raise InputError(f"{str(path)!r} has format {about['format']}, this nnatlas reads {FORMAT}: update it")
            settings = {name: _unpacked(value, opened.get_tensor) for name, value in about.pop("settings").items()}
    except (SafetensorError, KeyError, ValueError, TypeError, AttributeError) as wrong:
        raise DamagedFile(f"{str(path)!r} was not saved by nnatlas.edits, or is damaged: {wrong}") from None
    return about, settings


def _packed(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """A setting as JSON; tensors go to `tensors` and leave their name."""
    if isinstance(value, Tensor):
        tensors[name] = value.detach().cpu().contiguous().clone()
        return {"tensor": name}
    if isinstance(value, Where):
        return {"positions": _packed(value.positions, name, tensors), "on": value.on}
    if isinstance(value, slice):
        return {"slice": [value.start, value.stop, value.step]}
    if isinstance(value, Mapping):
        return {"map": [[key, _packed(one, f"{name}.{key}", tensors)] for key, one in value.items()]}
    if isinstance(value, list | tuple):
        return [_packed(one, f"{name}.{at}", tensors) for at, one in enumerate(value)]
    return value


def _unpacked(value: Any, tensor: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(one, tensor) for one in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return tensor(value["tensor"])
    if "on" in value:
        return Where(_unpacked(value["positions"], tensor), value["on"])
    if "slice" in value:
        return slice(*value["slice"])
    return {key: _unpacked(one, tensor) for key, one in value["map"]}
