"""A GGUF file's tokenizer (byte-level BPE) as a tokenizer of transformers.

The file stores tokens, merges and the *name* of the rule that cuts text before merging.  That rule matters: one that
keeps digits apart and one that does not give different ids for the same text, from the same vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from ..errors import DamagedFile

_CONTROL = 3  # the token types of GGUF: 1 is ordinary text, 3 is never produced from text by merging

_CUTS: dict[str, Callable[[], pre_tokenizers.PreTokenizer]] = {
    "smollm": lambda: pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    ),
}


def read_tokenizer(fields: Mapping[str, Any], context_length: int) -> PreTrainedTokenizerFast:
    """The tokenizer that the GGUF fields describe, with special tokens and chat template; adds no token by itself."""
    cut = fields.get("tokenizer.ggml.pre")
    if cut not in _CUTS or fields.get("tokenizer.ggml.add_bos_token"):
        raise DamagedFile(f"the GGUF file's tokenizer cuts text by {cut!r}; only {', '.join(_CUTS)} is converted here")
    tokens: list[str] = fields["tokenizer.ggml.tokens"]
    merges = [tuple(merge.split(" ", 1)) for merge in fields["tokenizer.ggml.merges"]]
    bpe = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    bpe.pre_tokenizer = _CUTS[cut]()
    bpe.decoder = decoders.ByteLevel()
    control = [
        token for token, kind in zip(tokens, fields["tokenizer.ggml.token_type"], strict=True) if kind == _CONTROL
    ]
    bpe.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        model_max_length=context_length,
        clean_up_tokenization_spaces=False,
        chat_template=fields.get("tokenizer.chat_template"),
        **_special_tokens(fields, tokens),
    )


def _special_tokens(fields: Mapping[str, Any], tokens: list[str]) -> dict[str, str]:
    kinds = {"bos": "bos", "eos": "eos", "unk": "unknown", "pad": "padding"}
    ids = {kind: fields.get(f"tokenizer.ggml.{name}_token_id") for kind, name in kinds.items()}
    return {f"{kind}_token": tokens[i] for kind, i in ids.items() if i is not None}
