"""Runs: learning, resuming after a kill to the same losses, balancing, learning rate in optimiser steps."""

from __future__ import annotations

import json

import pytest
import torch
from transformers import Trainer

from nnatlas.apex.balancing import update_expert_bias
from nnatlas.apex.modeling import Apex1ForCausalLM
from nnatlas.apex.training import run
from nnatlas.apex.training.corpus import Document
from nnatlas.apex.training.recipe import Recipe
from nnatlas.errors import InputError

MODEL = dict(
    hidden_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=16, qk_rope_head_dim=8,
    kv_lora_rank=16, q_lora_rank=16, intermediate_size=32, global_layer_freq=2, sliding_window=16,
    skip_gate_hidden_dim=8, n_predict=2, first_head_offset=2, num_local_experts=4, logit_scale=1.0,
)  # fmt: skip
RECIPE = Recipe(model=MODEL, vocab_size=280, seq_len=32, batch_size=2, accumulate=2, steps=12, warmup_steps=2,
                decay_steps=None, save_every=4, log_every=1, learning_rate=5e-3,
                head_prompts=10, head_prompt_tokens=8, head_tokens=8, head_steps=3, draft_steps=3)  # fmt: skip
DOCUMENTS = [Document(f"{i}.py", f"def f{i}(self, x{i}):\n    return [x{i}, ({i}, self)]\n" * 12) for i in range(5)]


def losses(folder) -> dict[int, float]:
    newest = run.last_complete_checkpoint(folder)
    with open(f"{newest}/trainer_state.json") as file:  # noqa: PTH123
        return {e["step"]: e["loss"] for e in json.load(file)["log_history"] if "loss" in e}


def train(folder, recipe=RECIPE) -> Apex1ForCausalLM:
    return run.train(recipe, DOCUMENTS, folder, show_progress=False)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder, train(folder)


def test_a_run_learns_balances_and_leaves_everything_needed(whole):
    folder, model = whole
    curve = losses(folder)
    assert list(curve) == list(range(1, 13))
    assert curve[12] < curve[1] - 0.3
    assert model.model.blocks[1].ffn.expert_bias.abs().max() > 0
    names = {path.name for path in (folder / "final").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "recipe.json"} <= names
    assert Recipe.load(folder / "final") == RECIPE


def test_a_killed_run_resumes_to_the_same_losses(whole, tmp_path, monkeypatch):
    folder, uninterrupted = whole

    class KilledError(BaseException):
        pass

    def step(self, *args, _step=Trainer.training_step, **kwargs):
        if self.state.global_step == 6:
            raise KilledError
        return _step(self, *args, **kwargs)

    monkeypatch.setattr(Trainer, "training_step", step)
    with pytest.raises(KilledError):
        train(tmp_path)
    monkeypatch.undo()
    assert not (tmp_path / "final").exists()
    (tmp_path / "checkpoint-5").mkdir()  # as if the kill had come while saving
    assert run.last_complete_checkpoint(tmp_path).endswith("checkpoint-4")
    resumed = train(tmp_path)
    assert losses(tmp_path) == losses(folder)
    for (name, a), b in zip(uninterrupted.state_dict().items(), resumed.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def test_a_folder_of_another_recipe_is_refused(whole):
    folder, _ = whole
    with pytest.raises(InputError, match="another recipe"):
        train(folder, RECIPE.but(seed=1))


def test_f27_the_rate_counts_optimiser_steps_and_ends_at_its_floor(whole):
    """With two micro-batches a step the public schedule would have stopped half-way; its first step had rate 0."""
    folder, _ = whole
    with open(f"{run.last_complete_checkpoint(folder)}/trainer_state.json") as file:  # noqa: PTH123
        rates = [e["learning_rate"] for e in json.load(file)["log_history"] if "learning_rate" in e]
    assert rates[0] == pytest.approx(2.5e-3)
    assert rates[-1] == pytest.approx(0.05 * 5e-3)
    level = RECIPE.but(steps=100, decay_steps=20)
    assert [run.rate_share(level, s) for s in (1, 2, 79, 80)] == [0.5, 1, 1, 1]
    assert run.rate_share(level, 90) == pytest.approx(0.525)
    assert run.rate_share(level, 100) == pytest.approx(0.05)


def test_drill_steps_drill_the_text_and_hold_the_rate(tmp_path, monkeypatch):
    recipe, seen = RECIPE.but(drill_steps=(2, 4), drill_rate=0.25, mixed_from=5, decay_steps=1, steps=6), []
    blocks = [{"input_ids": (row := torch.randint(3, 280, (32,))), "labels": row} for _ in range(24)]
    trainer = run.make_trainer(recipe, blocks, tmp_path, show_progress=False)
    forward = trainer.model.forward

    def watched(*args, **kwargs):
        drilled = (kwargs["labels"] == -100).any(-1).tolist()
        seen.append((drilled, kwargs.get("return_spec_logits", True)))
        if any(drilled):
            assert kwargs["num_items_in_batch"] == 2 * (kwargs["labels"][:, 1:] != -100).sum()
        return forward(*args, **kwargs)

    monkeypatch.setattr(trainer.model, "forward", watched)
    trainer.train()
    text, drills = ([False, False], True), ([True, True], False)
    assert seen[::2] == seen[1::2] == [text, text, drills, drills, text, ([True, False], True)]
    rates = [e["learning_rate"] / recipe.learning_rate for e in trainer.state.log_history if "learning_rate" in e]
    assert rates[1:4] == pytest.approx([1.0, 0.25, 0.25])
    assert Recipe.load(saved_in(tmp_path, recipe)) == recipe


def saved_in(folder, recipe):
    recipe.save(folder)
    return folder


def test_f29_norms_and_biases_are_not_decayed(tmp_path):
    trainer = run.make_trainer(RECIPE, [{"input_ids": torch.arange(8)}], tmp_path, show_progress=False)
    optimizer = trainer.create_optimizer()
    of = {id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    decays = {name: of[id(p)] for name, p in trainer.model.named_parameters()}
    assert {name for name, decay in decays.items() if decay == 0} == {
        name for name in decays if "norm" in name or name.endswith("bias")
    }


def test_the_balancer_leaves_a_model_alone_that_saw_no_tokens():
    model = Apex1ForCausalLM(RECIPE.config())
    before = model.model.blocks[1].ffn.expert_bias.clone()
    update_expert_bias(model)
    assert torch.equal(model.model.blocks[1].ffn.expert_bias, before)
