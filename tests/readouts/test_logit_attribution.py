"""Shares of a logit: they sum to it on every shape of block, and are those of the formulas written out by hand."""

from __future__ import annotations

import pytest
import torch
from tests.tiny_models import left_alone, tiny

import nnatlas
from nnatlas.errors import InputError, Unavailable
from nnatlas.grid import Grid
from nnatlas.readouts import logit_attribution

PROMPTS = ["The tower", "Hi"]
# pre-norm, layer norm with biases, sandwich norms and caps, parallel with a logit scale, scaled sublayers, post-norms,
# experts, sinks, latent keys with shared experts, alibi, two mixers side by side, weights on the stream, a scaled block
FAMILIES = [
    "llama", "gpt2", "gemma2", "cohere2", "granite", "olmo2", "exaone4", "mixtral", "gpt_oss", "deepseek_v3", "bloom",
    "falcon_h1", "doge", "gemma4", "gpt_neox", "granitemoeshared", "qwen3_next",
]  # fmt: skip
EXPERTS = {"mixtral", "gpt_oss", "granitemoeshared"}


@pytest.mark.parametrize("name", FAMILIES)
def test_shares_sum_to_the_logit_difference(name):
    model = tiny(name)
    with model.trace(PROMPTS):
        logits = model.logits[:, -1].double()
    for by in ("layer", "head", "neuron"):
        if by == "neuron" and name in EXPERTS:
            with pytest.raises(Unavailable, match="expert"):
                logit_attribution(model, PROMPTS, 65, 70, by=by)
            continue
        found = logit_attribution(model, PROMPTS, 65, 70, by=by)
        torch.testing.assert_close(found.total.double(), logits[:, 65] - logits[:, 70], rtol=1e-5, atol=1e-5)
        assert ((found.sum - found.total) / found.total).abs().max() < 1e-3
        assert found.values.nan_to_num().abs().max() > 1e-3
        alone = logit_attribution(model, PROMPTS, 65, by=by)
        torch.testing.assert_close(alone.total.double(), logits[:, 65], rtol=1e-5, atol=1e-5)
        assert ((alone.sum - alone.total) / alone.total).abs().max() < 1e-3


@pytest.fixture(scope="module")
def model():
    return tiny("llama")


def gathered(model, *names, at=-1):
    found = model.collect(PROMPTS, [*names, "layers.3.layer_output"])
    return [found[name][:, at].double() for name in (*names, "layers.3.layer_output")]


def read_along(model, final, token):
    """Llama's readout with its root mean square held, as a direction: by hand, from its weights."""
    norm, head = model.norm._module, model.lm_head._module
    scale = (final.square().mean(-1, keepdim=True) + norm.variance_epsilon).rsqrt()
    return scale * norm.weight.double() * head.weight[token].double()


def test_a_layers_share_is_its_writing_read_along_the_held_readout(model):
    attention, mlp, start, final = gathered(
        model, "layers.1.self_attn.attention_output", "layers.2.mlp.mlp_output", "layers.0.layer_input"
    )
    found = logit_attribution(model, PROMPTS, 65)
    direction = read_along(model, final, 65)
    assert found.columns == ("attention", "mlp") and found.values.shape == (2, 4, 2)
    torch.testing.assert_close(found.values[:, 1, 0].double(), (attention * direction).sum(-1), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.values[:, 2, 1].double(), (mlp * direction).sum(-1), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.rest["start"].double(), (start * direction).sum(-1), rtol=1e-4, atol=1e-5)


