"""A tokenizer that needs no files: one token per byte of UTF-8, token id == byte."""

from __future__ import annotations

from collections.abc import Mapping

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

PAD, BEGIN, END = "<|pad|>", "<|begin|>", "<|end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] + ':\\n' + message['content'] + eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'assistant:\\n' }}{% endif %}"
)


def byte_tokenizer(vocab_size: int = 259, names: Mapping[int, str] | None = None) -> PreTrainedTokenizerFast:
    """Bytes as tokens 0 to 255, then `<|pad|>`, `<|begin|>` and `<|end|>`; any text comes back exactly as it went in.

    A begin token is put first unless `add_special_tokens=False`; batches are padded on the left; the chat template
    writes each message as `role:`, a new line, the text and an end token.  `vocab_size` adds `<|unused_259|>` and so
    on, so that every id a model of that vocabulary can produce decodes to something; `names` calls some of those
    otherwise (`{300: "<image>"}`).

    >>> byte_tokenizer()("hé", add_special_tokens=False).input_ids
    [104, 195, 169]
    """
    core = Tokenizer(models.BPE(vocab={letter: byte for byte, letter in enumerate(byte_letters())}, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    special = [PAD, BEGIN, END, *((names or {}).get(i, f"<|unused_{i}|>") for i in range(259, vocab_size))]
    core.add_special_tokens(special)
    core.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", pair=f"{BEGIN} $A {BEGIN} $B", special_tokens=[(BEGIN, core.token_to_id(BEGIN))]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token=PAD,
        bos_token=BEGIN,
        eos_token=END,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def byte_letters() -> list[str]:
    """The printable letter that stands for each byte in a byte-level vocabulary, byte 0 first.

    Bytes that print stand for themselves; the others take the letters from U+0100 on, in order.
    """
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    own = [letter for letter in letters if ord(letter) < 256]
    borrowed = iter(letters[len(own) :])
    return [chr(byte) if chr(byte) in own else next(borrowed) for byte in range(256)]
