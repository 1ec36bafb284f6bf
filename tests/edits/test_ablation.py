"""Ablation: heads, neurons, layers, experts and positions replaced by what was said, and by nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.edits.every_edit import ATTENTION, FAMILIES, MIXTURES, PROMPTS, model_of, serves, sparse_layer
from tests.tiny_models import IDS, left_alone

from nnatlas import edits
from nnatlas.errors import InputError, LayoutError, ReadOnly, Unavailable

PREMIX = "layers.1.self_attn.attention_premix"


def logits_under(model, edit, ids=IDS):
    with left_alone(model), edit, model.trace(ids):
        return model.logits


@pytest.mark.parametrize("family", ATTENTION)
def test_heads_are_the_edit_by_hand(family):
    model = model_of(family)
    with model.trace(IDS):
        premix = model.layers[1].self_attn.attention_premix.clone()
        premix[:, :, [0, 2]] = 0
        model.layers[1].self_attn.attention_premix = premix
        wanted = model.logits
    assert torch.equal(logits_under(model, edits.ablate_heads(model, {1: [2, 0]})), wanted)
    assert torch.equal(logits_under(model, edits.ablate_heads(model, [(1, 0), (1, 2)])), wanted)


@pytest.mark.parametrize("family", ["llama", "gpt_neox", "bloom"])
def test_an_ablated_head_adds_nothing(family):
    model = model_of(family)
    with edits.ablate_heads(model, {1: [1]}, positions=[1, -1]), model.trace(IDS):
        parts = model.layers[1].self_attn.attention_head_contributions
    assert float(parts[:, [1, -1], 1].abs().max()) == 0
    assert float(parts[:, [0, 2, 3, 4], 1].abs().min(-1).values.max()) > 0 and float(parts[:, -1, 0].abs().max()) > 0


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("part", ["attention", "mlp", "both"])
def test_layers_are_the_edit_by_hand_and_the_mean_is_over_real_tokens(family, part):
    """The reference prompts differ in length; each alone gives the tokens that the padded batch must give."""
    model = model_of(family)
    mixer = "linear_attn" if family == "mamba2" else "self_attn"
    names = {"attention": [f"{mixer}.attention_output"], "mlp": ["mlp.mlp_output"]}
    names["both"] = names["attention"] + names["mlp"]
    if family == "mamba2":
        if part == "mlp":
            with pytest.raises(Unavailable):
                edits.ablate_layers(model, 1, part=part)
            return
        names["both"] = names["attention"]
    means = {}
    for name in names[part]:
        alone = [model.collect(prompt, f"layers.1.{name}")[f"layers.1.{name}"][0] for prompt in PROMPTS]
        means[name] = torch.cat(alone).mean(0)
    with model.trace(IDS):
        for name in names[part]:
            host, value = name.split(".")
            node = getattr(model.layers[1], host)
            setattr(node, value, means[name].expand_as(getattr(node, value)))
        wanted = model.logits
    got = logits_under(model, edits.ablate_layers(model, 1, part=part, how="mean", using=PROMPTS))
    torch.testing.assert_close(got, wanted, atol=3e-4, rtol=1e-3)


@pytest.mark.parametrize("family", ["llama", "gpt2", "exaone4"])
def test_zeroed_layers_leave_the_stream_alone(family):
    model = model_of(family)
    with edits.ablate_layers(model, [1, 2]), model.trace(IDS):
        before, after = model.layers[1].layer_input.clone(), model.layers[2].layer_output
    assert torch.equal(before, after)


@pytest.mark.parametrize("family", [family for family in FAMILIES if family not in ("mamba2", "mixtral", "gpt_oss")])
def test_neurons_are_the_edit_by_hand(family):
    """Dense blocks only: mixtures say that each expert has its own."""
    model = model_of(family)
    layer = next(i for i in range(model.num_layers) if serves(model, f"layers.{i}.mlp.mlp_neurons"))
    with model.trace(IDS):
        neurons = model.layers[layer].mlp.mlp_neurons.clone()
        neurons[:, 1, [3, 0, -1]] = 0
        model.layers[layer].mlp.mlp_neurons = neurons
        wanted = model.logits
    got = logits_under(model, edits.ablate_neurons(model, {layer: [3, 0, -1]}, positions=1, on="prompt"))
    assert torch.equal(got, wanted)


def test_positions_lose_what_they_hold_and_others_do_not():
    model = model_of("llama")
    name = "layers.1.layer_input"
    plain = model.collect(IDS, name)[name]
    with edits.ablate_positions(model, [0, -1], layers=1):
        found = model.collect(IDS, name)[name]
    wanted = plain.clone()
    wanted[:, [0, 5]] = 0
    assert torch.equal(found, wanted)


def test_resampled_values_are_values_of_the_reference_tokens_and_all_values_share_the_draw():
    model = model_of("llama")
    names = ["layers.1.mlp.mlp_output", "layers.2.self_attn.attention_output"]
    pools = {name: torch.cat([model.collect(prompt, name)[name][0] for prompt in PROMPTS]) for name in names}
    drawn = {}
    for seed in (0, 1):
        edit = edits.ablate(model, names, how="resample", using=PROMPTS, seed=seed)
        with edit:
            found = model.collect(IDS, names)
        for name in names:
            nearest = (found[name][0][:, None] - pools[name]).norm(dim=-1).min(-1)
            assert float(nearest.values.max()) < 1e-4
            drawn[seed, name] = nearest.indices.tolist()
        assert drawn[seed, names[0]] == drawn[seed, names[1]] and len(set(drawn[seed, names[0]])) == 6
    assert drawn[0, names[0]] != drawn[1, names[0]]


# --- experts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", MIXTURES)
@pytest.mark.parametrize("how", ["zero", "renormalize"])
def test_experts_are_the_edit_by_hand(family, how):
    model = model_of(family)
    layer = sparse_layer(model)
    with model.trace(IDS):
        mlp = model.layers[layer].mlp
        indices, weights = mlp.expert_indices, mlp.expert_weights.clone()
        gone = indices == int(indices[0, -1, 0])
        kept = weights.masked_fill(gone, 0)
        if how == "renormalize":
            scale = weights.sum(-1, keepdim=True) / kept.sum(-1, keepdim=True)
            kept = torch.where(gone.any(-1, keepdim=True), kept * scale, kept)
        expert = int(indices[0, -1, 0])
        mlp.expert_weights = kept
        wanted = model.logits
    with left_alone(model), edits.ablate_experts(model, {layer: [expert]}, how=how), model.trace(IDS):
        sums = model.layers[layer].mlp.expert_weights.sum(-1)
        got = model.logits
    torch.testing.assert_close(got, wanted, atol=1e-6, rtol=1e-5)
    if how == "renormalize":
        torch.testing.assert_close(sums, weights.sum(-1))
    else:
        assert float(sums[0, -1]) < float(weights[0, -1].sum())


@pytest.mark.parametrize("family", MIXTURES)
def test_a_rerouted_expert_gets_no_weight_and_the_others_stay(family):
    """deepseek_v3 chooses within groups: with one of two left, the expert still fills a place, without weight."""
    model = model_of(family)
    layer = sparse_layer(model)
    names = [f"layers.{layer}.mlp.expert_indices", f"layers.{layer}.mlp.expert_weights"]
    before = model.collect(IDS, names[0])[names[0]]
    expert = int(before[0, -1, 0])
    with left_alone(model), edits.ablate_experts(model, {layer: expert}, how="reroute"):
        after, weights = (model.collect(IDS, names)[name] for name in names)
    still = after == expert
    assert bool((before == expert).any()) and float(weights.masked_fill(~still, 0).abs().max()) == 0
    assert bool(still.any()) == (family == "deepseek_v3")
    for old, new in zip(before[0].tolist(), after[0].tolist(), strict=True):
        assert set(old) - {expert} <= set(new)


@pytest.mark.parametrize("family", MIXTURES)
def test_routing_goes_where_it_is_sent(family):
    """Forcing the router's own choice changes nothing; forcing another is the edit by hand."""
    model = model_of(family)
    layer = sparse_layer(model)
    with model.trace(IDS):
        indices, weights = (
            model.layers[layer].mlp.expert_indices.clone(),
            model.layers[layer].mlp.expert_weights.clone(),
        )
        plain = model.logits
    same = edits.force_routing(model, {layer: indices})
    assert torch.equal(logits_under(model, same), plain)
    top_k, count = model.layers[layer].mlp.top_k, model.layers[layer].mlp.num_experts
    chosen = [(count - 1 - at) % count for at in range(top_k)]
    shares = [(at + 1) / (top_k * (top_k + 1) / 2) for at in range(top_k)]
    with model.trace(IDS):
        mlp = model.layers[layer].mlp
        mlp.expert_indices = torch.tensor(chosen).expand_as(indices)
        mlp.expert_weights = torch.tensor(shares).expand_as(weights)
        wanted = model.logits
    assert torch.equal(logits_under(model, edits.force_routing(model, {layer: chosen}, shares)), wanted)
    assert not torch.equal(wanted, plain)


