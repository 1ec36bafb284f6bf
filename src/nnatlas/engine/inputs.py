"""From what users hand in to what the model is called with: ids, mask and positions, one row per prompt.

Strings, lists of strings, ids (one dimension is one row), lists of id lists, batch dicts and chat messages are taken.
Rows of unequal length are padded on the left, and positions are counted from each row's first real token, so that every
row of a batch equals the prompt alone.  Tensors are copied: an edit in a run never writes into what was handed in.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from nnatlas.engine.keywords import BY_PRODUCTS, Keywords
from nnatlas.engine.model_call import CACHES, cached_columns
from nnatlas.errors import InputError

Batch = dict[str, Any]
_CACHES = frozenset(CACHES)
_TAKEN = "a string, a list of strings, ids [seq] or [batch, seq], a batch dict, or chat messages"


class Preparer:
    """Turns inputs into a batch for one model and its tokenizer (which may be None)."""

    def __init__(self, module: nn.Module, tokenizer: Any = None, positions: bool = True) -> None:
        self.module: Any = module
        self.tokenizer, self.positions = tokenizer, positions
        self._keywords: dict[tuple[str, ...], Keywords] = {}
        self._full: Tensor | None = None  # the last mask made here that is known to have no zero
        self._embedding = _home(module, cast(Any, module).get_input_embeddings())
        self._forward = set(inspect.signature(inspect.unwrap(type(module).forward)).parameters) - {"self", "kwargs"}

    def __call__(self, inputs: Any, keywords: Mapping[str, Any], also: Iterable[str] = ()) -> Batch:
        """The batch to call the model with; `also` names further keywords that belong to the call (generate's)."""
        known = self._known(tuple(also))
        for_tokenizer, for_call = known.sort(keywords)
        if inputs is None and "input_ids" in for_call:
            inputs, for_call = for_call, {}
        batch = self._batch(inputs, for_tokenizer, known) | {name: self._own(value) for name, value in for_call.items()}
        self._check(batch)
        if not _CACHES.isdisjoint(batch):
            batch = self._under_its_name(batch)
            batch = batch if also else _masked_with_cache(batch)
        return batch if also else self._with_positions(batch)

    @property
    def embedding(self) -> Any:
        """The token embedding as it is now, also after the vocabulary was resized."""
        held_by, name = self._embedding
        return held_by[name]

    @property
    def device(self) -> torch.device:
        """Where inputs go: to the embedding, or where that is run while its weights are kept elsewhere (accelerate)."""
        embedding = self.embedding
        hook = vars(embedding).get("_hf_hook")
        if hook is None:
            return cast(torch.device, embedding.weight.device)
        places = (getattr(one, "execution_device", None) for one in getattr(hook, "hooks", (hook,)))
        return torch.device(next((place for place in places if place is not None), embedding.weight.device))

    def _known(self, also: tuple[str, ...]) -> Keywords:
        """The keywords of this call; looked up once, since signatures are slow to read."""
        if also not in self._keywords:
            self._keywords[also] = Keywords(type(self.module).__name__, self._forward | set(also), self.tokenizer)
        return self._keywords[also]

    # -- the forms of input ----------------------------------------------------------------------------------------

    def _batch(self, inputs: Any, for_tokenizer: Batch, known: Keywords) -> Batch:
        if _is_text(inputs):
            return self._tokenized(inputs, for_tokenizer, known)
        if for_tokenizer:
            raise InputError(f"{', '.join(for_tokenizer)} is for the tokenizer, but the input is not text")
        if isinstance(inputs, Mapping):
            return self._from_mapping(inputs, known)
        return {} if inputs is None else self._from_ids(inputs)

    def _tokenized(self, inputs: Any, for_tokenizer: Batch, known: Keywords) -> Batch:
        if self.tokenizer is None:
            raise InputError("this model was loaded without a tokenizer: hand in ids, or load(..., tokenizer=...)")
        if for_tokenizer.pop("return_tensors", "pt") != "pt":
            raise InputError("return_tensors is always 'pt' here")
        if _is_chat(inputs):
            template = {name: for_tokenizer.pop(name) for name in known.template & set(for_tokenizer)}
            texts = self._chat(inputs, template)
            for_tokenizer = {"add_special_tokens": False, **for_tokenizer}  # the template has written them already
        else:
            texts = [inputs] if isinstance(inputs, str) else list(inputs)
        if not all(isinstance(text, str) for text in texts):
            raise InputError(f"texts and other things are mixed: {inputs!r}")
        torn = next((text for text in texts if any("\ud800" <= letter <= "\udfff" for letter in text)), None)
        if torn is not None:
            raise InputError(f"this is no text, it has bytes in it that are no letters: {torn[:40]!r}")
        encoded = self.tokenizer(texts, **{"padding_side": "left", "padding": False, **for_tokenizer})
        return self._padded(encoded["input_ids"], encoded.get("attention_mask"))

    def _chat(self, inputs: Any, template: Batch) -> list[str]:
        conversations = [inputs] if isinstance(inputs[0], Mapping) else inputs
        asked = {"add_generation_prompt": True, **template}
        return [self.tokenizer.apply_chat_template(list(talk), tokenize=False, **asked) for talk in conversations]

    def _from_mapping(self, inputs: Mapping[str, Any], known: Keywords) -> Batch:
        """A batch dict, such as a tokenizer's answer; what tokenizers add and the model does not take is left out."""
        batch = {name: value for name, value in inputs.items() if name in known.call or name not in BY_PRODUCTS}
        known.refuse_unknown(set(batch) - known.call)
        ids = batch.get("input_ids")
        if ids is not None and not isinstance(ids, Tensor):
            mask = batch.pop("attention_mask", None)
            batch |= self._from_ids(ids) if mask is None else self._padded(_rows(ids), _rows(mask))
        elif isinstance(ids, Tensor):
            batch["input_ids"] = _as_ids(ids)
            if ids.ndim == 1:
                batch |= {name: value[None] for name, value in batch.items() if _is_row(value)}
        return {name: self._own(value) for name, value in batch.items()}

    def _from_ids(self, inputs: Any) -> Batch:
        """Ids as a tensor, an array, a list, or rows of those."""
        if hasattr(inputs, "__array__") and not isinstance(inputs, Tensor):
            inputs = torch.as_tensor(inputs)
        if not isinstance(inputs, Tensor):
            return self._padded(_rows(inputs))
        ids = self._own(_as_ids(inputs))
        if ids.is_meta:  # where nothing can be computed, transformers could not look at a mask
            return {"input_ids": ids}
        self._full = full = torch.ones_like(ids)  # by its own name: another thread may put its mask there any time
        return {"input_ids": ids, "attention_mask": full}

    def _padded(self, rows: list[list[int]], masks: list[list[int]] | None = None) -> Batch:
        """Rows as one tensor, padded on the left to the longest, with the mask that says so."""
        masks = masks or [[1] * len(row) for row in rows]
        if any(not row for row in rows):
            raise InputError("an empty prompt: every row needs at least one token")
        width, pad = max(map(len, rows)), self._pad_id()
        ids = torch.tensor([[pad] * (width - len(row)) + row for row in rows])
        mask = torch.tensor([[0] * (width - len(row)) + row for row in masks])
        if self.device.type == "meta" and bool(mask.all()):
            return {"input_ids": self._own(ids)}
        return {"input_ids": self._own(ids), "attention_mask": self._own(mask)}

    def _pad_id(self) -> int:
        config = self.module.config  # a wrapper's may leave it to its text model's
        text = config.get_text_config() if hasattr(config, "get_text_config") else config
        ids = [getattr(source, "pad_token_id", None) for source in (self.tokenizer, config, text)]
        rows = getattr(self.embedding, "num_embeddings", None)
        return next((found for found in ids if isinstance(found, int) and 0 <= found < (rows or found + 1)), 0)

    # -- checks and completion -------------------------------------------------------------------------------------

    def _check(self, batch: Batch) -> None:
        first = batch.get("input_ids")
        first = batch.get("inputs_embeds") if first is None else first
        if first is None:
            raise InputError(f"nothing to run: hand in {_TAKEN} (with input_ids or inputs_embeds)")
        if not isinstance(first, Tensor) or not first.numel():
            shown = list(first.shape) if isinstance(first, Tensor) else type(first).__name__
            raise InputError(f"an empty input: {shown}; every row needs at least one token")
        if batch.get("return_dict") is False:
            raise InputError("return_dict=False is not served: values are read from the named fields of the result")
        if "input_ids" in batch and first.device.type == "cpu":
            self._check_vocabulary(first)
        mask = batch.get("attention_mask")
        if mask is self._full or not isinstance(mask, Tensor) or mask.ndim != 2:
            return
        if len(mask) != len(first) or mask.shape[1] < first.shape[1]:
            raise InputError(f"the attention_mask is {list(mask.shape)} for an input of {list(first.shape[:2])}")

    def _check_vocabulary(self, ids: Tensor) -> None:
        rows = getattr(self.embedding, "num_embeddings", None)
        numbers = ids.flatten().tolist()  # for a prompt, Python finds the ends of a list sooner than torch a tensor's
        least, most = min(numbers), max(numbers)
        if rows and (least < 0 or most >= rows):
            raise InputError(f"id {most if most >= rows else least} is not in the vocabulary: 0 to {rows - 1}")

    def _with_positions(self, batch: Batch) -> Batch:
        """Positions for padded rows, unless they were given: counted from each row's first real token."""
        mask, ids = batch.get("attention_mask"), batch.get("input_ids", batch.get("inputs_embeds"))
        if batch.get("position_ids") is not None or "position_ids" not in self._forward or not self.positions:
            return batch
        if not isinstance(mask, Tensor) or not isinstance(ids, Tensor) or mask.ndim != 2:
            return batch
        if mask is self._full or bool(mask.all()):
            return batch
        positions = (mask.long().cumsum(-1) - 1).clamp(min=0)
        return {**batch, "position_ids": positions[:, -ids.shape[1] :]}  # a mask may reach back over a cache

    def _under_its_name(self, batch: Batch) -> Batch:
        """A cache, which has changed its name, under the one that this forward has for it."""
        own = next((name for name in CACHES if name in self._forward), None)
        return {own if own is not None and name in CACHES else name: value for name, value in batch.items()}

    def _own(self, value: Any) -> Any:
        """The run's own copy of a tensor, on the model's device; of a model under standard names (an assistant) its module."""
        if isinstance(value, Tensor):
            return value.to(self.device, copy=True)
        return vars(value)["_module"] if "_module" in getattr(value, "__dict__", ()) else value


def _masked_with_cache(batch: Batch) -> Batch:
    """A mask that is of the new tokens alone, before it columns for all that the cache holds."""
    mask, ids, past = batch.get("attention_mask"), batch.get("input_ids"), cached_columns(batch, {})
    if not past or not isinstance(mask, Tensor) or ids is None or mask.shape != ids.shape:
        return batch
    return {**batch, "attention_mask": torch.cat([mask.new_ones(len(mask), past), mask], 1)}


def _home(module: nn.Module, part: nn.Module) -> tuple[dict[str, Any], str]:
    """The table of children that a module inside another is kept in, and its name there."""
    tables = (parent._modules for parent in module.modules())
    found = ((table, name) for table in tables for name, child in table.items() if child is part)
    return next(found, ({"": part}, ""))


def _is_text(inputs: Any) -> bool:
    if isinstance(inputs, str) or _is_chat(inputs):
        return True
    return isinstance(inputs, Sequence) and bool(inputs) and isinstance(inputs[0], str)


def _is_chat(inputs: Any) -> bool:
    """Messages with a role each, or a list of such conversations."""
    if not isinstance(inputs, Sequence) or isinstance(inputs, str) or not inputs:
        return False
    first = inputs[0]
    return isinstance(first, Mapping) or (isinstance(first, Sequence) and bool(first) and isinstance(first[0], Mapping))


def _is_row(value: Any) -> bool:
    return isinstance(value, Tensor) and value.ndim == 1


def _as_ids(ids: Tensor) -> Tensor:
    """Ids `[batch, seq]`; one dimension is one row."""
    if ids.numel() == 0:
        raise InputError(f"an empty input: {list(ids.shape)}; every row needs at least one token")
    if ids.ndim not in (1, 2) or ids.is_floating_point() or ids.dtype == torch.bool:
        raise InputError(f"ids are whole numbers [seq] or [batch, seq]; this is {list(ids.shape)} of {ids.dtype}")
    return ids[None] if ids.ndim == 1 else ids


def _rows(inputs: Any) -> list[list[int]]:
    """Id lists, or one, or tensors of ids, as lists of whole numbers."""
    if not isinstance(inputs, Sequence) or isinstance(inputs, bytes | bytearray):
        raise InputError(f"cannot run this {type(inputs).__name__}: hand in {_TAKEN}")
    if not inputs:
        raise InputError(f"an empty input: {inputs!r}; every row needs at least one token")
    nested = isinstance(inputs[0], Sequence | Tensor) and not (isinstance(inputs[0], Tensor) and inputs[0].ndim == 0)
    rows = [row.tolist() if isinstance(row, Tensor) else row for row in (inputs if nested else [inputs])]
    for row in rows:
        if not isinstance(row, Sequence):
            raise InputError(f"rows of ids and a single {type(row).__name__} are mixed: {inputs!r}")
        wrong = next((item for item in row if not _whole(item)), None)
        if wrong is not None:
            raise InputError(f"ids are whole numbers; {wrong!r} is a {type(wrong).__name__}")
    return [[int(item) for item in row] for row in rows]


def _whole(item: Any) -> bool:
    """A whole number, of Python's or another library's kind."""
    return not isinstance(item, bool | float | str) and hasattr(item, "__index__")
