"""What the notes on APEX-1 claim, on the checkpoint that comes with nnatlas and on small random models."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from tests.encyclopedia.claims.common import IDS, billions, logits, of_block, pre_norms, sparse_block
from tests.families.seed_pages import rotated_halves, rotated_pairs, split_heads
from torch import Tensor
from torch.nn import functional as F

import nnatlas
from nnatlas.apex.configuration import Apex1Config
from nnatlas.apex.modeling import Apex1ForCausalLM
from nnatlas.apex.presets import PRESETS

LOCAL, GLOBAL = 1, 2


def random_model(**fields: Any) -> Any:
    """A small random model with one global block in two."""
    torch.manual_seed(0)
    config = Apex1Config.preset("tiny", **{"num_hidden_layers": 4, "global_layer_freq": 2, **fields})
    module = Apex1ForCausalLM(config).eval().requires_grad_(False)
    for weight in module.parameters():
        weight.normal_(1.0 if weight.ndim == 1 else 0.0, 0.1)
    return nnatlas.load(module)


@cache
def gated() -> Any:
    return random_model(skip_gate_enabled=True)


def kinds_of_block(model: Any) -> None:
    assert [block._module.is_global for block in model.layers] == [False, False, True] * 2
    assert [block._module.is_moe for block in model.layers] == [False, True] * 3
    assert model.config.global_layer_freq == 3
    assert [hasattr(block.mlp, "router") for block in model.layers] == [False, True] * 3


def block_equations(model: Any) -> None:
    pre_norms(model)


def dense_equations(model: Any) -> None:
    mlp = model.layers[0].mlp
    with model.trace(IDS):
        read, written = mlp.input.clone(), mlp.mlp_output.clone()
    native = mlp._module
    torch.testing.assert_close(native.W_down(F.silu(native.W_gate(read)) * native.W_up(read)), written)


def norms_in_float32(model: Any) -> None:
    norm = type(model.layers[0].norm1._module)(4, 1e-6).half()
    torch.testing.assert_close(norm(torch.full((1, 4), 300.0).half()), torch.ones(1, 4).half())
    assert torch.tensor(300.0).half().square().isinf()


def size_of_the_checkpoint(model: Any) -> None:
    counted = model._module.count_parameters()
    assert round(counted["total"] / 1e6, 2) == 2.33
    assert round(counted["active"] / 1e6, 2) == 1.89


def names_stand_beside(model: Any) -> None:
    block = model.layers[0]
    assert block.self_attn._module is block._module.attn
    assert block.mlp._module is block._module.ffn
    assert block.attention_norm._module is block._module.norm1
    assert block.self_attn.o_proj._module is block._module.attn.W_O


def a_closed_gate_skips_the_mlp(model: Any) -> None:
    made = gated()
    block = made.layers[1]
    with made.trace(IDS):
        middle = block.layer_mid.clone()
        block.mlp.mlp_gate[:, :5] = -9.0
        block.mlp.mlp_gate[:, 5:] = 9.0
        added, leaving = block.mlp.mlp_output.clone(), block.layer_output.clone()
    assert added[:, :5].abs().max() == 0
    assert (added[:, 5:].abs().amax(-1) > 0).all()
    torch.testing.assert_close(middle + added, leaving)
    assert made.config.skip_gate_threshold == 0.15
    gate = block._module.skip_gate
    with made.trace(IDS):
        read, number = block.layer_mid.clone(), block.mlp.mlp_gate.clone()
    torch.testing.assert_close(gate.gate_mlp(read), number)


def the_checkpoint_has_no_gate(model: Any) -> None:
    assert model.config.skip_gate_enabled is False
    assert all(sections["skip_gate"]["enabled"] for sections in PRESETS.values())


def the_gate_has_a_gradient(model: Any) -> None:
    module = Apex1ForCausalLM(Apex1Config.preset("tiny")).train()
    module(IDS, labels=IDS).loss.backward()
    gate = module.model.blocks[0].skip_gate.gate_mlp[0].weight
    assert gate.grad is not None
    assert gate.grad.abs().max() > 0


def pairs(heads: Tensor, width: int, theta: float) -> Tensor:
    angles = torch.arange(heads.shape[2])[:, None] / theta ** (torch.arange(0, width, 2) / width)
    return rotated_pairs(heads, angles.cos(), angles.sin())


def latent_attention(model: Any) -> None:
    attention, config = model.layers[GLOBAL].self_attn, model.config
    native, width, turned = attention._module, config.head_dim, config.qk_rope_head_dim
    with model.trace(IDS):
        read = attention.input.clone()
    latent, queries, keys, values = of_block(
        model,
        GLOBAL,
        "self_attn.attention_latent self_attn.attention_queries self_attn.attention_keys self_attn.attention_values",
    )
    theta = config.rope_parameters["rope_theta"]
    torch.testing.assert_close(native.W_DKV(read), latent)
    torch.testing.assert_close(split_heads(native.W_UV(latent), width), values)
    rope_key = pairs(split_heads(native.W_KR(read), turned), turned, theta)
    torch.testing.assert_close(
        torch.cat((split_heads(native.W_UK(latent), width), rope_key), -1), keys, rtol=1e-4, atol=1e-4
    )
    rope_query = pairs(split_heads(native.W_QR(read), turned), turned, theta)
    plain = split_heads(native.W_UQ(native.W_DQ(read)), width)
    torch.testing.assert_close(torch.cat((plain, rope_query), -1), queries, rtol=1e-4, atol=1e-4)


def not_deepseeks_latent(model: Any) -> None:
    native = model.layers[GLOBAL].self_attn._module
    assert not [name for name, _ in native.named_modules() if "norm" in name]
    latent, keys = of_block(model, GLOBAL, "self_attn.attention_latent self_attn.attention_keys")
    assert latent.shape[-1] == 48
    rope_keys = keys[..., model.config.head_dim :]
    assert not torch.allclose(rope_keys[:, 0], rope_keys[:, 1], atol=0.1)
    assert native.W_QR.in_features == model.hidden_size


def local_blocks_say_why(model: Any) -> None:
    reason = model.support()["self_attn.attention_latent"]
    assert "directly" in reason
    assert "blocks 0-1, 3-4" in reason


def absorbed_is_the_same(model: Any) -> None:
    module = model._module
    attention = module.model.blocks[GLOBAL].attn
    used = module(IDS[:, :-1], use_cache=True).cache
    assert attention.absorbing_is_cheaper(1, IDS.shape[1])
    step = module(IDS[:, -1:], cache=used).logits
    torch.testing.assert_close(step[:, -1], logits(model)[:, -1], rtol=1e-4, atol=1e-3)
    with model.generate(IDS, max_new_tokens=2, do_sample=False) as run:
        for _ in run.steps():
            pattern = model.layers[GLOBAL].self_attn.attention_probabilities.clone()
    assert torch.equal(run.output, module.generate(IDS, max_new_tokens=2, do_sample=False))
    assert pattern.shape[-2:] == (1, IDS.shape[1] + 1)


def two_rotaries(model: Any) -> None:
    theta, width = model.config.rope_parameters["rope_theta"], model.config.head_dim
    names = "self_attn.unrotated_queries self_attn.attention_queries"
    before, after = of_block(model, LOCAL, names)
    torch.testing.assert_close(pairs(before, width, theta), after, rtol=1e-4, atol=1e-4)
    angles = torch.arange(IDS.shape[1])[:, None] / theta ** (torch.arange(0, width, 2) / width)
    assert (rotated_halves(before, angles.cos(), angles.sin()) - after).abs().max() > 0.05
    latent_attention(model)


def two_widths(model: Any) -> None:
    native = model._module.model
    assert (native.rotary_cache.width, native.rotary_cache_rope.width) == (
        model.config.head_dim,
        model.config.qk_rope_head_dim,
    )
    assert native.rotary_cache.width != native.rotary_cache_rope.width


def local_blocks_see_a_window(model: Any) -> None:
    ids = torch.arange(9, 89)[None]
    assert model.config.sliding_window == 64
    for block, seen in ((LOCAL, 64), (GLOBAL, 80)):
        with model.trace(ids):
            pattern = model.layers[block].self_attn.attention_probabilities.clone()
        assert (pattern[0, :, -1] > 0).sum(-1).tolist() == [seen] * model.num_heads


def a_prefix_sees_itself(model: Any) -> None:
    for block in (LOCAL, GLOBAL):
        with model.trace(IDS, prefix_len=5):
            pattern = model.layers[block].self_attn.attention_probabilities.clone()
        assert (pattern[:, :, :5, :5] > 0).all()
        assert pattern[:, :, :5, 5:].max() == 0
        assert pattern[:, :, 5:].triu(6).max() == 0


def cached_steps_equal_one_pass(model: Any) -> None:
    module = model._module
    ids = torch.arange(9, 89)[None]  # longer than the window
    whole, cache = module(ids).logits, module(ids[:, :70], use_cache=True).cache
    for token in range(70, 80):
        step = module(ids[:, token : token + 1], cache=cache)
        torch.testing.assert_close(step.logits[:, 0], whole[:, token], rtol=1e-3, atol=2e-3)


def two_head_widths(model: Any) -> None:
    queries, values = of_block(model, GLOBAL, "self_attn.attention_queries self_attn.attention_values")
    assert (queries.shape[-1], values.shape[-1]) == (48, 32)
    (local,) = of_block(model, LOCAL, "self_attn.attention_queries")
    assert local.shape[-1] == 32
    assert (model.num_heads, model.num_kv_heads, model.hidden_size) == (4, 2, 128)


@cache
def shown_twice() -> Tensor:
    once = torch.randint(9, 1024, (16, 24), generator=torch.Generator().manual_seed(0))
    return torch.cat((once, once), 1)


def an_induction_head(model: Any) -> None:
    with model.trace(shown_twice()):
        pattern = model.layers[3].self_attn.attention_probabilities[:, 0].clone()
    place = torch.arange(24, 48)
    assert abs(pattern[:, place, place - 23].mean() - 0.73) < 0.03
    even = (1 / (place + 1.0)).mean()
    assert abs(even - 0.03) < 0.005


def copying_loss(model: Any, block: int | None = None, head: int = 0) -> float:
    """Nats a token on the second showing, with one head's output taken out."""
    ids = shown_twice()
    with model.trace(ids):
        if block is not None:
            model.layers[block].self_attn.attention_head_outputs[:, :, head] = 0
        found = model.logits[:, 24:-1].clone()
    return F.cross_entropy(found.flatten(0, 1), ids[:, 25:].flatten()).item()


