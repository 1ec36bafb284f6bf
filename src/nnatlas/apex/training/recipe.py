"""Everything that decides a training run, as one record that is saved beside what it made."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from nnatlas.apex.configuration import Apex1Config

BUNDLED_MODEL: dict[str, Any] = {
    "hidden_size": 128,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "qk_rope_head_dim": 16,
    "kv_lora_rank": 48,
    "q_lora_rank": 64,
    "intermediate_size": 192,
    "max_position_embeddings": 1024,
    "global_layer_freq": 3,
    "sliding_window": 64,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "skip_gate_enabled": False,
    "n_predict": 3,
    "first_head_offset": 2,
    "lambda_spec": 1.0,
    "logit_scale": 1.0,
}


@dataclass(frozen=True)
class Recipe:
    """A run: sizes in tokens, `steps` in optimiser steps, `learning_rate` at its peak, `drill_every` in blocks.

    The rate rises over `warmup_steps`, stays, and falls over the last `decay_steps` (None: all after the warm-up) to
    `min_lr_ratio` of the peak; a run can therefore be lengthened or cut short until its decay begins.  From the first
    to the second of `drill_steps` there are nothing but short copying drills, for the main head alone and at `drill_rate`
    of the peak: an induction head forms there within some 300 steps.  From `mixed_from` on half of every batch is
    such drills, without which text would wash it out again.  When all that is done the multi-token heads alone are tuned
    for `head_steps` on `head_tokens` that the model writes after each of `head_prompts` pieces of the text (see
    `training.heads`; 0 steps: not at all), and then, for `draft_steps`, the chain of `draft_width` that tells them which
    tokens stand between, and they with it (see `training.draft_chain`; width or steps 0: none is made).  The defaults
    are the bundled checkpoint's.
    """

    model: dict[str, Any] = field(default_factory=lambda: dict(BUNDLED_MODEL))
    vocab_size: int = 1024
    seq_len: int = 256
    drill_every: int = 8
    drill_steps: tuple[int, int] | None = (1900, 2350)
    drill_rate: float = 0.5
    mixed_from: int | None = 2400
    batch_size: int = 8
    accumulate: int = 1
    steps: int = 3100
    learning_rate: float = 4e-3
    min_lr_ratio: float = 0.05
    warmup_steps: int = 100
    decay_steps: int | None = 700
    weight_decay: float = 0.1
    beta2: float = 0.95
    grad_clip: float = 1.0
    head_prompts: int = 5000
    head_prompt_tokens: int = 32
    head_tokens: int = 40
    head_steps: int = 2000
    head_rate: float = 2e-3
    draft_width: int = 256
    draft_steps: int = 600
    draft_rate: float = 3e-3
    save_every: int = 100
    log_every: int = 10
    seed: int = 0

    def config(self) -> Apex1Config:
        """The model this recipe trains."""
        return Apex1Config(vocab_size=self.vocab_size, **self.model)

    def but(self, **changes: Any) -> Recipe:
        """The same recipe with some fields replaced; None keeps a field as it is."""
        return replace(self, **{key: value for key, value in changes.items() if value is not None})

    def is_drill(self, step: int) -> bool:
        """Whether optimiser step `step`, counted from 0, is one of nothing but drills."""
        first, end = self.drill_steps or (0, 0)
        return first <= step < end

    def drill_share(self, step: int) -> float:
        """The share of step `step`'s blocks that are turned into short drills."""
        if self.is_drill(step):
            return 1.0
        return 0.5 if self.mixed_from is not None and step >= self.mixed_from else 0.0

    def save(self, folder: Path) -> None:
        """Write `recipe.json`."""
        (folder / "recipe.json").write_text(json.dumps(asdict(self), indent=2) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Recipe:
        """Read `recipe.json`."""
        saved = json.loads((folder / "recipe.json").read_text())
        return cls(**saved | {"drill_steps": saved["drill_steps"] and tuple(saved["drill_steps"])})
