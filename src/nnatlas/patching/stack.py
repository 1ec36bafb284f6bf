"""The stack of blocks that a sweep goes up: how the model is called, where the swept value lies, what must be left alone."""

from __future__ import annotations

import inspect
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnatlas.model.editing import edited_on
from nnatlas.patching.cells import Swept
from nnatlas.places import Absent

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer

WITHIN_BLOCKS = re.compile(r"layers\.\d+\..+")
BESIDE_MLPS = re.compile(r"(layers\.\d+\.((self_attn|linear_attn)\.)?)?\w+")


class Stack:
    """A model and a value of its blocks; `names` has the value's full name in each block that has it."""

    def __init__(self, model: StandardizedTransformer, swept: Swept) -> None:
        self.model, self.swept = model, swept
        names: dict[int, str] = {}
        for name in model.editing(swept.patterns, lambda value, call: None).values:
            names.setdefault(int(name.split(".")[1]), name)
        self.names = dict(sorted(names.items()))
        self._edited = edited_on(model._owner)
        self._reads_out = False  # until a whole forward has shown it

    def call(self, ids: Tensor, start: int = 0, cache: Any = None) -> dict[str, Any]:
        """What `trace` is called with: prompts `[rows, seq]` of one length, from a position on."""
        rows, length = ids.shape
        takes = inspect.signature(inspect.unwrap(type(self.model._module).forward)).parameters
        inputs = {"input_ids": ids[:, start:]}
        if "attention_mask" in takes:
            inputs["attention_mask"] = torch.ones(rows, length, dtype=torch.long)
        call: dict[str, Any] = {"inputs": inputs, "use_cache": cache is not None, "growing": True}
        if cache is not None:
            call["cache" if "cache" in takes else "past_key_values"] = cache
        if start and "position_ids" in takes:
            call["position_ids"] = torch.arange(start, length)[None]
        if "logits_to_keep" in takes:
            call["logits_to_keep"] = 1
        return call

    @property
    def unpackable(self) -> str:
        """Why MLPs cannot be run on some tokens only; empty where they can."""
        inside = next((name for name in self._edited if not BESIDE_MLPS.fullmatch(name)), "")
        if inside:
            return f"an edit stands at {inside}, which knows its tokens by their places"
        served = self.model.support().rows["block.mlp_input"]
        return "" if self.swept.before_mlp and served.everywhere else "what its MLPs read cannot be chosen"

    @cached_property
    def _may_read_out(self) -> bool:
        family = self.model.family
        broken = isinstance(family.readout, Absent) or any(law.partition(" ")[0] == "head" for law in family.breaks)
        return not broken and all(WITHIN_BLOCKS.fullmatch(name) for name in self._edited)

    def logits(self, run: Any, growing: bool) -> Tensor:
        """The logits at the last position, `[rows, vocab_size]`, float32.

        A whole forward gives the model's own, and with them the proof that `project_on_vocab` makes the same of the last
        stream.  That is all that a growing forward then needs, whatever else the model would do with its rows.
        """
        if growing and self._reads_out:
            last = run.layers[-1].layer_output[:, -1:].contiguous()
            run.stop()
            return self.model.project_on_vocab(last)[:, -1].float()
        last = run.layers[-1].layer_output[:, -1:].clone() if self._may_read_out and not growing else None
        logits: Tensor = run.logits[:, -1].float()
        if last is not None:
            projected = self.model.project_on_vocab(last)[:, -1].float()
            self._reads_out = projected.shape == logits.shape and farthest(projected, logits) <= tolerance(logits)
        return logits


def farthest(one: Tensor, other: Tensor) -> float:
    """The largest difference between two tensors."""
    return float((one.float() - other.float()).abs().max()) if one.numel() else 0.0


def tolerance(like: Tensor) -> float:
    """What two ways of computing one tensor may differ by: 1e-4, or a few roundings where the dtype is coarser."""
    scale = max(1.0, float(like.float().abs().max()))
    return max(1e-4, 4 * torch.finfo(like.dtype).eps) * scale
