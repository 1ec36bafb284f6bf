"""In a model: features at the place by name, edits, reconstructions with the error term kept or dropped, nothing left behind."""

from __future__ import annotations

import pytest
import torch
from tests.dictionaries.folders import saelens, sparsify
from tests.tiny_models import left_alone, plain, tiny

from nnatlas.dictionaries import load_dictionary
from nnatlas.errors import InputError, LayoutError

PROMPT = "The tower"


@pytest.fixture(scope="module")
def model():
    return tiny("llama")


@pytest.fixture
def sae(tmp_path):
    saelens(tmp_path, "standard")
    return load_dictionary(tmp_path)


@pytest.fixture
def transcoder(tmp_path):
    saelens(tmp_path, "skip_transcoder", hook="blocks.2.ln2.hook_normalized")
    return load_dictionary(tmp_path)


def logits_with(model, path, change, prompt=PROMPT):
    """The logits where a plain hook puts something else for a module's input or output."""
    ids = model._prepare(prompt, {})["input_ids"]
    side, _, where = path.partition(" ")
    module = model._module.get_submodule(where)
    if side == "in":
        handle = module.register_forward_pre_hook(lambda _, args: (change(args[0]), *args[1:]))
    else:
        handle = module.register_forward_hook(lambda _, args, output: change(args[0], output))
    try:
        return plain(model, ids, {})["logits"]
    finally:
        handle.remove()


def read_logits(model, prompt=PROMPT):
    with torch.no_grad(), model.trace(prompt):
        return model.logits.clone()


def test_features_are_read_where_the_folder_says(model, sae):
    with model.trace(PROMPT):
        stream = model.layers[2].layer_input.clone()
    with torch.no_grad(), model.trace(PROMPT) as run:
        code = sae.read(run)
        torch.testing.assert_close(code.features, sae.encode(stream))
        torch.testing.assert_close(code.reconstruction, sae.decode(sae.encode(stream), stream))
    found = sae.features(model, [PROMPT, "Hi"])
    torch.testing.assert_close(found.values[:1], sae.encode(stream), atol=1e-4, rtol=1e-4)
    assert found.values[1, :-3].abs().max() == 0  # padding


def test_dropping_the_error_is_putting_the_reconstruction_in(model, sae):
    expected = logits_with(model, "in model.layers.2", lambda x: sae.decode(sae.encode(x), x))
    with left_alone(model), sae.splice(model, error=False):
        torch.testing.assert_close(read_logits(model), expected, atol=1e-4, rtol=1e-4)
    assert (expected - read_logits(model)).abs().max() > 0.1


def test_keeping_the_error_without_an_edit_changes_nothing(model, sae):
    before = read_logits(model)
    with sae.splice(model):
        torch.testing.assert_close(read_logits(model), before, atol=1e-4, rtol=1e-4)
    assert torch.equal(read_logits(model), before)


def test_an_edit_changes_what_the_features_say_and_no_more(model, sae):
    def louder(features):
        features[..., 3] += 2

    expected = logits_with(model, "in model.layers.2", lambda x: x + 2 * sae.decoder[3])
    with sae.splice(model, louder):
        torch.testing.assert_close(read_logits(model), expected, atol=1e-3, rtol=1e-4)
    with sae.splice(model, lambda features: features + 2 * torch.eye(sae.size)[3]):
        torch.testing.assert_close(read_logits(model), expected, atol=1e-3, rtol=1e-4)
    with torch.no_grad(), model.trace(PROMPT):
        code = sae.read(model)
        code.features[..., 3] += 2
        code.write()
        inside = model.logits.clone()
    torch.testing.assert_close(inside, expected, atol=1e-3, rtol=1e-4)


def test_a_transcoder_reads_one_value_and_writes_another(model, transcoder):
    expected = logits_with(model, "out model.layers.2.mlp", lambda x, _: transcoder.decode(transcoder.encode(x), x))
    with left_alone(model), transcoder.splice(model, error=False):
        torch.testing.assert_close(read_logits(model), expected, atol=1e-4, rtol=1e-4)
    before = read_logits(model)
    with transcoder.splice(model):
        torch.testing.assert_close(read_logits(model), before, atol=1e-4, rtol=1e-4)

    silence = logits_with(
        model,
        "out model.layers.2.mlp",
        lambda x, y: y - transcoder.encode(x)[..., [5]] * transcoder.decoder[5],
    )
    with torch.no_grad(), model.trace(PROMPT):
        code = transcoder.read(model)
        code.features[..., 5] = 0
        code.write()
        inside = model.logits.clone()
    torch.testing.assert_close(inside, silence, atol=1e-3, rtol=1e-4)


def test_generation_goes_through_it_too(model, sae):
    ids = model._prepare(PROMPT, {})["input_ids"]
    change = lambda _, args: (sae.decode(sae.encode(args[0]), args[0]), *args[1:])
    handle = model.layers[2]._module.register_forward_pre_hook(change)
    expected = model._module.generate(ids, max_new_tokens=5, do_sample=False)
    handle.remove()
    with sae.splice(model, error=False), model.generate(PROMPT, max_new_tokens=5, do_sample=False) as run:
        pass
    assert torch.equal(run.output, expected)


