"""The public implementation's numbers, where it is sound, come out under the `legacy` switches."""

from __future__ import annotations

import pytest
import torch

from nnatlas.apex.balancing import next_bias
from nnatlas.apex.configuration import Apex1Config
from nnatlas.apex.losses import ahead_loss, training_loss
from nnatlas.apex.masks import attention_masks
from nnatlas.apex.modeling import Apex1ForCausalLM
from nnatlas.apex.norm import Apex1RMSNorm
from nnatlas.apex.public_names import from_public_names
from nnatlas.apex.rotary import Apex1RotaryCache, apply_rotary, rotary_frequencies
from nnatlas.apex.training.recipe import Recipe
from nnatlas.apex.training.run import rate_share

CLOSE = {"atol": 1e-5, "rtol": 0}


@pytest.fixture(scope="module")
def public_model(vector_index, public_run):
    config = Apex1Config.from_sections(vector_index["a_g6_moe_gate"]["config"], legacy=True)
    weights = {name.removeprefix("param."): t for name, t in public_run.items() if name.startswith("param.")}
    for name, bias in public_run.items():
        if name.startswith("expert_bias."):
            weights[f"blocks.{name.split('.')[1]}.ffn.expert_bias"] = bias
    model = Apex1ForCausalLM(config).eval()
    assert not any(model.load_state_dict(from_public_names(weights)))
    return model


@torch.no_grad()
def recorded(model, ids, prefix):
    """Every sublayer's output of one forward, by the vectors' names."""
    seen, handles = {}, []
    for i, block in enumerate(model.model.blocks):
        for module, name, pick in [
            (block, "block_out", lambda o: o),
            (block.attn, "attn_out", lambda o: o[0]),
            (block.ffn, "ffn_out", lambda o: o),
            (block.skip_gate.gate_mlp, "gate", torch.sigmoid),
        ]:
            keep = lambda _m, _a, output, key=f"{name}.{i}", pick=pick: seen.update({key: pick(output)})
            handles.append(module.register_forward_hook(keep))
        if block.is_moe:
            keep = lambda _m, _a, output, i=i: seen.update(
                {f"router_logits.{i}": output[0], f"topk_idx.{i}": output[2]}
            )
            handles.append(block.ffn.router.register_forward_hook(keep))
    output = model(ids, prefix_len=prefix, return_hidden=True)
    for handle in handles:
        handle.remove()
    return output, seen


@pytest.mark.parametrize("prefix", [0, 4])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_outputs_sublayers_and_caches(public_model, public_run, prefix, attention):
    public_model.set_attn_implementation(attention)
    output, seen = recorded(public_model, public_run["input_ids"], prefix)
    expected = {n.removeprefix(f"P{prefix}."): t for n, t in public_run.items() if n.startswith(f"P{prefix}.")}
    got = {"logits": output.logits, "hidden_states": output.hidden_states, **seen}
    got |= {f"spec_logits.{k}": head for k, head in enumerate(output.spec_logits)}
    got |= {f"cache.{i}.{j}": t for i, pair in enumerate(output.kv_caches) for j, t in enumerate(pair)}
    compared = [name for name in expected if name in got]
    assert len(compared) == len(expected) - 1 - 2 * 6  # all but what came of decoding, compared below
    for name in compared:
        torch.testing.assert_close(got[name], expected[name], **CLOSE, msg=lambda m, name=name: f"{name}: {m}")


@pytest.mark.parametrize("prefix", [0, 4])
@torch.no_grad()
def test_prefill_of_16_then_one_by_one(public_model, public_run, prefix):
    ids = public_run["input_ids"]
    output = public_model(ids[:, :16], prefix_len=prefix)
    logits = [output.logits]
    for t in range(16, 24):
        output = public_model(ids[:, t : t + 1], cache=output.cache, prefix_len=prefix)
        logits.append(output.logits)
    torch.testing.assert_close(torch.cat(logits, dim=1), public_run[f"P{prefix}.cached_logits"], **CLOSE)
    for i, pair in enumerate(output.kv_caches):
        for j, tensor in enumerate(pair):
            torch.testing.assert_close(tensor, public_run[f"P{prefix}.cached_final.{i}.{j}"], **CLOSE)