def test_a_heads_share_is_its_contribution_read_along(model):
    heads, final = gathered(model, "layers.1.self_attn.attention_head_contributions")
    found = logit_attribution(model, PROMPTS, 65, by="head")
    direction = read_along(model, final, 65)[:, None]
    torch.testing.assert_close(found.values[:, 1].double(), (heads * direction).sum(-1), rtol=1e-4, atol=1e-5)
    bias = model.layers[1].self_attn.o_proj._module.bias.double()
    rest = sum(
        (model.layers[i].self_attn.o_proj._module.bias.double() * direction[:, 0]).sum(-1)
        for i in range(model.num_layers)
    )
    assert bias.abs().max() > 0
    torch.testing.assert_close(found.rest["attention"].double(), rest, rtol=1e-4, atol=1e-5)


def test_a_neurons_share_is_its_column_read_along(model):
    neurons, final = gathered(model, "layers.2.mlp.mlp_neurons")
    found = logit_attribution(model, PROMPTS, 65, by="neuron")
    columns = read_along(model, final, 65) @ model.layers[2].mlp.down_proj._module.weight.double()
    torch.testing.assert_close(found.values[:, 2].double(), neurons * columns, rtol=1e-4, atol=1e-5)


def test_behind_a_post_norm_heads_share_its_held_scale():
    model = tiny("olmo2")
    found = model.collect("The tower", ["layers.1.self_attn.attention_premix", "layers.1.self_attn.attention_output"])
    premix, added = (
        found[f"layers.1.self_attn.{name}"][0, -1].double() for name in ("attention_premix", "attention_output")
    )
    projection, norm = model.layers[1].self_attn.o_proj._module, model.layers[1].attention_post_norm._module
    parts = torch.einsum("hd,ohd->ho", premix, projection.weight.double().unflatten(1, premix.shape))
    parts = torch.cat([parts, projection.bias.double()[None]])  # the bias is one more
    scale = (parts.sum(0).square().mean() + norm.variance_epsilon).rsqrt()
    held = parts * scale * norm.weight.double()
    torch.testing.assert_close(held.sum(0), added, rtol=1e-4, atol=1e-5)
    final = model.collect("The tower", "layers.3.layer_output")["layers.3.layer_output"][0, -1].double()
    direction = read_along(model, final, 65)
    found = logit_attribution(model, "The tower", 65, by="head")
    torch.testing.assert_close(found.values[0, 1].double(), (held[:-1] * direction).sum(-1), rtol=1e-4, atol=1e-5)


def test_a_cap_is_held_as_its_ratio():
    model = tiny("gemma2")
    cap = model.config.final_logit_softcapping
    with model.trace("Hi"):
        capped = model.logits[0, -1, 65]
    raw = torch.atanh(capped / cap) * cap
    found = logit_attribution(model, "Hi", 65)
    final = model.collect("Hi", ["layers.0.mlp.mlp_output", "layers.3.layer_output"])
    norm, head = model.norm._module, model.lm_head._module
    last = final["layers.3.layer_output"][0, -1]
    scale = (last.square().mean() + norm.eps).rsqrt()
    share = (final["layers.0.mlp.mlp_output"][0, -1] * scale * (1 + norm.weight) * head.weight[65]).sum() * capped / raw
    torch.testing.assert_close(found.values[0, 0, 1], share, rtol=1e-3, atol=1e-4)


# --- what is asked --------------------------------------------------------------------------------------------------


def test_positions_are_counted_among_real_tokens(model):
    both = logit_attribution(model, PROMPTS, 65, position=1)
    alone = logit_attribution(model, "Hi", 65, position=1)
    torch.testing.assert_close(both.values[1], alone.values[0], rtol=1e-4, atol=1e-5)
    with pytest.raises(InputError, match="position 5 of row 1, which has 3 tokens"):
        logit_attribution(model, PROMPTS, 65, position=5)


def test_targets(model):
    best = logit_attribution(model, PROMPTS)
    with model.trace(PROMPTS):
        top = model.logits[:, -1].max(-1).values
    torch.testing.assert_close(best.total, top, rtol=1e-5, atol=1e-5)
    each = logit_attribution(model, PROMPTS, ["A", "B"], "C")
    assert each.targets == ("logit of 'A' less that of 'C'", "logit of 'B' less that of 'C'")
    with pytest.raises(InputError, match="3 tokens for 2 prompts"):
        logit_attribution(model, PROMPTS, ["A", "B", "C"])
    with pytest.raises(InputError, match="it is one of layer, head, neuron"):
        logit_attribution(model, "Hi", by="mlp")


