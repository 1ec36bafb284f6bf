"""From what users hand in to what the model is called with: ids, mask and positions, one row per prompt.

Strings, lists of strings, ids (one dimension is one row), lists of id lists, batch dicts and chat messages are taken.
Rows of unequal length are padded on the left, and positions are counted from each row's first real token, so that every
row of a batch equals the prompt alone.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nnatlas.errors import InputError

Batch = dict[str, Any]


class Preparer:
    """Turns inputs into a batch for one model and its tokenizer (which may be None)."""

    def __init__(self, module: nn.Module, tokenizer: Any = None) -> None:
        self.module, self.tokenizer = module, tokenizer
        self._forward = set(inspect.signature(inspect.unwrap(type(module).forward)).parameters) - {"self"}

    def __call__(self, inputs: Any, keywords: Mapping[str, Any], also: Sequence[str] = ()) -> Batch:
        """The batch to call the model with; `also` names further keywords that belong to the call (generate's)."""
        given = inputs if isinstance(inputs, Mapping) else {}
        for_tokenizer, for_call = self._sort({k: v for k, v in keywords.items() if k not in given}, set(also))
        batch = self._batch(inputs, for_tokenizer) | for_call
        self._check_rows(batch)
        return self._with_positions(batch) if "generation_config" not in also else batch

    # -- keywords --------------------------------------------------------------------------------------------------

    def _sort(self, keywords: Mapping[str, Any], also: set[str]) -> tuple[Batch, Batch]:
        """Tokenizer keywords and forward keywords told apart; an unknown one is an error that names its neighbours."""
        tokenizing = _tokenizer_keywords(self.tokenizer)
        ours = (self._forward | also | _RUN_TIME) - {"kwargs", "args"}
        for_tokenizer, for_call = {}, {}
        for name, value in keywords.items():
            if name in ours:
                for_call[name] = value
            elif name in tokenizing:
                for_tokenizer[name] = value
            else:
                near = difflib.get_close_matches(name, sorted(ours | tokenizing), 3)
                raise InputError(
                    f"{name!r} is neither a keyword of {type(self.module).__name__}'s forward nor of the tokenizer"
                    + (f"; near: {', '.join(near)}" if near else "")
                )
        return for_tokenizer, for_call

    # -- the forms of input ----------------------------------------------------------------------------------------

    def _batch(self, inputs: Any, for_tokenizer: Batch) -> Batch:
        if isinstance(inputs, Mapping):
            return {name: self._placed(value) for name, value in inputs.items()}
        if inputs is None:
            return {}
        if _is_text(inputs):
            return self._tokenized(inputs, for_tokenizer)
        if for_tokenizer:
            raise InputError(f"{', '.join(for_tokenizer)} is for the tokenizer, but the input is ids already")
        return self._from_ids(inputs)

    def _tokenized(self, inputs: Any, for_tokenizer: Batch) -> Batch:
        if self.tokenizer is None:
            raise InputError("this model was loaded without a tokenizer: hand in ids, or load(..., tokenizer=...)")
        chat = _is_chat(inputs)
        texts = self._chat(inputs) if chat else [inputs] if isinstance(inputs, str) else list(inputs)
        if chat:
            for_tokenizer = {"add_special_tokens": False, **for_tokenizer}  # the template has written them already
        if for_tokenizer.get("return_tensors", "pt") != "pt":
            raise InputError("return_tensors is always 'pt' here")
        encoded = self.tokenizer(texts, **{**for_tokenizer, "return_tensors": None, "padding": False})["input_ids"]
        return self._from_ids(encoded)

    def _chat(self, inputs: Any) -> list[str]:
        conversations = [inputs] if isinstance(inputs[0], Mapping) else inputs
        return [
            self.tokenizer.apply_chat_template(list(talk), tokenize=False, add_generation_prompt=True)
            for talk in conversations
        ]

    def _from_ids(self, inputs: Any) -> Batch:
        """Rows of ids, padded on the left to the longest."""
        if isinstance(inputs, Tensor):
            if inputs.ndim not in (1, 2) or inputs.is_floating_point() or inputs.dtype == torch.bool:
                raise InputError(
                    f"ids are whole numbers [seq] or [batch, seq]; this is {list(inputs.shape)} of {inputs.dtype}"
                )
            ids = inputs[None] if inputs.ndim == 1 else inputs
            return {"input_ids": self._placed(ids), "attention_mask": self._placed(torch.ones_like(ids))}
        rows = _rows(inputs)
        width = max((len(row) for row in rows), default=0)
        pad = self._pad_id()
        ids = torch.tensor([[pad] * (width - len(row)) + row for row in rows], dtype=torch.long)
        mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in rows], dtype=torch.long)
        if any(not row for row in rows):
            raise InputError("an empty prompt: every row needs at least one token")
        return {"input_ids": self._placed(ids), "attention_mask": self._placed(mask)}

    def _pad_id(self) -> int:
        ids = (getattr(self.tokenizer, "pad_token_id", None), getattr(self.module.config, "pad_token_id", None))
        return next((found for found in ids if isinstance(found, int) and found >= 0), 0)

    # -- checks and completion -------------------------------------------------------------------------------------

    def _check_rows(self, batch: Batch) -> None:
        first = batch.get("input_ids")
        first = batch.get("inputs_embeds") if first is None else first
        if first is None:
            raise InputError("nothing to run: hand in a prompt, ids, or a batch with input_ids or inputs_embeds")
        if isinstance(first, Tensor) and 0 in first.shape[:2]:
            raise InputError(f"an empty input: {list(first.shape)}; every row needs at least one token")
        rows = getattr(self.module.get_input_embeddings(), "num_embeddings", None)
        ids = batch.get("input_ids")
        if rows and isinstance(ids, Tensor) and ids.device.type == "cpu" and (ids.max() >= rows or ids.min() < 0):
            raise InputError(
                f"id {int(ids.max()) if ids.max() >= rows else int(ids.min())} is not in the vocabulary: 0 to {rows - 1}"
            )

    def _with_positions(self, batch: Batch) -> Batch:
        """Positions for padded rows, unless they were given: counted from each row's first real token."""
        mask = batch.get("attention_mask")
        if (
            "position_ids" in batch
            or "position_ids" not in self._forward
            or not isinstance(mask, Tensor)
            or mask.ndim != 2
        ):
            return batch
        if bool(mask.all()):
            return batch
        return {**batch, "position_ids": (mask.long().cumsum(-1) - 1).clamp(min=0)}

    def _placed(self, value: Any) -> Any:
        return value.to(self.module.get_input_embeddings().weight.device) if isinstance(value, Tensor) else value


