"""Speculative decoding with the model's own multi-token heads: `model.generate(ids, use_mtp=True)`.

One pass proposes the tokens after the next, the next pass checks them all at once.  Lossless: greedy output is plain
greedy's, and sampled output has the model's own distribution (Leviathan et al., arXiv:2211.17192, algorithm 1; the rule
is transformers' own).  Drafts come from each head's distribution at its trained offset, through the same logits
processors as the model's logits, so temperature, top-k and top-p hold on both sides.  Where the model has a draft chain,
it tells each head which tokens are placed before the one to guess.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers.generation.candidate_generator import CandidateGenerator

from nnatlas.apex.cache_name import CACHE
from nnatlas.apex.configuration import Apex1Config
from nnatlas.errors import InputError


@dataclass
class Speculation:
    """How a speculative generation went: forward passes after the prompt's, and tokens they yielded."""

    passes: int = 0
    tokens: int = 0

    @property
    def tokens_per_pass(self) -> float:
        """Tokens accepted per pass, the model's own included: 1.0 means no draft was ever right."""
        return self.tokens / max(self.passes, 1)


class MultiTokenDrafts(CandidateGenerator):
    """Draws the tokens that follow the newest one from the heads' logits at the last accepted position."""

    requires_model_outputs = True
    model_kwargs_overrides = {"return_spec_logits": True}

    def __init__(
        self,
        first_draft: int,
        do_sample: bool,
        logits_processor: Any,
        record: Speculation,
        draft_step: Callable[..., tuple[torch.Tensor, torch.Tensor]] | None = None,
    ) -> None:
        self.first_draft, self.do_sample, self.logits_processor = first_draft, do_sample, logits_processor
        self.record, self.draft_step = record, draft_step

    def get_candidates(  # type: ignore[override]  # by keyword, as generate calls it
        self,
        input_ids: torch.Tensor,
        model_outputs: Any,
        is_first_iteration: bool,
        n_last_matches: int | torch.Tensor,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """ids [1, seq] -> ids with the drafts behind them, and the drafts' scores [1, drafts, vocab].

        The heads stood on the position before the newest token, so offset 2 is the first one to guess.
        """
        if is_first_iteration:
            return input_ids, None
        # after the prompt one position was kept, after a check one per draft and one more: matches points at ours
        last_accepted = int(n_last_matches)
        state = stream = model_outputs.heads_read[:, last_accepted] if self.draft_step is not None else None
        scores = []
        for head in model_outputs.spec_logits[self.first_draft :]:
            logits = head[:, last_accepted]
            if self.draft_step is not None:
                state, added = self.draft_step(state, stream, input_ids[:, -1])
                logits = logits + added
            scores.append(self.logits_processor(input_ids, logits.float()))
            input_ids = torch.cat((input_ids, self._draw(scores[-1])), dim=-1)
        return input_ids, torch.stack(scores, dim=1)

    def _draw(self, scores: torch.Tensor) -> torch.Tensor:
        if self.do_sample:
            return torch.multinomial(scores.softmax(dim=-1), num_samples=1)
        return scores.argmax(dim=-1, keepdim=True)

    def update_candidate_strategy(self, input_ids: torch.Tensor, scores: torch.Tensor, num_matches: int) -> None:
        """Called after each check; the prompt's own pass had one score row and no drafts."""
        if scores.shape[1] > 1:
            self.record.passes += 1
            self.record.tokens += int(num_matches) + 1


class Apex1Generation:
    """Goes before `GenerationMixin` in a model's bases: generation with `use_mtp=True` drafting from the multi-token
    heads.

    After such a call `model.speculation` tells how many passes were made and how many tokens they gave.
    """

    config: Apex1Config
    multi_token_head: Any
    draft_step: Callable[..., tuple[torch.Tensor, torch.Tensor]]
    speculation: Speculation | None = None

    def _get_candidate_generator(
        self, generation_config: Any, logits_processor: Any, **kwargs: Any
    ) -> CandidateGenerator:
        if not generation_config.use_mtp:
            return super()._get_candidate_generator(  # type: ignore[misc]
                generation_config=generation_config, logits_processor=logits_processor, **kwargs
            )
        offsets = self.config.head_offsets
        if not offsets or offsets[-1] < 2:
            raise InputError(
                f"use_mtp=True needs a head for a token after the next; this model's heads have offsets {list(offsets)}"
            )
        if kwargs["input_ids"].shape[0] > 1:
            raise InputError("use_mtp=True decodes one row at a time; generate each row by itself, or leave it out")
        if kwargs["model_kwargs"][CACHE].get_seq_length():  # transformers would feed what it holds once more
            raise InputError("use_mtp=True begins with an empty cache; leave out the one given, or use_mtp")
        self.speculation = Speculation()
        first_draft = 2 - offsets.start
        draft_step = self.draft_step if self.multi_token_head.chain is not None else None
        return MultiTokenDrafts(
            first_draft, generation_config.do_sample, logits_processor, self.speculation, draft_step
        )

    @staticmethod
    def create_masks_for_generate(attention_mask: torch.Tensor | None, **kwargs: Any) -> torch.Tensor | None:
        """With a static cache generate would make the masks itself; the model does, since it knows of the prefix."""
        return attention_mask

    def _update_model_kwargs_for_generation(self, outputs: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The cache goes on under the name that generate has for it."""
        updated: dict[str, Any] = super()._update_model_kwargs_for_generation(outputs, *args, **kwargs)  # type: ignore[misc]
        return updated | {CACHE: outputs.cache}

    def prepare_inputs_for_generation(
        self,
        *args: Any,
        inputs_embeds: torch.Tensor | None = None,  # by name, which tells generate that it may be given
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Plain decoding does not pay for the multi-token heads; drafting asks for them itself."""
        inputs: dict[str, Any] = super().prepare_inputs_for_generation(  # type: ignore[misc]
            *args, inputs_embeds=inputs_embeds, **kwargs
        )
        return inputs | {"return_spec_logits": False}
