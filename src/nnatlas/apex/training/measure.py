"""What a trained APEX-1 has learnt, as numbers: bits per byte beside gzip and xz, brackets, repetition, speculation."""

from __future__ import annotations

import gzip
import lzma
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import torch
from transformers import PreTrainedTokenizerBase

from nnatlas.apex.modeling import Apex1ForCausalLM
from nnatlas.apex.training.corpus import Document

CLOSERS = ")]}"


@dataclass(frozen=True)
class Measurements:
    """Measured on held-out files; bits are per byte of UTF-8, losses in nats per token."""

    loss: float
    bits_per_byte: float
    gzip_bits_per_byte: float
    xz_bits_per_byte: float
    gzip_together_bits_per_byte: float
    xz_together_bits_per_byte: float
    bracket_accuracy: float
    bracket_commonest: float
    first_copy_loss: float
    second_copy_loss: float
    induction_block: int
    induction_head: int
    induction_score: float
    greedy_tokens_per_pass: float
    sampled_tokens_per_pass: float
    greedy_tokens_per_pass_within: float
    sampled_tokens_per_pass_within: float
    heads_alone_tokens_per_pass: float

    def as_dict(self) -> dict[str, float]:
        """The numbers by name."""
        return asdict(self)


@torch.no_grad()
def measure(
    model: Apex1ForCausalLM, tokenizer: PreTrainedTokenizerBase, held_out: list[Document], prompts: int = 40
) -> Measurements:
    """All measurements of one model on held-out files; about two minutes for the bundled model on one core.

    `prompts` is how many of their beginnings are continued to measure speculative decoding, and a fifth of how many pieces.
    """
    model.eval()
    texts = [d.text for d in held_out]
    starts, inside = beginnings(tokenizer, texts, prompts), pieces(tokenizer, texts, 5 * prompts)
    nats, tokens, right, commonest, closers = _read_through(model, tokenizer, texts)
    size = sum(len(text.encode()) for text in texts)
    first, second = repetition_losses(model)
    scores = induction_scores(model)
    block, head = divmod(int(scores.argmax()), scores.shape[1])
    return Measurements(
        loss=nats / tokens,
        bits_per_byte=nats / math.log(2) / size,
        **_compressors(texts, size),
        bracket_accuracy=right / max(closers, 1),
        bracket_commonest=commonest / max(closers, 1),
        first_copy_loss=first,
        second_copy_loss=second,
        induction_block=block,
        induction_head=head,
        induction_score=float(scores[block, head]),
        greedy_tokens_per_pass=tokens_per_pass(model, starts, False, 48),
        sampled_tokens_per_pass=tokens_per_pass(model, starts, True, 48),
        greedy_tokens_per_pass_within=tokens_per_pass(model, inside, False, 12),
        sampled_tokens_per_pass_within=tokens_per_pass(model, inside, True, 12),
        heads_alone_tokens_per_pass=_heads_alone(model, starts),
    )


def _compressors(texts: list[str], size: int) -> dict[str, float]:
    """gzip -9 and xz -9e, file by file and on all files in one piece, in bits per byte."""
    whole, each = "".join(texts).encode(), [text.encode() for text in texts]

    def bits(pieces: list[bytes], compress: Callable[[bytes], bytes]) -> float:
        return 8 * sum(len(compress(piece)) for piece in pieces) / size

    def xz(piece: bytes) -> bytes:
        return lzma.compress(piece, preset=9 | lzma.PRESET_EXTREME)

    return {
        "gzip_bits_per_byte": bits(each, gzip.compress),
        "xz_bits_per_byte": bits(each, xz),
        "gzip_together_bits_per_byte": bits([whole], gzip.compress),
        "xz_together_bits_per_byte": bits([whole], xz),
    }