def test_training_losses_and_gradients(public_model, public_run, vector_index):
    scalars = vector_index["a_g6_moe_gate"]["scalars"]
    expected, ids = scalars["pretrain_loss"], public_run["input_ids"]
    output = public_model(ids, use_cache=False)
    assert ahead_loss(output.logits, ids, 1).item() == pytest.approx(expected["loss_main"], abs=1e-5)
    for k, head in enumerate(output.spec_logits, start=1):
        assert ahead_loss(head, ids, k).item() == pytest.approx(expected[f"loss_spec_{k}"], abs=1e-5)
    loss = training_loss(public_model.config, output.logits, output.spec_logits, ids)
    assert loss.item() == pytest.approx(expected["loss_total"], abs=1e-5)
    public_model.zero_grad()
    loss.backward()
    norms = scalars["grad_norm"]
    mine = {n.removeprefix("model."): p.grad for n, p in public_model.named_parameters() if p.grad is not None}
    compared = [n for n in mine if norms.get(n) is not None]
    assert len(compared) > 40
    for name in compared:
        assert mine[name].norm().item() == pytest.approx(norms[name], rel=1e-4), name


def test_assistant_only_loss(public_model, public_run, vector_index):
    types = public_run["token_types"]
    labels = public_run["input_ids"].masked_fill(types != 2, -100)
    with torch.no_grad():
        logits = public_model(public_run["input_ids"], return_spec_logits=False).logits
    expected = vector_index["a_g6_moe_gate"]["scalars"]["sft_loss"]["loss_sft"]
    assert ahead_loss(logits, labels, 1).item() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    "width, base, scaling", [(16, 1e4, 1), (8, 1e4, 1), (16, 1e4, 4), (128, 5e5, 4), (64, 1e6, 8), (128, 1e4, 40)]
)
def test_rotary_tables(components, width, base, scaling):
    name = f"rope.d{width}.base{base:g}.s{scaling}."
    rope = {"rope_type": "yarn", "rope_theta": base, "factor": float(scaling), "original_max_position_embeddings": 64}
    config = Apex1Config(rope_parameters=rope, legacy_yarn=True)
    torch.testing.assert_close(rotary_frequencies(config, width), components[name + "theta"], atol=1e-6, rtol=1e-5)
    turns = Apex1RotaryCache(config, width)(torch.arange(len(components[name + "cos"]))[None])
    for ours, theirs in ((turns.real, "cos"), (turns.imag, "sin")):  # theirs holds every number twice
        torch.testing.assert_close(ours[0, 0].repeat_interleave(2, -1), components[name + theirs], atol=1e-5, rtol=0)


def test_rotation_of_queries_and_keys(components):
    cache = Apex1RotaryCache(Apex1Config(), 16)
    for side in "qk":
        turned = apply_rotary(components[f"apply_rope.{side}"], cache(components["apply_rope.pos"][None]))
        torch.testing.assert_close(turned, components[f"apply_rope.{side}_out"], **CLOSE)


@pytest.mark.parametrize("prefix, seq, window", [(0, 8, 3), (3, 8, 3), (5, 8, 3), (8, 8, 3), (4, 12, 64)])
def test_masks(components, prefix, seq, window):
    config = Apex1Config.preset("tiny", sliding_window=window, attn_implementation="eager")
    masks = attention_masks(config, torch.zeros(1, seq, 64), None, None, None, prefix)
    for kind, name in (("full_attention", "global"), ("sliding_attention", "local")):
        expected = components[f"mask.P{prefix}.T{seq}.W{window}.{name}"].bool()
        assert torch.equal(masks[kind][0, 0] == 0, expected)


def test_norm(components):
    norm = Apex1RMSNorm(16, 1e-6)
    norm.weight.data = components["rmsnorm.w"]
    torch.testing.assert_close(norm(components["rmsnorm.x"]), components["rmsnorm.y"], **CLOSE)


def test_balancer(components):
    bias = torch.zeros(4)
    for indices, after in zip(components["balancer.idx"], components["balancer.bias_after"], strict=True):
        bias = next_bias(bias, torch.bincount(indices.flatten(), minlength=4), alpha=1e-2)
        torch.testing.assert_close(bias, after, atol=1e-7, rtol=0)


def test_learning_rate(vector_index):
    recipe = Recipe(steps=100, warmup_steps=10, decay_steps=None, learning_rate=1e-3, min_lr_ratio=0.1)
    for step, rate in vector_index["components"]["scalars"]["lr"]:
        assert recipe.learning_rate * rate_share(recipe, step) == pytest.approx(rate, abs=1e-9)