def induction_heads_stand_in_for_one_another(model: Any) -> None:
    place = torch.arange(24, 48)
    scores = {}
    for block in (3, 4, 5):
        with model.trace(shown_twice()):
            pattern = model.layers[block].self_attn.attention_probabilities.clone()
        for head, score in enumerate(pattern[:, :, place, place - 23].mean((0, 2))):
            scores[block, head] = score.item()
    assert sorted(at for at, score in scores.items() if score > 0.6) == [(3, 0), (3, 1), (4, 3), (5, 0), (5, 1)]
    assert copying_loss(model) < copying_loss(model, 3, 0) < copying_loss(model) + 1


def copying_needs_the_previous_token_head(model: Any) -> None:
    with model.trace(shown_twice()):
        pattern = model.layers[1].self_attn.attention_probabilities[:, 1].clone()
    place = torch.arange(1, 48)
    assert pattern[:, place, place - 1].mean() > 0.99
    assert abs(copying_loss(model) - 2.5) < 0.2
    assert abs(copying_loss(model, 1, 1) - 8.3) < 0.3


def the_bias_chooses_and_does_not_weigh(model: Any) -> None:
    native = model.layers[1].mlp._module
    x = torch.randn(20, model.hidden_size, generator=torch.Generator().manual_seed(0))
    pushed = torch.tensor([0.0, 0.0, 0.0, 100.0])
    scores, weights, chosen = native.router(x, pushed)
    assert (chosen[:, 0] == 3).all()
    torch.testing.assert_close(scores.gather(-1, chosen).softmax(-1), weights)
    legacy = type(native.router)(
        Apex1Config(hidden_size=model.hidden_size, num_local_experts=4, legacy_expert_weights=True)
    )
    legacy.load_state_dict(native.router.state_dict())
    assert legacy(x, pushed)[1][:, 0].min() > 0.999


