"""Tuning the draft chain, last of all: to say what the model will say once the tokens between are placed.

The targets are the model's own distributions, on texts that the model itself writes: half of them greedily and half drawn
by chance, the two ways in which it will draft.  The share of sampled drafts accepted is what two distributions have in
common (arXiv:2211.17192), so whole distributions are learnt, not their most likely tokens.  The multi-token heads learn
along, with the chain and by themselves; nothing else changes.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nnatlas.apex.heads import Apex1DraftChain
from nnatlas.apex.modeling import Apex1ForCausalLM
from nnatlas.apex.training.heads import continuations, pieces_of, streams_of
from nnatlas.apex.training.recipe import Recipe

ROWS = 24
"""Continuations read in one step."""


def tune_draft_chain(model: Apex1ForCausalLM, ids: Tensor, recipe: Recipe) -> list[float]:
    """Give the model a draft chain and train it and the heads, on pieces of `ids` [tokens]; the summed loss in nats, by
    step.

    Adam from `recipe.draft_rate` down to 0 in a line, over `recipe.draft_steps` steps of 24 continuations.
    """
    if model.multi_token_head is None or not recipe.draft_steps or not recipe.draft_width:
        return []
    model.eval()
    generator = torch.Generator().manual_seed(recipe.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        streams, tokens = _both_ways(model, ids, recipe, generator)
        chain = add_chain(model, recipe.draft_width).requires_grad_(True)
    learning = list(model.multi_token_head.parameters())
    optimizer = torch.optim.Adam(learning, lr=recipe.draft_rate)
    falling = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, recipe.draft_steps)
    losses = []
    for _ in range(recipe.draft_steps):
        rows = torch.randint(len(streams), (ROWS,), generator=generator)
        loss = draft_loss(model, streams[rows], tokens[rows])
        optimizer.zero_grad()
        loss.backward(inputs=learning)
        optimizer.step()
        falling.step()
        losses.append(loss.item())
    chain.requires_grad_(False)
    return losses


def add_chain(model: Apex1ForCausalLM, width: int) -> Apex1DraftChain:
    """A new chain in the model and its config; it begins by moving nothing, so that drafts are the heads' own."""
    assert model.multi_token_head is not None
    model.config.draft_width = width
    chain = Apex1DraftChain(model.config).to(model.device)
    torch.nn.init.zeros_(chain.W_down.weight)
    model.multi_token_head.chain = chain
    return chain


def draft_loss(model: Apex1ForCausalLM, streams: Tensor, tokens: Tensor) -> Tensor:
    """Cross-entropy in nats between the model's distribution and each head's, alone and with the chain, summed over heads.

    streams [batch, seq, hidden] as the heads read them, tokens [batch, seq] at the same places; the chain has been told
    every token before the one to guess.
    """
    assert model.multi_token_head is not None
    own = own_distribution(model, streams)
    places = streams.shape[1] - model.config.head_offsets[-1]
    read = state = streams[:, :places]
    terms = []
    for logits, ahead in zip(model.multi_token_head(read), model.config.head_offsets, strict=True):
        before = slice(ahead - 1, ahead - 1 + places)
        terms.append(_cross_entropy(logits, own[:, before]))
        if ahead > 1:  # the next token is the model's own: nothing is placed before it
            state, added = model.draft_step(state, read, tokens[:, before])
            terms.append(_cross_entropy(logits + added, own[:, before]))
    return torch.stack(terms).sum()


@torch.no_grad()
def own_distribution(model: Apex1ForCausalLM, streams: Tensor) -> Tensor:
    """What the model says comes next: streams [..., hidden] -> [..., vocab], summing to 1."""
    return (model.lm_head(streams).float() * model.config.logit_scale).softmax(dim=-1)


def _cross_entropy(logits: Tensor, wanted: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, -2), wanted.flatten(0, -2))


def _both_ways(
    model: Apex1ForCausalLM, ids: Tensor, recipe: Recipe, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """(streams [rows, seq, hidden], tokens [rows, seq]) of continuations written greedily, and of as many drawn."""
    length = min(recipe.head_prompt_tokens, len(ids) // 2)
    pieces = [pieces_of(ids, recipe.head_prompts, length, generator) for _ in range(2)]
    ways = zip(pieces, (False, True), strict=True)
    written = torch.cat([continuations(model, piece, recipe.head_tokens, draw) for piece, draw in ways])
    return streams_of(model, written, length - 1), written[:, length - 1 :]
