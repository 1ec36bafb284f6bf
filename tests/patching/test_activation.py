"""Activation patching gives what a whole forward for each patch gives, whatever the model is built like."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from tests.patching.naive import CLEAN, CORRUPTED, by_head, by_position, metric, model_of
from tests.tiny_models import left_alone, tiny
from torch import Tensor

from nnatlas.errors import InputError, LawBroken, Unavailable
from nnatlas.patching import activation_patching, forwards, ways
from nnatlas.patching.cells import Cell, Patch
from nnatlas.patching.forwards import Forward
from nnatlas.patching.ways import ABOVE, CAUSAL, PLAIN, Way

# the way that each kind of structure allows; whether it is gone is found out by trying, so a name decides nothing
BUILDS = {
    "llama": CAUSAL,
    "gpt2": CAUSAL,  # positions are embedded
    "gpt_neox": CAUSAL,  # parallel blocks
    "gemma2": CAUSAL,  # windows, caps, norms on both sides
    "gemma3_text": CAUSAL,  # a second rotary for windows
    "exaone4": CAUSAL,  # norms on what is written
    "cohere2": CAUSAL,
    "falcon": CAUSAL,  # one key and value head, fused projection
    "mpt": CAUSAL,  # ALiBi that broadcasts
    "mixtral": CAUSAL,
    "gpt_oss": CAUSAL,  # sinks
    "deepseek_v3": CAUSAL,  # latent attention
    "llama4_text": CAUSAL,  # chunked attention
    "apex-1": CAUSAL,
    "mamba2": ABOVE,  # a recurrent state in place of keys and values
    "jamba": ABOVE,
    "paligemma": ABOVE,  # the whole prompt is seen from every position
    "zamba": ABOVE,  # blocks read the embeddings as well
    "bloom": CAUSAL,  # ALiBi made for each row and head at the start
    "xglm": CAUSAL,  # a mask that must have every row
    "gpt_bigcode": CAUSAL,  # the stream is given its first shape again at the end
    "gemma3n_text": PLAIN,  # several streams, shared keys and values
}
BASE, EXACT = 2, 1e-4


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("name", BUILDS)
def test_each_number_is_that_of_a_whole_forward(name, apart, monkeypatch):
    """Once with a forward for each position, and that cut in pieces; once with all of them together."""
    monkeypatch.setattr(ways, "WEIGHTS", -1000 if apart else 1000)
    monkeypatch.setattr(ways, "TOKENS", 36 if apart else 4096)
    model = model_of(name)
    found = activation_patching(model, CLEAN, CORRUPTED, metric=metric)
    assert found.way == BUILDS[name].words
    assert (found.note == "") == (BUILDS[name] is CAUSAL)
    picked = range(0, 12, 3) if apart else range(2, 12, 3)
    expected = by_position(model, CLEAN, CORRUPTED, "layer_output", picked)
    assert (found.values[0][:, list(picked)] - expected).abs().max() < EXACT
    assert expected.std() > 1e-3


@pytest.mark.parametrize(
    "name, value, path",
    [
        ("llama", "layer_input", "layer_input"),
        ("gemma2", "attention_output", "self_attn.attention_output"),
        ("gpt_neox", "mlp_output", "mlp.mlp_output"),
        ("llama", "layer_mid", "layer_mid"),
        ("gpt_oss", "mlp.mlp_output", "mlp.mlp_output"),
        ("falcon", "attention_output", "self_attn.attention_output"),
        ("mamba2", "attention_output", "linear_attn.attention_output"),
    ],
)
def test_values_inside_blocks(name, value, path, monkeypatch):
    monkeypatch.setattr(ways, "TOKENS", 40)
    model = tiny(name)
    found = activation_patching(model, CLEAN, CORRUPTED, value, metric=metric)
    expected = by_position(model, CLEAN, CORRUPTED, path, range(2, 12, 3))
    assert (found.values[0][:, 2::3] - expected).abs().max() < EXACT
    assert (found.values.amax() - found.values.amin()) > 1e-2


@pytest.mark.parametrize(
    "name, value, axis",
    [
        ("llama", "attention_premix", 2),
        ("gpt2", "attention_queries", 1),
        ("gemma2", "attention_values", 1),
        ("llama", "attention_keys", 1),
        ("llama", "attention_probabilities", 1),
        ("bloom", "attention_premix", 2),
        ("deepseek_v3", "attention_head_outputs", 2),
    ],
)
def test_heads(name, value, axis):
    model = tiny(name)
    found = activation_patching(model, CLEAN, CORRUPTED, value, "layer x head", metric)
    expected = by_head(model, CLEAN, CORRUPTED, f"self_attn.{value}", axis)
    assert found.values[0].shape == expected.shape
    assert (found.values[0] - expected).abs().max() < EXACT
    assert expected.std() > 1e-3


def test_three_axes_and_one():
    model = tiny("llama")
    every = activation_patching(model, CLEAN, CORRUPTED, "attention_premix", "layer x position x head", metric)
    assert every.values.shape == (1, 4, 12, 4)
    assert [axis.name for axis in every.axes] == ["layer", "position", "head"]
    layers = activation_patching(model, CLEAN, CORRUPTED, "layer_output", "layer", metric)
    assert layers.values.shape == (1, 4)
    torch.testing.assert_close(
        layers.normalised, torch.ones(1, 4), atol=1e-4, rtol=0
    )  # the whole stream is the clean one


def test_noising_puts_the_corrupted_run_into_the_clean_one():
    model = tiny("llama")
    found = activation_patching(model, CLEAN, CORRUPTED, metric=metric, direction="noise")
    expected = by_position(model, CORRUPTED, CLEAN, "layer_output", range(12))
    assert (found.values[0] - expected).abs().max() < EXACT
    assert found.values[0, 0, 0] == found.clean[0]  # in front of the difference nothing changes
    with pytest.raises(InputError, match=r"'denoise'.*or 'noise'"):
        activation_patching(model, CLEAN, CORRUPTED, direction="sideways")


def test_pairs_share_forwards_and_are_what_each_is_alone():
    model = tiny("llama")
    others = CLEAN.flip(0), CORRUPTED.flip(0)
    both = activation_patching(
        model, [CLEAN.tolist(), others[0].tolist()], [CORRUPTED.tolist(), others[1].tolist()], metric=metric
    )
    alone = activation_patching(model, *others, metric=metric)
    assert both.values.shape == (2, 4, 12)
    torch.testing.assert_close(both.values[1], alone.values[0])
    assert both.clean[1] == alone.clean[0] and both.corrupted[1] == alone.corrupted[0]


def test_the_ends_of_the_scale_are_the_two_prompts():
    model = tiny("gpt2")
    with torch.no_grad():
        ends = [float(metric(model._module(ids[None]).logits[:, -1])) for ids in (CLEAN, CORRUPTED)]
    found = activation_patching(model, CLEAN, CORRUPTED, metric=metric)
    assert [float(found.clean[0]), float(found.corrupted[0])] == pytest.approx(ends, abs=1e-5)
    assert found.values[0, -1, -1] == pytest.approx(ends[0], abs=1e-5)  # all that the readout sees is the clean run's
    assert found.normalised[0, -1, -1] == pytest.approx(1, abs=1e-4)
    assert found.normalised[0, -1, :-1].abs().max() < 1e-5


def test_the_model_is_left_alone():
    model = tiny("gemma2")
    with left_alone(model):
        activation_patching(model, CLEAN, CORRUPTED, metric=metric)


# --- ways are proven, not believed --------------------------------------------------------------------------------------


def quick(model: object, **keywords: object) -> object:
    return activation_patching(model, CLEAN, CORRUPTED, metric=metric, **keywords)


def test_an_unpatched_row_that_deviates_is_found_out(monkeypatch):
    """A prefix with one wrong number, as a cache of another structure would hold."""
    model = tiny("llama")
    right = forwards.before

    def wrong(recorded: object, start: int, rows: list[int]) -> object:
        cache = right(recorded, start, rows)
        cache.layers[0].keys = cache.layers[0].keys + 0.5
        return cache

    monkeypatch.setattr(forwards, "before", wrong)
    found = quick(model)
    assert found.way == ABOVE.words
    assert "the unpatched row gives other logits than a whole forward (by " in found.note
    monkeypatch.undo()
    torch.testing.assert_close(found.values, quick(model).values, atol=1e-4, rtol=0)


def test_a_patched_row_that_deviates_is_found_out(monkeypatch):
    """Rows that join a block late: the unpatched row is right, the others are not."""
    model = tiny("llama")
    grow = Forward._grow

    def late(self: Forward, block: object, patches: list[Patch]) -> None:
        grow(self, block, patches)
        if patches and self.growing:
            block.layer_output[1:] *= 1.01

    monkeypatch.setattr(Forward, "_grow", late)
    found = quick(model)
    assert found.way == PLAIN.words
    assert "a patch at Cell(layer=" in found.note
    monkeypatch.undo()
    torch.testing.assert_close(found.values, quick(model).values, atol=1e-4, rtol=0)


def test_attention_to_later_tokens_is_found_out_also_where_the_prompts_share_none_in_front(monkeypatch):
    monkeypatch.setattr(ways, "WEIGHTS", -1000)
    model = tiny("paligemma")
    found = activation_patching(model, CLEAN[2:], CORRUPTED[2:], metric=metric)
    assert found.way == ABOVE.words and "gives other logits than a whole forward" in found.note
    expected = by_position(model, CLEAN[2:], CORRUPTED[2:], "layer_output", range(4, 7))
    assert (found.values[0][:, 4:7] - expected).abs().max() < EXACT


def test_what_fails_the_plain_way_fails(monkeypatch):
    monkeypatch.setattr(ways, "tolerance", lambda like: -1.0)
    with pytest.raises(LawBroken, match=r"the unpatched row gives other logits .* in training mode"):
        quick(tiny("llama"))


def test_the_plain_way_can_be_asked_for():
    found = quick(tiny("llama"), plain=True)
    assert found.way == PLAIN.words and found.note == ""


@pytest.mark.parametrize("name", ["llama", "gpt2", "falcon", "cohere2", "mixtral", "gemma2"])
def test_mlps_run_on_changed_tokens_only(name, monkeypatch):
    """Rows of 10 tokens and an unpatched one: each is run from its cell on, and in the last block its last token."""
    model, read = tiny(name), []
    handles = [
        block.mlp._module.register_forward_hook(lambda _, args, __: read.append(args[0].shape[:2].numel()))
        for block in model.layers
    ]
    tried, numbers = [], ways._numbers
    monkeypatch.setattr(
        ways, "_numbers", lambda *given: (read.clear(), tried.append(given[1].packed), numbers(*given))[2]
    )
    try:
        quick(model)
    finally:
        for handle in handles:
            handle.remove()
    assert tried == [True]
    ten = sum(range(1, 11))  # rows patched at each of ten positions, from there on
    assert read == [10, 10 + ten, 10 + 2 * ten, 1 + 3 * 10]


def test_only_what_a_patch_can_change_is_run(monkeypatch):
    """Blocks and positions, counted: rows join where they are patched, and no position before a patch is run."""
    monkeypatch.setattr(ways, "WEIGHTS", -1000)
    model, work = tiny("llama"), []
    handles = [
        block._module.register_forward_pre_hook(
            lambda _, args, kwargs: work.append((args or (kwargs["hidden_states"],))[0].shape[:2].numel()),
            with_kwargs=True,
        )
        for block in model.layers
    ]
    try:
        quick(model)
        quickly = sum(work)
        work.clear()
        quick(model, plain=True)
    finally:
        for handle in handles:
            handle.remove()
    assert quickly < 0.4 * sum(work)


def test_forwards_begin_where_that_is_cheapest():
    """30 blocks x 16 positions, the first shared: two forwards; more rows at a position make it more."""
    situation = SimpleNamespace(same=[1, 1], length=16, base=SimpleNamespace(logits=torch.zeros(2, 1000)))

    def starts(rows: int, way: Way, pairs: int = 1) -> list[tuple[int, int]]:
        cells = [Patch(pair, Cell(layer, at)) for pair in range(pairs) for layer in range(rows) for at in range(1, 16)]
        return [(start, len(here)) for start, here in ways._passes(situation, way, cells)]

    assert starts(30, CAUSAL) == [(1, 270), (10, 180)]  # 15 x 270 tokens: no tenth position fits
    assert starts(100, CAUSAL) == [(1, 200), (3, 300), (6, 400), (10, 300), (13, 300)]
    assert starts(300, CAUSAL)[:3] == [(1, 273), (1, 27), (2, 292)]  # 4096 tokens at most
    assert starts(30, ABOVE) == [(0, 256), (0, 194)]
    assert starts(2, CAUSAL, pairs=2) == [(1, 60)]  # two pairs, one forward


# --- what cannot be swept -----------------------------------------------------------------------------------------------


def test_values_and_axes_that_are_not_there():
    model = tiny("llama")
    with pytest.raises(InputError, match="'layer_outputs' is no value of a block"):
        activation_patching(model, CLEAN, CORRUPTED, "layer_outputs")
    with pytest.raises(
        InputError, match=r"layer_output has no axis for some of 'layer x head' .*batch seq hidden_size"
    ):
        activation_patching(model, CLEAN, CORRUPTED, over="layer x head")
    with pytest.raises(InputError, match="name layer, and position or head"):
        activation_patching(model, CLEAN, CORRUPTED, over="position x head")
    with pytest.raises(Unavailable, match="parallel block"):
        activation_patching(tiny("gpt_neox"), CLEAN, CORRUPTED, "layer_mid")


def test_a_derived_value_is_refused():
    with pytest.raises(Exception, match="computed from other values"):
        activation_patching(tiny("llama"), CLEAN, CORRUPTED, "attention_head_contributions", "layer x head")


def test_a_user_metric_gets_rows_of_logits():
    shapes = []

    def own(logits: Tensor) -> Tensor:
        shapes.append(tuple(logits.shape))
        return logits[:, 0]

    found = activation_patching(tiny("llama"), CLEAN, CORRUPTED, metric=own)
    assert found.metric == ("own",)
    assert all(len(shape) == 2 and shape[1] == tiny("llama").vocab_size for shape in shapes)