def _windows(ids: list[int], length: int) -> Iterator[tuple[list[int], int]]:
    """(window, how many of its leading targets were scored before): every target once, after at least half a window."""
    yield ids[:length], 0
    for start in range(length // 2, len(ids) - length // 2, length // 2):
        yield ids[start : start + length], length // 2 - 1


def _read_through(
    model: Apex1ForCausalLM, tokenizer: PreTrainedTokenizerBase, texts: list[str], length: int = 256
) -> tuple[float, int, int, int, int]:
    """(summed nats, targets, closers guessed right among the three, those that are ")", closers) over all texts."""
    closer_ids = torch.tensor([tokenizer.convert_tokens_to_ids(c) for c in CLOSERS])
    sums = torch.zeros(5, dtype=torch.float64)
    for text in texts:
        for window, known in _windows([*tokenizer(text)["input_ids"], tokenizer.eos_token_id], length):
            ids = torch.tensor([window])
            logits = model(ids, use_cache=False, return_spec_logits=False).logits[0, known:-1].float()
            target = ids[0, known + 1 :]
            nats = torch.nn.functional.cross_entropy(logits, target, reduction="sum").item()
            which = (target[:, None] == closer_ids).nonzero()
            guess = logits[which[:, 0]][:, closer_ids].argmax(dim=-1)
            right, common = (guess == which[:, 1]).sum(), (which[:, 1] == 0).sum()
            sums += torch.tensor([nats, len(target), right, common, len(which)], dtype=torch.float64)
    return float(sums[0]), *(int(n) for n in sums[1:])  # type: ignore[return-value]


def _repeated(model: Apex1ForCausalLM, batch: int, length: int) -> torch.Tensor:
    """[batch, 1 + 2 * length]: the begin mark, random tokens, and the same tokens again."""
    generator = torch.Generator().manual_seed(0)
    once = torch.randint(3, model.config.vocab_size, (batch, length), generator=generator)
    begin = torch.full((batch, 1), model.config.bos_token_id or 0)
    return torch.cat((begin, once, once), dim=1)


@torch.no_grad()
def repetition_losses(model: Apex1ForCausalLM, batch: int = 32, length: int = 24) -> tuple[float, float]:
    """Mean loss in nats on random tokens, and on their repetition right after: the gap is what copying saves."""
    ids = _repeated(model, batch, length)
    logits = model(ids, use_cache=False, return_spec_logits=False).logits[:, :-1].float()
    nats = torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
    return float(nats[:, :length].mean()), float(nats[:, length + 1 :].mean())


@torch.no_grad()
def induction_scores(model: Apex1ForCausalLM, batch: int = 32, length: int = 24) -> torch.Tensor:
    """[blocks, heads] mean attention, in the second copy, to the token after the same token in the first.

    1 is a perfect induction head (Olsson et al., arXiv:2209.11895); uniform attention gives about 1 / 36.
    """
    ids, before = _repeated(model, batch, length), model.config._attn_implementation
    model.set_attn_implementation("eager")
    patterns = model(ids, use_cache=False, return_spec_logits=False, output_attentions=True).attentions
    model.set_attn_implementation(before)
    query = torch.arange(length + 1, 2 * length)
    return torch.stack([p[:, :, query, query - length + 1].mean(dim=(0, 2)) for p in patterns])


def beginnings(tokenizer: PreTrainedTokenizerBase, texts: list[str], count: int) -> list[list[int]]:
    """The first 96 tokens of `count` texts, from the first one again when they run out."""
    return [tokenizer(text)["input_ids"][:96] for text in (texts * count)[:count]]


def pieces(tokenizer: PreTrainedTokenizerBase, texts: list[str], count: int) -> list[list[int]]:
    """`count` pieces of 24 tokens from within the texts, one in every hundred tokens."""
    rows = [tokenizer(text[:12000])["input_ids"] for text in texts]
    return [row[start : start + 24] for row in rows for start in range(0, len(row) - 24, 100)][:count]


def _heads_alone(model: Apex1ForCausalLM, prompts: list[list[int]]) -> float:
    """`tokens_per_pass`, greedy, 48 tokens, without the draft chain."""
    head = model.multi_token_head
    if head is None:
        return 1.0
    chain, head.chain = head.chain, None
    alone = tokens_per_pass(model, prompts, False, 48)
    head.chain = chain
    return alone


def tokens_per_pass(model: Apex1ForCausalLM, prompts: list[list[int]], do_sample: bool, new_tokens: int) -> float:
    """Mean tokens a pass of speculative decoding yields on continuations of the prompts, the model's own included."""
    torch.manual_seed(0)
    passes = tokens = 0
    options = {"use_mtp": True, "do_sample": do_sample, "max_new_tokens": new_tokens}
    for ids in (torch.tensor([prompt]) for prompt in prompts):
        model.generate(ids, attention_mask=torch.ones_like(ids), **options)
        if model.speculation is not None:
            passes, tokens = passes + model.speculation.passes, tokens + model.speculation.tokens
    return tokens / max(passes, 1)
