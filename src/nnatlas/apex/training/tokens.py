"""A byte-level BPE tokenizer trained on the corpus, and the corpus as blocks of token ids."""

from __future__ import annotations

import math
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
    """One row of ids cut into blocks of `length`; the last block is moved back to end with the row, so nothing is lost.

    Where `drill_every` is not 0, every so many blocks is a copying drill instead, on an eighth to half of the block.
    """

    def __init__(self, ids: torch.Tensor, length: int, drill_every: int = 0) -> None:
        self.ids, self.length, self.drill_every = ids, min(length, len(ids)), drill_every

    def __len__(self) -> int:
        return math.ceil(len(self.ids) / self.length)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        start = min(index * self.length, len(self.ids) - self.length)
        block = self.ids[start : start + self.length].long()
        if self.drill_every and index % self.drill_every == self.drill_every - 1:
            generator = torch.Generator().manual_seed(index)
            passage = torch.randint(max(self.length // 8, 1), self.length // 2 + 1, (), generator=generator)
            return copying_drill(block, int(passage), generator)
        return {"input_ids": block, "labels": block}


def copying_drill(block: torch.Tensor, passage: int, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """`passage` tokens of a block [length] in random order, again and again; labels from their second showing on.

    Nothing but copying helps there, which is what a small model needs to grow an induction head on a few million tokens.
    """
    length = len(block)
    once = block[torch.randperm(length, generator=generator)[:passage]]
    repeated = once.repeat(-(-length // passage))[:length]
    return {"input_ids": repeated, "labels": repeated.masked_fill(torch.arange(length) < passage, -100)}


def short_drills(blocks: torch.Tensor, seed: int) -> dict[str, torch.Tensor]:
    """Every block of a batch [batch, length] as a drill on 4 to 48 tokens, short ones as likely as long ones."""
    generator = torch.Generator().manual_seed(seed)
    passages = (4 * 12 ** torch.rand(len(blocks), generator=generator)).int().clamp(max=blocks.shape[1] // 2).tolist()
    drills = [copying_drill(block, passage, generator) for block, passage in zip(blocks, passages, strict=True)]
    return {key: torch.stack([drill[key] for drill in drills]) for key in drills[0]}
