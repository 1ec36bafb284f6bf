"""Kept outlines: none is stale, and made again they are the same."""

from __future__ import annotations

import pytest

from nnatlas.encyclopedia import measurements, renewing
from nnatlas.encyclopedia.flagships import flagship
from nnatlas.encyclopedia.outline import DEFAULTS, FOLDER, from_text, kept, to_text
from nnatlas.encyclopedia.own_types import own_types
from nnatlas.encyclopedia.printout import folded, unfolded
from nnatlas.errors import InputError


def test_none_is_stale():
    assert renewing.stale() == []
    assert {path.stem for path in FOLDER.glob("*.json")} == set(measurements.types())
    assert measurements.own().types.keys() == set(own_types())


def test_the_bundled_models_own_measurement_tells_what_it_does():
    facts = measurements.own().types["apex1"].facts
    assert {"slides", "rotates", "scales embeddings", "ties embeddings"} <= facts
    assert "borrows keys" not in facts  # its latent blocks expand their own, they borrow none


@pytest.mark.parametrize("model_type", ["llama", "cohere2", "mixtral", "gpt2", "apex1", "mamba2", "llava"])
def test_made_again_they_are_the_same(model_type):
    from nnatlas.encyclopedia.outlining import outline

    assert to_text(outline(model_type)) == (FOLDER / f"{model_type}.json").read_text(encoding="utf-8")


def test_they_are_read_as_they_were_written():
    text = (FOLDER / "cohere2.json").read_text(encoding="utf-8")
    assert to_text(from_text(text)) == text


def test_a_damaged_one_says_so(tmp_path):
    (tmp_path / "llama.json").write_text('{"model_type": "llama"}')
    with pytest.raises(InputError, match=r"llama.json in .* is no outline"):
        kept("llama", tmp_path)
    assert kept("gpt2", tmp_path) is None


def test_figures_say_where_they_are_from():
    assert flagship("apertus").known.startswith("figures of its config.json")
    assert flagship("xglm").known == DEFAULTS
    for name in measurements.types():
        assert kept(name).known, name


def test_value_lines_are_kept_short_and_written_out_again():
    lines = (
        "  (logits) -> Logits [batch seq vocab_size]: what the model returns",
        "    (attention_gate) -> Own [batch seq]: the gate on the heads' outputs; a family's own word",
        "    (q_proj): Linear(1, 2)",
    )
    notes = {"attention_gate": "a family's own word"}
    short = folded(lines, notes)
    assert short == ("  =logits", "    =self_attn.attention_gate Own [batch seq]", "    (q_proj): Linear(1, 2)")
    assert unfolded(short, notes) == lines
