"""Keywords of one call told apart: the tokenizer's, its chat template's, and those of the forward (or of `generate`)."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from nnatlas.engine.model_call import CACHES
from nnatlas.errors import InputError

BY_PRODUCTS = {"token_type_ids", "length", "special_tokens_mask", "offset_mapping", "overflow_to_sample_mapping"}
"""What tokenizers answer beside ids and mask; a model that does not take them runs without."""
_ANY_FORWARD = {
    "use_cache",
    *CACHES,
    "output_hidden_states",
    "output_attentions",
    "output_router_logits",
    "logits_to_keep",
    "return_dict",
}
"""What a forward may take through its `**kwargs`."""
_NEVER = {"self", "kwargs", "args", "text", "text_pair", "text_target", "text_pair_target", "conversation"}
_OURS = {"tokenize", "tokenizer_kwargs", "processor_kwargs"}


class Keywords:
    """The keywords that one model and its tokenizer know."""

    def __init__(self, model: str, call: set[str], tokenizer: Any) -> None:
        self.model, self.call = model, (call | _ANY_FORWARD) - _NEVER
        self.tokenizer = _parameters(getattr(type(tokenizer), "__call__", None)) - _NEVER  # noqa: B004  its signature is wanted
        self.template = _parameters(getattr(type(tokenizer), "apply_chat_template", None)) - _NEVER - _OURS
        self.template -= self.tokenizer

    def sort(self, keywords: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The tokenizer's keywords and the call's; an unknown one is an error that names its neighbours."""
        for_text = self.tokenizer | self.template
        self.refuse_unknown(set(keywords) - self.call - for_text)
        for_call = {name: value for name, value in keywords.items() if name in self.call}
        return {name: value for name, value in keywords.items() if name not in for_call}, for_call

    def refuse_unknown(self, names: Iterable[str]) -> None:
        """Raise an InputError for the first of these, if there is one."""
        for name in sorted(names):
            near = difflib.get_close_matches(name, sorted(self.call | self.tokenizer | self.template), 3)
            raise InputError(
                f"{name!r} is neither a keyword of {self.model}'s forward nor of the tokenizer"
                + (f"; near: {', '.join(near)}" if near else "")
            )


def _parameters(function: Any) -> set[str]:
    """Names of a function's parameters; none for None and for what has no signature."""
    return set(inspect.signature(function).parameters) if inspect.isfunction(function) else set()
