"""sparsify folders (EleutherAI): top-k autoencoders and transcoders, named by the path of the module they were trained on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from nnatlas.dictionaries import activations
from nnatlas.dictionaries.dictionary import Dictionary
from nnatlas.dictionaries.places import Place
from nnatlas.errors import InputError

OTHER = ("signed", "embed_skip", "gram_lookup")
"""Settings that change the arithmetic into something that is not read here."""


def read(name: str, config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Dictionary:
    """A dictionary from a configuration and its weights; `name` is the folder's, which is the module's path."""
    kind = str(config.get("activation", "topk"))
    unknown = [setting for setting in OTHER if config.get(setting)]
    if kind not in KINDS or unknown:
        said = f"activation {kind!r}" if kind not in KINDS else f"{unknown[0]} set"
        raise InputError(f"{name}: sparse coders with {said} are not known here; there are {', '.join(KINDS)}")
    transcodes = bool(config.get("transcode", False))
    return Dictionary(
        name=name,
        architecture=f"{kind} transcoder" if transcodes else kind,
        encoder=weights["encoder.weight"].T,
        decoder=weights["W_dec"],
        decoder_bias=weights["b_dec"],
        activation=KINDS[kind](weights["encoder.bias"], int(config["k"])),
        place=Place(name, transcodes=transcodes, module=True),
        centred=not transcodes,
        skip=weights["W_skip"] if config.get("skip_connection") else None,
        metadata=config,
    )


KINDS = {"topk": activations.top_k, "groupmax": activations.group_max}
