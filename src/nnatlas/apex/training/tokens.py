"""A byte-level BPE tokenizer trained on the corpus, and the corpus as blocks of token ids."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerFast

SPECIAL_TOKENS = ["<|pad|>", "<|begin_of_text|>", "<|end_of_text|>"]
PAD, BEGIN, END = range(3)


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE: every text can be written and read back exactly.  Encoding puts `<|begin_of_text|>` first."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    begin = SPECIAL_TOKENS[BEGIN]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A", pair=f"{begin} $A $B", special_tokens=[(begin, BEGIN)]
    )
    pad, begin, end = SPECIAL_TOKENS
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=pad, bos_token=begin, eos_token=end, padding_side="left",
        clean_up_tokenization_spaces=False,
    )  # fmt: skip


def encode(tokenizer: PreTrainedTokenizerFast, texts: list[str]) -> torch.Tensor:
    """All texts as one row of ids [tokens], each between its begin and end marks."""
    encodings = tokenizer.backend_tokenizer.encode_batch(texts)
    return torch.tensor([token for encoding in encodings for token in (*encoding.ids, END)], dtype=torch.int32)


class Blocks(Dataset):
    """One row of ids cut into blocks of `length`; the last block is moved back to end with the row, so nothing is lost."""

    def __init__(self, ids: torch.Tensor, length: int) -> None:
        self.ids, self.length = ids, min(length, len(ids))

    def __len__(self) -> int:
        return -(-len(self.ids) // self.length)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        start = min(index * self.length, len(self.ids) - self.length)
        block = self.ids[start : start + self.length].long()
        return {"input_ids": block, "labels": block}