def two_parts_of_a_mixture(model: Any) -> None:
    block = sparse_block(model)
    read, routed, shared, added = of_block(
        model, block, "mlp_input mlp.routed_output mlp.shared_expert_output mlp.mlp_output"
    )
    torch.testing.assert_close(routed + shared, added)
    torch.testing.assert_close(model.layers[block].mlp._module.shared_experts(read), shared)


def tied_head(model: Any) -> None:
    assert model.lm_head._module.weight is model.embed_tokens._module.weight


def embeddings_are_scaled_after(model: Any) -> None:
    embedded, entering = model.collect(IDS, ["token_embeddings", "layers.0.layer_input"]).values()
    torch.testing.assert_close(embedded * model.hidden_size**0.5, entering)


def the_scale_of_the_logits(model: Any) -> None:
    assert model.config.logit_scale == 1
    assert Apex1Config(hidden_size=256).logit_scale == 1 / 16
    ids = torch.randint(9, 1000, (4, 16), generator=torch.Generator().manual_seed(0))
    for scale, repeats in ((1.0, True), (None, False)):
        torch.manual_seed(0)
        config = Apex1Config.preset(
            "tiny", hidden_size=1024, num_attention_heads=64, num_key_value_heads=64, logit_scale=scale
        )
        likely = Apex1ForCausalLM(config).eval()(ids).logits.softmax(-1).gather(-1, ids[..., None]).mean()
        assert (likely > 0.5) is repeats or (likely > 0.5).item() is repeats


