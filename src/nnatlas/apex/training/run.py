"""One training run on transformers' Trainer: progress, checkpoints, a seed, and resuming after a kill.

A run lives in one folder.  Started again with the same folder it goes on from the last complete checkpoint, to the same
losses as a run that was never stopped: weights, router biases, optimiser, schedule, data order and random state are all
part of a checkpoint.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, cast

import torch
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedTokenizerFast, Trainer, TrainerCallback, TrainingArguments, set_seed

from nnatlas.apex.balancing import update_expert_bias
from nnatlas.apex.modeling import Apex1ForCausalLM
from nnatlas.apex.training.corpus import Document, split
from nnatlas.apex.training.draft_chain import tune_draft_chain
from nnatlas.apex.training.heads import tune_heads
from nnatlas.apex.training.recipe import Recipe
from nnatlas.apex.training.tokens import Blocks, encode, short_drills, train_tokenizer
from nnatlas.errors import InputError


class BalanceExperts(TrainerCallback):
    """Moves the router biases after every optimiser step, by the load of all its micro-batches."""

    def on_optimizer_step(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        update_expert_bias(model)


class RecipeTrainer(Trainer):
    """transformers' Trainer under the recipe's learning rate."""

    def __init__(self, recipe: Recipe, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.recipe = recipe

    def training_step(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        """Where the recipe drills, the first blocks of the batch are drilled instead of read."""
        step, ids = self.state.global_step, inputs["input_ids"].cpu()
        count = int(self.recipe.drill_share(step) * len(ids))
        if count:
            drills = short_drills(ids[:count], seed=self.recipe.seed + step)
            mixed = {key: torch.cat((drills[key], inputs[key][count:].cpu())) for key in drills}
            num_items_in_batch = (mixed["labels"][:, 1:] != -100).sum() * self.args.gradient_accumulation_steps
            inputs = {**inputs, **mixed, "return_spec_logits": not self.recipe.is_drill(step)}
        return super().training_step(model, inputs, num_items_in_batch)

    def get_decay_parameter_names(self, model: torch.nn.Module) -> list[str]:
        """Matrices decay, norms and biases do not."""
        return [name for name, parameter in model.named_parameters() if parameter.ndim > 1]

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> LambdaLR:
        """Counted in optimiser steps, and from 1: a first step at rate 0 would be wasted."""
        stepped: Any = self.optimizer if optimizer is None else optimizer
        self.lr_scheduler = LambdaLR(stepped, lambda done: rate_share(self.recipe, done + 1))
        return self.lr_scheduler


def rate_share(recipe: Recipe, step: int) -> float:
    """The share of the peak learning rate at optimiser step `step`: up in a line, level, down in a cosine."""
    if step < recipe.warmup_steps:
        return step / recipe.warmup_steps
    if recipe.is_drill(step - 1):
        return recipe.drill_rate
    decay = max(recipe.steps - recipe.warmup_steps if recipe.decay_steps is None else recipe.decay_steps, 1)
    done = min(max((step - recipe.steps) / decay + 1, 0.0), 1.0)
    return recipe.min_lr_ratio + (1 - recipe.min_lr_ratio) * (1 + math.cos(math.pi * done)) / 2


def train(recipe: Recipe, documents: list[Document], folder: Path, show_progress: bool = True) -> Apex1ForCausalLM:
    """Train, or go on training, the recipe's model in `folder`; the finished model lies in `folder/final`.

    Raises `InputError` if the folder holds a run of another recipe.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _claim(folder, recipe)
    training, _ = split(documents)
    tokenizer = _tokenizer(folder, recipe, training)
    ids = encode(tokenizer, [d.text for d in training])
    blocks = Blocks(ids, recipe.seq_len, recipe.drill_every)
    trainer = make_trainer(recipe, blocks, folder, show_progress)
    trainer.train(resume_from_checkpoint=last_complete_checkpoint(folder))
    model: Any = trainer.model
    tune_heads(model, ids, recipe)
    tune_draft_chain(model, ids, recipe)
    model.save_pretrained(folder / "final")
    tokenizer.save_pretrained(folder / "final")
    recipe.save(folder / "final")
    return cast(Apex1ForCausalLM, model)


def make_trainer(recipe: Recipe, blocks: Blocks, folder: Path, show_progress: bool = True) -> Trainer:
    """A Trainer for the recipe: AdamW, norms and biases undecayed, gradients clipped."""
    set_seed(recipe.seed)
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=recipe.steps,
        per_device_train_batch_size=recipe.batch_size,
        gradient_accumulation_steps=recipe.accumulate,
        learning_rate=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
        adam_beta2=recipe.beta2,
        max_grad_norm=recipe.grad_clip,
        logging_steps=recipe.log_every,
        save_steps=recipe.save_every,
        save_total_limit=2,
        seed=recipe.seed,
        disable_tqdm=not show_progress,
        report_to="none",
        dataloader_pin_memory=torch.cuda.is_available(),
        remove_unused_columns=False,
    )
    model = Apex1ForCausalLM(recipe.config())
    return RecipeTrainer(recipe, model=model, args=arguments, train_dataset=blocks, callbacks=[BalanceExperts()])


def last_complete_checkpoint(folder: Path) -> str | None:
    """The newest checkpoint whose last-written file is there; one that a kill cut short is passed over."""
    complete = [p.parent for p in folder.glob("checkpoint-*/trainer_state.json")]
    return str(max(complete, key=lambda p: int(p.name.split("-")[1]))) if complete else None


def _claim(folder: Path, recipe: Recipe) -> None:
    """Refuse a folder of another recipe; a different number of steps is the same run, ended earlier or later."""
    if (folder / "recipe.json").exists() and Recipe.load(folder).but(steps=recipe.steps) != recipe:
        raise InputError(f"{folder} holds a run of another recipe (see its recipe.json); choose another folder")
    recipe.save(folder)


def _tokenizer(folder: Path, recipe: Recipe, training: list[Document]) -> PreTrainedTokenizerFast:
    if (folder / "tokenizer.json").exists():
        return PreTrainedTokenizerFast.from_pretrained(folder)
    tokenizer = train_tokenizer((d.text for d in training), recipe.vocab_size)
    tokenizer.save_pretrained(folder)
    return tokenizer
