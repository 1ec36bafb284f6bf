"""What holds of every edit: it changes something, leaves nothing behind, and comes back from its file the same."""

from __future__ import annotations

import copy
import json

import pytest
import torch
from safetensors.torch import save_file
from tests.edits.every_edit import FAMILIES, GREEDY, MIXTURES, every_edit, model_of
from tests.tiny_models import IDS, left_alone, tiny

from nnatlas import edits
from nnatlas.errors import DamagedFile, InputError

DENSE = {"steer", "steer new", "heads", "heads resampled", "layers", "positions", "skip", "knockout"}
SPARSE = {"experts", "experts rerouted", "routing"}


def logits_of(model):
    with torch.no_grad():
        return model._module(IDS).logits


def ids_of(model):
    with model.generate(IDS, **GREEDY) as run:
        scores = [model.logits for _ in run.steps()]
    return run.output, scores


@pytest.mark.parametrize("family", FAMILIES)
def test_left_by_exit_or_exception_the_model_is_as_it_was(family):
    model = model_of(family)
    config, before = copy.deepcopy(model.config.to_dict()), logits_of(model)
    made = every_edit(family)
    wanted = DENSE - {"heads", "heads resampled", "knockout"} if family == "mamba2" else DENSE
    assert wanted <= set(made) and (family in MIXTURES) == (set(made) >= SPARSE)
    with left_alone(model):
        for name, edit in made.items():
            with edit:
                assert model.edits() == [edit]
                with model.generate(IDS, **GREEDY) as run:
                    scores = [model.logits for _ in run.steps()]
                edited = torch.stack([one[0, -1] for one in scores])
            with model.generate(IDS, **GREEDY) as run:
                plain = torch.stack([model.logits[0, -1] for _ in run.steps()])
            assert not torch.equal(edited, plain), name
            with pytest.raises(ZeroDivisionError), edit:
                logits_of(model)
                raise ZeroDivisionError
            assert model.edits() == [] and torch.equal(logits_of(model), before), name
    assert model.config.to_dict() == config


@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_edit_gives_the_same_logits(family, tmp_path):
    model, path = model_of(family), tmp_path / "edit.safetensors"
    for name, edit in every_edit(family).items():
        edit.save(path)
        loaded = edits.load(path, model)
        assert type(loaded) is type(edit) and loaded.describe() == edit.describe()
        with edit:
            wanted = ids_of(model)
        with loaded:
            got = ids_of(model)
        assert torch.equal(got[0], wanted[0]) and all(map(torch.equal, got[1], wanted[1])), name


@pytest.mark.parametrize("family", ["llama", "bloom", "apex-1", "mamba2"])
def test_around_the_modules_own_generate_and_without_a_cache(family):
    """Three ways to run a generation under one edit; sampled values, numbered positions and all agree."""
    model = model_of(family)
    for name, edit in every_edit(family).items():
        with edit:
            ids, scores = ids_of(model)
            with torch.no_grad():
                theirs = model._module.generate(IDS, attention_mask=torch.ones_like(IDS), **GREEDY)
            with model.generate(IDS, **GREEDY, use_cache=False) as run:
                again = [model.logits for _ in run.steps()]
        assert torch.equal(theirs, ids) and torch.equal(run.output, ids), name
        for cached, whole in zip(scores, again, strict=True):
            torch.testing.assert_close(cached[:, -1], whole[:, -1], atol=2e-4, rtol=1e-4)


def test_they_nest_and_are_listed_in_order():
    model = model_of("llama")
    made = list(every_edit("llama").values())[:4]
    with left_alone(model):
        for edit in made:
            edit.__enter__()
        assert model.edits() == made
        for edit in made[::2] + made[1::2]:
            edit.__exit__(None, None, None)
        assert model.edits() == []


def test_they_say_what_they_do():
    made = every_edit("apex-1")
    said = {name: edit.describe() for name, edit in made.items()}
    assert said["steer"].startswith("adds 3 times a direction (norm ")
    assert said["steer"].endswith("to the output of layers 0 and 5, at position -1 of prompt and new tokens")
    assert said["heads"] == "replaces heads 0 and 1 of layer 1 by zero, at every position of prompt and new tokens"
    assert "drawn from reference prompts (seed 3)" in said["heads resampled"]
    assert said["skip"] == "passes layers 1 and 2 by, at positions [1:] of prompt and new tokens"
    assert said["positions"] == "replaces the stream entering layer 1 by zero, at positions [0, 2] of the prompt"
    assert repr(made["skip"]) == f"<LayerSkip: {said['skip']}>"
    assert "minus infinity" in said["experts rerouted"] and "shared out" in said["experts"]


def test_one_edit_does_not_stand_twice_but_may_come_again():
    edit = every_edit("llama")["skip"]
    with edit, pytest.raises(InputError, match="stands already"), edit:
        pass
    with edit:
        assert edit.model.edits() == [edit]


def test_files_that_are_no_edits_are_refused(tmp_path):
    model = model_of("llama")
    with pytest.raises(InputError, match="no file"):
        edits.load(tmp_path / "none.safetensors", model)
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(b"not a file of tensors at all")
    with pytest.raises(DamagedFile, match="damaged"):
        edits.load(broken, model)
    path = tmp_path / "edit.safetensors"
    save_file({}, path, {"nnatlas": json.dumps({"format": 2, "settings": {}})})
    with pytest.raises(InputError, match="has format 2, this nnatlas reads 1"):
        edits.load(path, model)
    save_file(
        {}, path, {"nnatlas": json.dumps({"format": 1, "settings": {}, "made_on": made_on(model), "edit": "Wish"})}
    )
    with pytest.raises(DamagedFile, match=r"'Wish', which is no edit; there are .*Steering"):
        edits.load(path, model)
    for about in ([], {"format": 1, "settings": [1]}):
        save_file({}, path, {"nnatlas": json.dumps(about)})
        with pytest.raises(DamagedFile, match="damaged"):
            edits.load(path, model)
    for settings in ({}, {"layers": [1], "where": {"positions": None, "on": "both"}, "wish": 1}):
        about = {"format": 1, "settings": settings, "made_on": made_on(model), "edit": "LayerSkip"}
        save_file({}, path, {"nnatlas": json.dumps(about)})
        with pytest.raises(DamagedFile, match="other settings than LayerSkip has"):
            edits.load(path, model)
    save_file({}, path, {"nnatlas": json.dumps({"format": 1, "settings": {}, "made_on": 3, "edit": "LayerSkip"})})
    with pytest.raises(InputError, match="another model"):
        edits.load(path, model)
    edits.steering_vector(model, ["good"], ["bad"]).save(path)
    with pytest.raises(DamagedFile, match=r"'SteeringVector', which is no edit.*SteeringVector\.load\(path\) reads it"):
        edits.load(path, model)
    every_edit("gpt2")["skip"].save(path)
    with pytest.raises(InputError, match=r"another model: family gpt2 \(here llama\)"):
        edits.load(path, model)
    with pytest.raises(InputError, match="cannot write"):
        every_edit("llama")["skip"].save(tmp_path / "nowhere" / "edit.safetensors")


def made_on(model):
    return {"family": model.family.name, "num_layers": model.num_layers, "hidden_size": model.hidden_size}


def test_an_edit_of_nothing_is_refused():
    model = tiny("llama")
    for make in (
        lambda: edits.ablate(model, []),
        lambda: edits.skip_layers(model, []),
        lambda: edits.ablate_layers(model, []),
        lambda: edits.steer(model, torch.ones(model.hidden_size), layers=[]),
    ):
        with pytest.raises(InputError, match="would edit nothing"):
            make()