def test_other_places(model, tmp_path):
    sparsify(tmp_path / "layers.1.mlp")
    at_module = load_dictionary(tmp_path / "layers.1.mlp")
    expected = logits_with(model, "out model.layers.1.mlp", lambda _, y: at_module.decode(at_module.encode(y), y))
    with at_module.splice(model, error=False):
        torch.testing.assert_close(read_logits(model), expected, atol=1e-4, rtol=1e-4)
    sparsify(tmp_path / "layers.1")
    assert load_dictionary(tmp_path / "layers.1").place.values(model) == ("layers.1.layer_output",) * 2
    sparsify(tmp_path / "h.0.mlp", transcode=True)
    coder = load_dictionary(tmp_path / "h.0.mlp")
    assert coder.place.values(tiny("gpt2")) == ("transformer.h.0.mlp.input", "transformer.h.0.mlp.output")
    with coder.splice(tiny("gpt2")):
        before = read_logits(tiny("gpt2"))
    torch.testing.assert_close(before, read_logits(tiny("gpt2")), atol=1e-4, rtol=1e-4)
    with pytest.raises(InputError, match=r"no module 'h\.0\.mlp'; name the value yourself"):
        coder.splice(model)


def test_heads_and_places_of_ones_own(model, tmp_path):
    saelens(tmp_path, "gated", d_in=96, hook="blocks.1.attn.hook_z")
    heads = load_dictionary(tmp_path)
    assert heads.place.values(model)[0] == "layers.1.self_attn.attention_head_outputs"
    before = read_logits(model)
    with heads.splice(model):
        torch.testing.assert_close(read_logits(model), before, atol=1e-4, rtol=1e-4)
    with heads.splice(model, error=False):
        assert (read_logits(model) - before).abs().max() > 0.1
    elsewhere = heads.features(model, PROMPT, at="layers.3.self_attn.attention_premix")
    assert elsewhere.values.shape == (1, 10, 24)
    with pytest.raises(LayoutError, match="reads 96 numbers a token"):
        heads.features(model, PROMPT, at="layers.3.layer_input")


def test_what_cannot_be_placed_says_so(model, tmp_path, transcoder):
    saelens(tmp_path / "a", "standard", hook="blocks.1.hook_nothing_known")
    with pytest.raises(InputError, match="hook_nothing_known"):
        load_dictionary(tmp_path / "a").features(model, PROMPT)
    saelens(tmp_path / "b", "standard", hook=None)
    with pytest.raises(InputError, match="the folder does not say where"):
        load_dictionary(tmp_path / "b").features(model, PROMPT)
    with pytest.raises(InputError, match="a transcoder reads one value and writes another"):
        transcoder.splice(model, at="layers.2.mlp.mlp_output")
    saelens(tmp_path / "c", "transcoder", d_out=48, hook="blocks.2.ln2.hook_normalized")
    narrow = load_dictionary(tmp_path / "c")
    with pytest.raises(LayoutError, match="writes 48 numbers a token"), narrow.splice(model):
        read_logits(model)
    assert model.edits() == []


def test_a_splice_is_listed_and_leaves(model, sae):
    splice = sae.splice(model, error=False)
    with splice:
        assert model.edits() == [splice]
        assert "error dropped" in repr(splice)
        with pytest.raises(InputError, match="stands already"):
            splice.__enter__()
    with pytest.raises(ZeroDivisionError), splice:
        read_logits(model)
        1 / 0
    assert model.edits() == []


def test_features_show_themselves(model, sae):
    found = sae.features(model, PROMPT)
    best = found.top(3)
    assert [strength for _, strength in best] == sorted((float(x) for x in found.values[0, -1]), reverse=True)[:3]
    assert found.top(10**6)[:3] == best and found.top(0) == []
    grid = found.grid()
    assert grid.rows.name == "feature" and len(grid.rows) == 20 and grid.columns.labels[0] == "<|begin|>"
    first = int(grid.rows.labels[0])
    assert grid.values[0] == pytest.approx(found.values[0, :, first].tolist())
    assert found.values[0, :, first].max() == found.values.max()
    assert (found.firing == (found.values > 0).sum(-1)).all()
    stream = model.collect(PROMPT, "layers.2.layer_input")["layers.2.layer_input"]
    missed = (stream - sae.decode(sae.encode(stream), stream)).square().sum(-1)
    spread = (stream[0] - stream[0].mean(0)).square().sum(-1).mean()
    torch.testing.assert_close(found.unexplained, missed / spread, atol=1e-4, rtol=1e-3)
    assert list(sae.features(model, [PROMPT, "Hi"]).grid()) == ["0", "1"]


def test_wrong_arguments_are_told_where_they_are_given(model, sae):
    with pytest.raises(InputError, match=r"edit is a function of features, not 'x'; a value is named by at="):
        sae.splice(model, "x")
    with pytest.raises(InputError, match="no value is called"):
        sae.splice(model, at="layers.1.nothing")
    with (
        sae.splice(model, lambda features: features[..., :3]),
        pytest.raises(LayoutError, match=r"features of .* are \["),
    ):
        model.collect(PROMPT, "logits")
    with sae.splice(model, lambda features: "x"), pytest.raises(LayoutError, match="not a str"):
        model.collect(PROMPT, "logits")
    found = sae.features(model, "Hi")
    for call, says in (
        (lambda: found.top(-1), "k=-1"),
        (lambda: found.top(1, row=3), "row 3 of 1"),
        (lambda: found.top(1, position=9), "position 9 of 3 of row 0"),
    ):
        with pytest.raises(InputError, match=says):
            call()
