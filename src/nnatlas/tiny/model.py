"""Build a tiny random model of a type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import transformers
from transformers import PreTrainedModel
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from nnatlas.errors import InputError

from .config import tiny_config
from .weights import perturb

CLASSES = {
    "causal-lm": modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    "image-text-to-text": modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
}


def tiny_model(
    model_type: str,
    overrides: Mapping[str, object] | None = None,
    *,
    seed: int = 0,
    task: str | None = None,
    attn_implementation: str | None = None,
    dtype: torch.dtype | str | None = None,
) -> PreTrainedModel:
    """A small random model of `model_type` in evaluation mode; the same `seed` gives the same weights.

    `overrides` are as in `tiny_config`.  `task` is `"causal-lm"` or `"image-text-to-text"`, by default the first that
    the type has; an InputError says so when it has no such task.  The global random state is left as it was.

    >>> tiny_model("llama")(torch.tensor([[1, 2, 3]])).logits.shape
    torch.Size([1, 3, 320])
    """
    model_class = _model_class(model_type, task)
    config = tiny_config(model_type, overrides)
    text = config.get_text_config(decoder=True)
    if model_class.config_class is not None and isinstance(text, model_class.config_class):
        config = text  # the language model inside a multimodal type
    given = {"attn_implementation": attn_implementation, "dtype": dtype}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = model_class._from_config(config, **{name: value for name, value in given.items() if value is not None})
        perturb(model)
    return model.eval()


def shows_pictures(model_type: str, task: str | None) -> bool:
    """Whether `tiny_model` builds the class that takes images: where it is asked for, or the only one there is."""
    return task == "image-text-to-text" or (task is None and model_type not in CLASSES["causal-lm"])


def _model_class(model_type: str, task: str | None) -> type[PreTrainedModel]:
    """The class by the type's own name: the auto classes go by the config's class, which two types may share."""
    if task is not None and task not in CLASSES:
        raise InputError(f"no task {task!r}; there are {' and '.join(map(repr, CLASSES))}")
    for names in [CLASSES[task]] if task else CLASSES.values():
        if model_type in names:
            return getattr(transformers, names[model_type])
    registered: Any = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING
    config_class = CONFIG_MAPPING[model_type] if model_type in CONFIG_MAPPING else None  # noqa: SIM401  it is lazy
    if config_class in registered and task != "image-text-to-text":
        found: type[PreTrainedModel] = registered[config_class]  # registered by somebody else than transformers
        return found
    raise InputError(f"transformers has no {task or 'language'} model of type {model_type!r}")
