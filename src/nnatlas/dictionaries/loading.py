"""Loading: a folder as SAELens or sparsify writes it, whichever it is.

SAELens     cfg.json + sae_weights.safetensors   W_enc `d_in d_sae`, W_dec `d_sae d_out`, b_dec, and by architecture
                                                 b_enc, threshold, b_gate, b_mag, r_mag, W_skip
sparsify    cfg.json + sae.safetensors           encoder.weight `latents d_in`, encoder.bias, W_dec, b_dec, W_skip
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from nnatlas.dictionaries import saelens, sparsify
from nnatlas.errors import DamagedFile, InputError
from nnatlas.model.asked import named_path

if TYPE_CHECKING:
    from nnatlas.dictionaries.dictionary import Dictionary

CONFIG = "cfg.json"
FORMATS = {"sae_weights.safetensors": saelens.read, "sae.safetensors": sparsify.read}


def load_dictionary(folder: str | Path, *, device: Any = None, dtype: Any = None) -> Dictionary:
    """Load a sparse autoencoder or transcoder from a folder of SAELens or sparsify.

    Args:
        folder: with `cfg.json` and the weights as safetensors.
        device, dtype: where and in which precision; by default the CPU, as it was saved.

    Raises:
        InputError: the folder holds no dictionary, or one of an architecture that is not known here.
        DamagedFile: a file cannot be read, or weights are missing or of the wrong size.

    Example:
        >>> sae = load_dictionary("gpt2-small-res-jb/blocks.8.hook_resid_pre")
        >>> sae.architecture, sae.place.hook
        ('standard', 'blocks.8.hook_resid_pre')
    """
    place = named_path(folder, "a folder")
    weights = next((name for name in FORMATS if (place / name).is_file()), None)
    if weights is None or not (place / CONFIG).is_file():
        raise InputError(f"no dictionary in {str(place)!r}: it should hold {CONFIG} and {' or '.join(FORMATS)}")
    config = _config(place / CONFIG)
    tensors = {name: tensor.to(device=device, dtype=dtype) for name, tensor in _tensors(place / weights).items()}
    try:
        return FORMATS[weights](place.name, config, tensors)
    except KeyError as missing:
        there = ", ".join(sorted(tensors))
        raise DamagedFile(f"{place}: {missing} is missing, in {CONFIG} or {weights}, which holds {there}") from None


def _config(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except ValueError as wrong:
        raise DamagedFile(f"{path}: {wrong}") from None


def _tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (SafetensorError, OSError) as wrong:
        raise DamagedFile(f"{path}: {wrong}") from None