_RUN_TIME = {
    "use_cache",
    "output_hidden_states",
    "output_attentions",
    "output_router_logits",
    "logits_to_keep",
    "cache",
}


def _is_text(inputs: Any) -> bool:
    return (
        isinstance(inputs, str)
        or (isinstance(inputs, Sequence) and bool(inputs) and isinstance(inputs[0], str))
        or _is_chat(inputs)
    )


def _is_chat(inputs: Any) -> bool:
    """Messages with a role each, or a list of such conversations."""
    if not isinstance(inputs, Sequence) or isinstance(inputs, str) or not inputs:
        return False
    first = inputs[0]
    return isinstance(first, Mapping) or (isinstance(first, Sequence) and bool(first) and isinstance(first[0], Mapping))


def _rows(inputs: Any) -> list[list[int]]:
    """Id lists, or one, or tensors of ids, as lists of whole numbers."""
    if not isinstance(inputs, Sequence) or len(inputs) == 0:
        raise InputError(
            f"an empty input: {inputs!r}" if isinstance(inputs, Sequence) else f"cannot run a {type(inputs).__name__}"
        )
    rows = inputs if isinstance(inputs[0], Sequence | Tensor) and not isinstance(inputs[0], str) else [inputs]
    rows = [row.tolist() if isinstance(row, Tensor) else list(row) for row in rows]
    for row in rows:
        wrong = next((item for item in row if not isinstance(item, int)), None)
        if wrong is not None:
            raise InputError(f"ids are whole numbers; {wrong!r} is a {type(wrong).__name__}")
    return rows


def _tokenizer_keywords(tokenizer: Any) -> set[str]:
    if tokenizer is None:
        return set()
    parameters = inspect.signature(type(tokenizer).__call__).parameters
    return set(parameters) - {"self", "text", "kwargs", "text_pair", "text_target", "text_pair_target"}
