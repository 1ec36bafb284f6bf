"""Tuning the multi-token heads on what the model itself writes, once the rest of it is trained.

A draft is right when it is what the model will say, not what the text said; so the heads learn last, from the model's own
greedy continuations of pieces of the training text (as in Medusa-1, Cai et al., arXiv:2401.10774, section 2.3.1).  Nothing
but the heads changes: the model's own logits stay bit for bit what they were.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nnatlas.apex.losses import ahead_loss
from nnatlas.apex.modeling import Apex1ForCausalLM
from nnatlas.apex.training.recipe import Recipe

ROWS = 100
"""Continuations written, and read, at a time."""


def tune_heads(model: Apex1ForCausalLM, ids: Tensor, recipe: Recipe) -> list[float]:
    """Train the multi-token heads alone, on continuations of pieces of `ids` [tokens]; the summed loss in nats, by step.

    Adam from `recipe.head_rate` down to 0 in a line, over `recipe.head_steps` steps of 64 continuations.
    """
    head = model.multi_token_head
    if head is None or not recipe.head_steps:
        return []
    model.eval()
    generator = torch.Generator().manual_seed(recipe.seed)
    length = min(recipe.head_prompt_tokens, len(ids) // 2)
    written = continuations(model, pieces_of(ids, recipe.head_prompts, length, generator), recipe.head_tokens)
    streams, targets = streams_of(model, written, length - 1), written[:, length - 1 :]
    optimizer = torch.optim.Adam(head.parameters(), lr=recipe.head_rate)
    falling = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, recipe.head_steps)
    losses = []
    for _ in range(recipe.head_steps):
        rows = torch.randint(len(streams), (64,), generator=generator)
        loss = heads_loss(model, streams[rows], targets[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        falling.step()
        losses.append(loss.item())
    return losses


def heads_loss(model: Apex1ForCausalLM, streams: Tensor, targets: Tensor) -> Tensor:
    """Sum over heads of the mean cross-entropy in nats of streams [batch, seq, hidden] for targets [batch, seq]."""
    assert model.multi_token_head is not None
    logits = zip(model.multi_token_head(streams), model.config.head_offsets, strict=True)
    terms = (ahead_loss(head, targets, ahead) for head, ahead in logits)
    return torch.stack([term for term in terms if term is not None]).sum()


def pieces_of(ids: Tensor, count: int, length: int, generator: torch.Generator) -> Tensor:
    """[count, length]: pieces of a row of ids, from anywhere in it."""
    starts = torch.randint(len(ids) - length, (count, 1), generator=generator)
    return ids[starts + torch.arange(length)].long()


@torch.no_grad()
def continuations(model: Apex1ForCausalLM, prompts: Tensor, new_tokens: int, do_sample: bool = False) -> Tensor:
    """[rows, prompt + new_tokens]: the prompts, and what the model writes after them, past any end mark.

    Greedily, or drawn at generate's own settings.
    """
    options = {"max_new_tokens": new_tokens, "do_sample": do_sample, "eos_token_id": None, "use_mtp": False}
    written = [model.generate(rows, attention_mask=torch.ones_like(rows), **options) for rows in prompts.split(ROWS)]
    return torch.cat(written)


@torch.no_grad()
def streams_of(model: Apex1ForCausalLM, ids: Tensor, start: int) -> Tensor:
    """The final stream [rows, seq - start, hidden] from position `start` on, which is what the heads read."""
    reads = (model.model(rows, use_cache=False).last_hidden_state[:, start:] for rows in ids.split(ROWS))
    return torch.cat([stream.clone() for stream in reads])