def test_a_difference_is_the_difference_of_shares(model):
    one, other, both = (logit_attribution(model, "Hi", *pair).values for pair in ((65,), (70,), (65, 70)))
    torch.testing.assert_close(both, one - other, rtol=1e-4, atol=1e-5)


def test_where_the_stream_is_no_sum_it_says_why():
    with pytest.raises(Unavailable, match=r"layers\[0\] is no sum of parts here: the stream itself is normed"):
        logit_attribution(tiny("openai-gpt"), "Hi", 65)
    with pytest.raises(Unavailable, match="does not read out as the logits here: values are of the first pass"):
        logit_attribution(tiny("hrm_text"), "Hi", 65)
    found = logit_attribution(tiny("minimax"), "Hi", 65)
    assert "the stream itself is normed in layers[3]: mlp_norm_output holds what came before" in found.missing[0]
    assert found.values[0, :3].isnan().all() and ((found.sum - found.total) / found.total).abs().max() < 1e-3


def test_blocks_without_neurons_are_left_out_with_their_reason():
    found = logit_attribution(tiny("deepseek_v3"), "Hi", 65, by="neuron")
    assert set(found.missing) == {1, 2, 3} and "mixture of experts" in found.missing[3]
    assert found.values[0, 0].isfinite().all() and found.values[0, 3].isnan().all()
    assert found.grid().note.count("mixture of experts") == 1  # said once, not once a block


def test_the_largest_shares_come_first(model):
    found = logit_attribution(model, PROMPTS, 65, by="head")
    best = found.top(3, row=1)
    assert [abs(share) for *_, share in best] == sorted(found.values[1].abs().flatten().tolist(), reverse=True)[:3]
    layer, head, share = best[0]
    assert share == pytest.approx(float(found.values[1, layer, int(head)]))


def test_the_model_is_left_as_it_was(model):
    with left_alone(model):
        logit_attribution(model, "Hi", 65, by="head")


# --- how it looks ---------------------------------------------------------------------------------------------------


def test_its_grid(model):
    found = logit_attribution(model, "Hi", "A", "B")
    grid = found.grid()
    assert isinstance(grid, Grid) and grid.rows.labels == ("0", "1", "2", "3") and grid.scale.diverging
    assert grid.title == "logit of 'A' less that of 'B'"
    assert f"of {float(found.total[0]):.3f}" in grid.note and "scale" in grid.note
    assert "attention" in repr(found)
    assert list(logit_attribution(model, PROMPTS, 65).grid()) == ["0", "1"]


def test_neurons_are_shown_by_number(model):
    found = logit_attribution(model, "Hi", 65, by="neuron")
    grid = found.grid()
    number, share = grid.text[2][0].split(": ")
    assert float(share) == pytest.approx(float(found.values[0, 2, int(number)]), abs=5e-3)
    assert abs(float(share)) == pytest.approx(float(found.values[0, 2].abs().max()), abs=5e-3)


@pytest.mark.parametrize("dtype, allowed", [(torch.float64, 1e-3), (torch.bfloat16, 0.05), (torch.float16, 0.02)])
def test_in_other_precisions_shares_sum_as_well_as_the_model_can(dtype, allowed):
    model = nnatlas.load("tiny:olmo2")
    model._module.to(dtype)
    for by in ("layer", "head"):
        found = logit_attribution(model, PROMPTS, 65, 70, by=by)
        assert ((found.sum - found.total) / found.values.nan_to_num().abs().amax((1, 2))).abs().max() < allowed
        assert found.missing == {}
