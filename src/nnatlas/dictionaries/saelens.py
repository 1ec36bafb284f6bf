"""SAELens folders: its architectures, and what its older configurations said otherwise.

Since version 6 the architecture stands in the config and the place in its `metadata`.  Before, everything was on one level,
`activation_fn_str` could make a standard autoencoder a top-k one, and a fine-tuned scale could stand beside the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from nnatlas.dictionaries import activations
from nnatlas.dictionaries.activations import Activation
from nnatlas.dictionaries.dictionary import NORMS, Dictionary
from nnatlas.dictionaries.places import Place
from nnatlas.errors import InputError

Weights = Mapping[str, Tensor]
Config = Mapping[str, Any]
RENAMED = {"hook_point": "hook_name", "activation_fn_str": "activation_fn", "activation_fn_kwargs": "activation_kwargs"}
TRANSCODES = "transcoder"


def read(name: str, given: Config, weights: Weights) -> Dictionary:
    """A dictionary from a configuration and its weights."""
    config = {RENAMED.get(key, key): value for key, value in {**given, **(given.get("metadata") or {})}.items()}
    kind = _kind(config)
    if config.get("hook_head_index") is not None:
        raise InputError(f"{name} was trained on head {config['hook_head_index']} alone, which is not read here")
    place = Place(config.get("hook_name") or "", config.get("hook_name_out") or "", TRANSCODES in kind)
    return Dictionary(
        name=name,
        architecture=str(config.get("architecture", "standard")),
        encoder=weights["W_enc"],
        decoder=weights["W_dec"],
        decoder_bias=weights["b_dec"],
        activation=KINDS[kind.removesuffix(TRANSCODES).removesuffix("skip_").rstrip("_") or "standard"](
            config, weights
        ),
        place=place,
        centred=bool(config.get("apply_b_dec_to_input", True)) and not place.transcodes,
        normalise=_norm(config.get("normalize_activations", "none")),
        skip=weights["W_skip"] if "skip" in kind else None,
        feature_scale=_scale(config, weights),
        metadata=config,
    )


def _kind(config: Config) -> str:
    """The architecture, as one of KINDS, perhaps with `skip_transcoder` behind."""
    kind = str(config.get("architecture", "standard"))
    if kind == "standard" and config.get("activation_fn", "relu") in ("topk", "tanh-relu"):
        kind = str(config["activation_fn"])
    bare = kind.removesuffix(TRANSCODES).removesuffix("skip_").rstrip("_") or "standard"
    if bare not in KINDS:
        raise InputError(
            f"no architecture {kind!r} is known here; there are {', '.join(KINDS)}, each as a transcoder too"
        )
    return kind


def _norm(given: Any) -> str:
    """How inputs are scaled; older files say true or false."""
    name = {True: "expected_average_only_in", False: "none"}.get(given, given) if isinstance(given, bool) else given
    if name not in NORMS:
        raise InputError(f"no way {name!r} of scaling inputs is known here; there are {', '.join(NORMS)}")
    return str(name)


def _scale(config: Config, weights: Weights) -> Tensor | None:
    """What activations are multiplied by before they are decoded."""
    if config.get("rescale_acts_by_decoder_norm"):
        return 1 / weights["W_dec"].norm(dim=-1)
    if config.get("finetuning_scaling_factor"):
        return weights["finetuning_scaling_factor" if "finetuning_scaling_factor" in weights else "scaling_factor"]
    return None


def _top_k(config: Config, weights: Weights) -> Activation:
    k = config["k"] if "k" in config else (config.get("activation_kwargs") or {})["k"]
    sizes = weights["W_dec"].norm(dim=-1) if config.get("rescale_acts_by_decoder_norm") else None
    return activations.top_k(weights["b_enc"], int(k), sizes)


KINDS: dict[str, Callable[[Config, Weights], Activation]] = {
    "standard": lambda config, weights: activations.relu(weights["b_enc"]),
    "tanh-relu": lambda config, weights: activations.tanh_relu(weights["b_enc"]),
    "topk": _top_k,
    "jumprelu": lambda config, weights: activations.jump_relu(weights["b_enc"], weights["threshold"]),
    "gated": lambda config, weights: activations.gated(weights["b_gate"], weights["b_mag"], weights["r_mag"]),
}
"""How features come about, by architecture; what was trained with a batch's top k or as nested dictionaries is saved as
jumprelu."""
