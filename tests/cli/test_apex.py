"""`nnatlas apex`: a run from text files, resumed, bundled and measured."""

from __future__ import annotations

import json

import pytest
import torch
from typer.testing import CliRunner

from nnatlas.apex.training import measure
from nnatlas.apex.training.recipe import Recipe
from nnatlas.cli import build

SMALL = dict(
    hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=8, qk_rope_head_dim=4,
    kv_lora_rank=8, q_lora_rank=8, intermediate_size=16, global_layer_freq=2, sliding_window=8, num_local_experts=2,
    skip_gate_enabled=False, n_predict=2, first_head_offset=2, logit_scale=1.0,
)  # fmt: skip


@pytest.fixture
def invoke(monkeypatch):
    threads = torch.get_num_threads()
    original = Recipe.but
    monkeypatch.setattr(Recipe, "but", lambda self, **changes: original(self, **(changes | {"model": SMALL})))
    monkeypatch.setattr(measure, "tokens_per_pass", lambda *_: 1.25)  # takes a minute, and has its own test
    yield lambda *arguments: CliRunner().invoke(build(), ["apex", *map(str, arguments)])
    torch.set_num_threads(threads)


def test_train_go_on_and_bundle(invoke, tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.py").write_text(f"def {name}(x):\n    return [x]\n" * 30)
    sizes = ["--seq-len", 32, "--batch-size", 1, "--vocab-size", 270, "--save-every", 1, "--threads", 1]
    sizes += ["--head-prompts", 4, "--head-steps", 2, "--draft-steps", 2]
    train = ["train", tmp_path / "a.py", tmp_path / "b.py", "--out", tmp_path / "run", *sizes]
    first = invoke(*train, "--steps", 2)
    assert first.exit_code == 0, first.output
    assert "next, `nnatlas apex bundle" in first.output
    longer = invoke(*train, "--steps", 3)
    assert longer.exit_code == 0, longer.output
    assert sorted(p.name for p in (tmp_path / "run").glob("checkpoint-*")) == ["checkpoint-2", "checkpoint-3"]
    refused = invoke(*train, "--steps", 3, "--seed", 5)
    assert refused.exit_code != 0

    files = ["--files", tmp_path / "a.py", "--files", tmp_path / "b.py"]
    bundled = invoke("bundle", tmp_path / "out", *files, "--out", tmp_path / "run")
    assert bundled.exit_code == 0, bundled.output
    card, numbers = (
        (tmp_path / "out" / "README.md").read_text(),
        json.loads((tmp_path / "out/measurements.json").read_text()),
    )
    assert f"| loss, nats per token | {numbers['loss']:.3f} |" in card
    assert "3 steps of 32 tokens" in card
    assert "too short to tell" in card  # a loss is logged every ten steps
    measured = invoke("measure", tmp_path / "out", *files)
    assert measured.exit_code == 0, measured.output
    shown = dict(line.split() for line in measured.stdout.splitlines() if len(line.split()) == 2)
    assert float(shown["loss"]) == pytest.approx(numbers["loss"], rel=1e-3)
