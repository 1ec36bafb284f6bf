"""Build a tiny random model of a type."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, PretrainedConfig, PreTrainedModel

from ..errors import InputError
from .config import tiny_config
from .weights import perturb

TASKS = {"causal-lm": AutoModelForCausalLM, "image-text-to-text": AutoModelForImageTextToText}


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

    `task` is `"causal-lm"` or `"image-text-to-text"`, by default the first that the type has.  The global random state is left
    as it was.  An InputError says so when the type has no such task.

    >>> tiny_model("llama")(torch.tensor([[1, 2, 3]])).logits.shape
    torch.Size([1, 3, 320])
    """
    config = tiny_config(model_type, overrides)
    builder = _builder(config, task)
    given = {"attn_implementation": attn_implementation, "dtype": dtype}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = builder.from_config(config, **{name: value for name, value in given.items() if value is not None})
        perturb(model)
    return model.eval()


def _builder(config: PretrainedConfig, task: str | None) -> type:
    if task is not None and task not in TASKS:
        raise InputError(f"no task {task!r}; there are {' and '.join(map(repr, TASKS))}")
    served = {name: auto for name, auto in TASKS.items() if type(config) in auto._model_mapping}
    wanted = task or next(iter(served), None)
    if wanted not in served:
        raise InputError(f"transformers builds no {wanted or 'language model'} from the type {config.model_type!r}")
    return served[wanted]