def drafting_loses_nothing(model: Any) -> None:
    module = model._module
    assert (module.config.n_predict, list(module.config.head_offsets)) == (3, [2, 3, 4])
    (stacked,) = model.collect(IDS, "multi_token_logits").values()
    assert stacked.shape == (1, 3, IDS.shape[1], model.vocab_size)
    assert module.multi_token_head.chain is not None
    plain = module.generate(IDS, max_new_tokens=24, do_sample=False)
    assert torch.equal(module.generate(IDS, max_new_tokens=24, do_sample=False, use_mtp=True), plain)


def begin_token_in_front(model: Any) -> None:
    assert model.tokenizer("x = 1").input_ids[0] == model.tokenizer.bos_token_id == 1
    assert model.tokenizer.convert_ids_to_tokens(1) == "<|begin_of_text|>"
    assert len(model.tokenizer) == model.vocab_size == 1024


def no_sink(model: Any) -> None:
    line = "def __init__(self, name):\n    self."
    for block in range(model.num_layers):
        names = [f"layers.{block}.layer_output", f"layers.{block}.self_attn.attention_probabilities"]
        stream, pattern = model.collect(line, names).values()
        norms = stream[0].norm(dim=-1)
        assert norms[0] < 1.5 * norms[1:].mean()
        assert pattern[0, :, 1:, 0].mean() < 0.25


def presets_build(model: Any) -> None:
    assert list(PRESETS) == ["tiny", "small", "medium", "large"]
    assert isinstance(model._module, Apex1ForCausalLM)
    with torch.device("meta"):
        assert round(billions(Apex1ForCausalLM(Apex1Config.preset("medium")))) == 43


def small_is_larger_than_said(model: Any) -> None:
    with torch.device("meta"):
        assert round(1000 * billions(Apex1ForCausalLM(Apex1Config.preset("small")))) == 523