# --- refusals -------------------------------------------------------------------------------------------------------


def test_what_there_is_not_is_refused():
    dense, mixture, recurrent = model_of("llama"), model_of("mixtral"), model_of("mamba2")
    heads = dense.layers[1].self_attn.num_heads
    for wrong, error, words in [
        (
            lambda: edits.ablate_heads(dense, {1: [heads]}),
            LayoutError,
            rf"head {heads} of {heads} in layer 1: they are numbered",
        ),
        (lambda: edits.ablate_heads(dense, {7: [0]}), LayoutError, "layer 7 of 4"),
        (lambda: edits.ablate_heads(dense, {}), InputError, "no head is named"),
        (lambda: edits.ablate_heads(dense, (1, 2)), InputError, r"pairs of \(layer, head\)"),
        (lambda: edits.ablate_heads(dense, 3), InputError, r"pairs of \(layer, head\)"),
        (lambda: edits.ablate_heads(dense, {"1": [0]}), InputError, "layer '1': layers are named by whole numbers"),
        (
            lambda: edits.ablate_heads(dense, {1: 0.5}),
            InputError,
            "head 0.5 in layer 1: heads are named by whole numbers",
        ),
        (lambda: edits.ablate(dense, {PREMIX: ["a"]}), InputError, "place 'a' of .*attention_premix"),
        (
            lambda: edits.ablate(dense, {PREMIX: [99]}, "mean", ["abc"]),
            LayoutError,
            f"place 99 of {heads} on the third",
        ),
        (lambda: edits.ablate_experts(mixture, {9: [0]}), LayoutError, "layer 9 of 4"),
        (lambda: edits.ablate_heads(dense, {1: 0}, how="mean"), InputError, r"using=\["),
        (lambda: edits.ablate_heads(dense, {1: 0}, how="noise"), InputError, "zero, mean, resample"),
        (lambda: edits.ablate_heads(recurrent, {1: 0}), Unavailable, "self_attn is not available"),
        (lambda: edits.ablate_neurons(mixture, {1: [0]}), Unavailable, "each expert has its own neurons"),
        (lambda: edits.ablate_experts(dense, {1: [0]}), Unavailable, "dense MLP"),
        (lambda: edits.ablate_experts(mixture, {1: [0]}, how="kill"), InputError, "zero, renormalize, reroute"),
        (lambda: edits.ablate_layers(dense, 1, part="head"), InputError, "attention, mlp, both"),
        (lambda: edits.ablate(dense, "next_token_probs"), ReadOnly, "computed from other values"),
        (lambda: edits.force_routing(dense, {1: [0, 1]}), Unavailable, "dense MLP"),
        (lambda: edits.force_routing(mixture, {}), InputError, "no layer is named"),
        (lambda: edits.force_routing(mixture, {1: [0, 0]}), LayoutError, "named twice"),
        (lambda: edits.force_routing(mixture, {1: [0]}), LayoutError, r"give \[2\]"),
        (lambda: edits.force_routing(mixture, {1: [0, 1]}, [1.0]), LayoutError, "takes 2 experts"),
    ]:
        with pytest.raises(error, match=words):
            wrong()
    count, top_k = mixture.layers[1].mlp.num_experts, mixture.layers[1].mlp.top_k
    with pytest.raises(LayoutError, match="fewer are left"):
        edits.ablate_experts(mixture, {1: range(count - top_k + 1)}, how="reroute")


def test_places_of_a_value_may_be_one_or_counted_from_the_end_and_must_be_there(tmp_path):
    model = model_of("llama")
    heads = model.layers[1].self_attn.num_heads
    last = logits_under(model, edits.ablate_heads(model, [(np.int64(1), np.int64(heads - 1))]))
    for own in (-1, heads - 1, [-1], np.array([heads - 1])):
        edit = edits.ablate(model, {PREMIX: own})
        edit.save(tmp_path / "edit.safetensors")
        assert torch.equal(logits_under(model, edit), last)
    with left_alone(model), pytest.raises(LayoutError, match=f"place 99 of {heads} on the third axis of {PREMIX}"):
        logits_under(model, edits.ablate(model, {PREMIX: [99]}))


def test_a_value_of_other_axes_is_refused_in_the_forward():
    model = model_of("llama")
    with left_alone(model), pytest.raises(LayoutError, match="axes batch seq"):
        logits_under(model, edits.ablate(model, "layers.1.self_attn.attention_queries"))
