"""Faults that users of other libraries have reported in public threads, as small inputs with the right behaviour.

Each test names its case; `test_every_family.py` beside it asks the same kinds of every row.
"""

from __future__ import annotations

import gc

import pytest
import torch
import transformers

from nnatlas.errors import AlreadyRan, InputError, LayoutError, NeverReached, Unavailable
from nnatlas.model import load

SIZES = dict(num_hidden_layers=3, hidden_size=32, num_attention_heads=4, intermediate_size=48, vocab_size=99)
NATIVE = {
    "gpt2": dict(n_layer=3, n_embd=32, n_head=4, vocab_size=99, n_positions=64),
    "bloom": dict(n_layer=3, hidden_size=32, n_head=4, vocab_size=99),
}


def built(name, dtype=torch.float32, implementation=None, **sizes):
    """A module of the family's own class with small sizes, wrapped as it is."""
    kind = name.lower()
    given = NATIVE.get(kind, SIZES | ({} if kind == "falcon" else {"num_key_value_heads": 2})) | sizes
    if kind == "gemma2":
        given = {"head_dim": 8, "query_pre_attn_scalar": 8, **given}
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**given, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    options = {} if implementation is None else {"attn_implementation": implementation}
    ending = "LMHeadModel" if kind == "gpt2" else "ForCausalLM"
    module = getattr(transformers, f"{name}{ending}")._from_config(config, **options)
    for name, weight in module.named_parameters():  # small random weights, so that a wrong place shows
        if weight.ndim == 2:
            torch.nn.init.normal_(weight, std=0.15)
        elif "bias" in name:
            torch.nn.init.normal_(weight, std=0.1)
    return load(module.to(dtype).eval().requires_grad_(False))


IDS = torch.tensor([[7, 21, 3, 90, 45, 11]])


def test_w1_bloom_adds_residuals_inside_its_sublayers():
    model = built("Bloom")
    block = model.layers[0]
    with model.trace(IDS):
        entering, attention = block.layer_input, block.self_attn.attention_output
        mlp, leaving = block.mlp.mlp_output, block.layer_output
    assert (entering + attention + mlp - leaving).abs().max() < 1e-5
    assert (mlp - leaving).abs().max() > 0.1
    with model.trace(IDS):
        entering, attention = block.layer_input, block.self_attn.attention_output
        block.mlp.mlp_output = torch.zeros(1, 6, 32)
        assert torch.allclose(block.layer_output, entering + attention, atol=1e-6)


def test_w3_grouped_heads():
    model = built("Llama")
    attention = model.layers[1].self_attn
    with model.trace(IDS):
        queries, keys, values = attention.attention_queries, attention.attention_keys, attention.attention_values
        before = attention.attention_head_outputs.clone()
    assert queries.shape == (1, 4, 6, 8)
    assert keys.shape == values.shape == (1, 2, 6, 8)
    assert before.shape == (1, 6, 4, 8)
    with model.trace(IDS):
        attention.attention_values[:, 1] = 0
        after = attention.attention_head_outputs
    assert torch.allclose(before[:, :, :2], after[:, :, :2], atol=1e-6)
    assert after[:, :, 2:].abs().max() == 0
    with model.trace(IDS):
        for value, head in ((attention.attention_queries, 5), (attention.attention_keys, 2)):
            with pytest.raises((IndexError, LayoutError), match=f"{value.shape[1]}"):
                value[:, head]


@pytest.mark.parametrize("name", ["GPT2", "Llama", "Bloom"])
def test_w5_a_block_is_one_tensor_whatever_it_returns(name):
    model = built(name)
    with model.trace(IDS):
        out = model.layers[0].layer_output
        assert isinstance(out, torch.Tensor)
        assert out.shape == (1, 6, 32)
        model.layers[0].layer_output = out * 0
        assert model.layers[1].layer_input.abs().max() == 0
        assert model.logits.isfinite().all()
    with model.generate(IDS, max_new_tokens=3, do_sample=False) as run:
        for _ in run.steps():
            model.layers[0].layer_output *= 1
    assert torch.equal(run.output, model._module.generate(IDS, max_new_tokens=3, do_sample=False))


def test_w7_falcon_overwrites_what_its_mlp_returned():
    model = built("Falcon", multi_query=True, parallel_attn=True, new_decoder_architecture=False)
    block = model.layers[0]
    with model.trace(IDS):
        entering, attention = block.layer_input, block.self_attn.attention_output
        kept = block.mlp.mlp_output
        cloned = block.mlp.mlp_output.clone()
        leaving, logits = block.layer_output, model.logits
    assert torch.equal(kept, cloned)
    assert (entering + attention + kept - leaving).abs().max() < 1e-5
    kept.zero_()
    assert torch.equal(model._module(IDS).logits, logits)


def test_at1_the_pattern_on_an_sdpa_load():
    model, eager = built("Llama"), built("Llama", implementation="eager")
    with model.trace(IDS):
        pattern = model.layers[1].self_attn.attention_probabilities
        later = model.layers[2].self_attn.attention_head_outputs
    with eager.trace(IDS):
        expected = eager.layers[1].self_attn.attention_probabilities
    assert torch.allclose(pattern.sum(-1), torch.ones(1, 4, 6), atol=1e-6)
    assert pattern.triu(1).abs().max() == 0
    assert torch.allclose(pattern, expected, atol=1e-6)
    assert later.shape == (1, 6, 4, 8)
    assert model.config._attn_implementation == "sdpa"
    with model.trace(IDS):
        model.layers[1].self_attn.attention_probabilities = torch.eye(6).expand(1, 4, 6, 6)
        values = model.layers[1].self_attn.attention_head_outputs
    with model.trace(IDS):
        own = model.layers[1].self_attn.attention_values.repeat_interleave(2, 1).transpose(1, 2)
    assert torch.allclose(values, own, atol=1e-6)


def test_at1_only_the_asked_block_leaves_sdpa(monkeypatch):
    model, calls = built("Llama"), []
    real = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional, "scaled_dot_product_attention", lambda *a, **k: calls.append(1) or real(*a, **k)
    )
    with model.trace(IDS):
        model.layers[1].self_attn.attention_scores
    assert len(calls) == 2


def test_at3_scores_edited_by_hand():
    model = built("GPT2", implementation="eager")
    attention = model.layers[1].self_attn
    with model.trace(IDS):
        values, scores = attention.attention_values, attention.attention_scores
        scores[:, :, 1:, 0] = torch.finfo(torch.float32).min
        edited = scores.clone()
        pattern, mixed = attention.attention_probabilities, attention.attention_head_outputs
    by_hand = edited.softmax(-1)
    assert by_hand[:, :, 1:, 0].max() < 1e-6
    assert torch.allclose(pattern, by_hand, atol=1e-6)
    assert torch.allclose(mixed, (by_hand @ values).transpose(1, 2), atol=1e-6)
    with model.trace(IDS):
        attention.attention_probabilities[:, 2] = 0
        assert attention.attention_head_outputs[:, :, 2].abs().max() == 0
    found = []
    for part in ("attention_queries", "attention_keys", "attention_values"):
        with model.trace(IDS):
            getattr(attention, part)[:, 0] = 0
            found.append(attention.attention_head_outputs[:, :, 0])
    assert found[2].abs().max() == 0
    causal_mean = torch.stack([values[0, 0, : n + 1].mean(0) for n in range(6)])
    assert torch.allclose(found[0][0], causal_mean, atol=1e-6), "no query: uniform over the causal prefix"


def test_p1_left_padding():
    model = built("GPT2")
    rows = [[5, 9, 33], [7, 21, 3, 90, 45, 11]]
    ids = torch.tensor([[0, 0, 0, *rows[0]], rows[1]])
    mask = torch.tensor([[0, 0, 0, 1, 1, 1], [1] * 6])
    with model.trace([rows[0]]):
        stream, alone = model.layers[1].layer_output, model.logits
    for inputs in (rows, {"input_ids": ids, "attention_mask": mask}):
        with model.trace(inputs):
            assert (model.layers[1].layer_output[0, 3:] - stream[0]).abs().max() < 1e-5
            assert (model.logits[0, 3:] - alone[0]).abs().max() < 1e-5
            assert model.next_token_probs.shape == (2, 99)
    explicit = torch.arange(6).expand(2, 6)
    with model.trace(rows, position_ids=explicit):
        assert (model.logits[0, 3:] - alone[0]).abs().max() > 1e-2


def test_p1_strings_of_two_lengths():
    model = load("tiny:gpt2")
    with model.trace(["abc", "a longer one"]):
        both = model.logits
    with model.trace("abc"):
        assert (both[0, -4:] - model.logits[0]).abs().max() < 1e-5


def test_p3_one_dimension_and_nothing():
    model = built("GPT2")
    with model.trace(torch.tensor([5, 6, 7])):
        assert model.logits.shape == (1, 3, 99)
    for nothing in ([], torch.empty(1, 0), torch.empty(1, 0, dtype=torch.long), [[]], [[1], []]):
        with pytest.raises(InputError, match="empty"):
            model.trace(nothing)


def test_d1_bfloat16():
    model = built("Llama", torch.bfloat16)
    seen = {}
    handle = model._module.model.layers[1].register_forward_hook(lambda _, args, out: seen.update(out=out))
    logits = model._module(IDS).logits
    handle.remove()
    with model.trace(IDS):
        assert torch.equal(model.layers[1].layer_output, seen["out"])
        assert torch.equal(model.logits, logits)
    with model.trace(IDS):
        model.layers[1].layer_output += torch.linspace(-1, 1, 32)
        pattern = model.layers[2].self_attn.attention_probabilities
        assert (pattern.float().sum(-1) - 1).abs().max() < 1e-2
        assert model.logits.dtype == torch.bfloat16
        assert not torch.equal(model.logits, logits)


def test_m1_fifty_traces():
    model, counts = built("Llama"), []
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        for _ in range(50):
            with model.trace(IDS):
                x = model.layers[1].layer_output
            counts.append(sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects()))
    finally:
        gc.enable()
        gc.unfreeze()
    assert x.shape == (1, 6, 32)
    assert set(counts[1:]) == {counts[1]}


def test_t1_an_unrelated_trace_between_two_identical_ones():
    model, found = built("Llama"), []
    for _ in range(2):
        with model.trace(IDS):
            stacked = torch.stack([layer.layer_output for layer in model.layers])
            found.append([row.clone() for row in stacked])
            last = model.logits
        with model.trace(IDS.flip(1)):
            print(model.layers[1])
        found[-1].append(last)
        with model.generate(IDS, max_new_tokens=2, do_sample=False) as run:
            saved = [model.logits for _ in run.steps()]
        found[-1] += saved
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


def test_t2_out_of_order():
    model = built("Llama")
    with model.trace(IDS) as run:
        kept = model.layers[2].layer_output
        with pytest.raises(AlreadyRan, match=r"layers\[0\]\.layer_output.*stands at layers\[2\]\.layer_output"):
            model.layers[0].layer_output
        assert run._run.where() == "layers[2].layer_output"
    with model.trace(IDS):
        model.layers[1].layer_output
        with pytest.raises((AlreadyRan, NeverReached), match=r"attention_probabilities.*layers\[1\]\.layer_output"):
            model.layers[1].self_attn.attention_probabilities
    either = model.collect(IDS, ["layers.2.layer_output", "layers.0.layer_output"])
    assert torch.equal(either.layers[2].layer_output, kept)


def test_g1_generation():
    model = built("Llama")
    with model.generate(IDS, max_new_tokens=4, do_sample=False, eos_token_id=None) as run:
        saved = [model.layers[1].layer_output for _ in run.steps()]
        after = True
    assert after
    assert [step.shape[1] for step in saved] == [6, 1, 1, 1]
    assert run.output.shape == (1, 10)


def test_l1_the_lens():
    model = built("Gemma2", final_logit_softcapping=0.5)
    with torch.no_grad():
        model._module.lm_head.weight.mul_(40)
        model._module.model.norm.weight.normal_(std=0.5)
    with model.trace(IDS):
        first, last, logits = model.layers[0].layer_output, model.layers[-1].layer_output, model.logits
    assert torch.equal(model.project_on_vocab(last), logits)
    assert logits.abs().max() <= 0.5
    assert logits.abs().max() > 0.4
    lens = model._module.lm_head(model._module.model.norm(first))
    assert torch.equal(model.project_on_vocab(first), torch.tanh(lens / 0.5) * 0.5)
    llama = built("Llama")
    with llama.trace(IDS):
        first = llama.layers[0].layer_output
    own = first * torch.rsqrt(first.pow(2).mean(-1, keepdim=True) + llama.config.rms_norm_eps)
    expected = (own * llama._module.model.norm.weight) @ llama._module.lm_head.weight.T
    assert torch.allclose(llama.project_on_vocab(first), expected, atol=1e-4)


IMAGE = 98


def llava():
    """A LLaVA of a CLIP tower and a Llama, both of two blocks, built from configs."""
    torch.manual_seed(0)
    tower = dict(
        num_hidden_layers=2, hidden_size=24, num_attention_heads=2, intermediate_size=32, image_size=12, patch_size=4
    )
    text = SIZES | dict(num_hidden_layers=2, num_key_value_heads=2)
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**tower),
        text_config=transformers.LlamaConfig(**text, pad_token_id=0, bos_token_id=1, eos_token_id=2),
        image_token_id=IMAGE,
    )
    return load(transformers.LlavaForConditionalGeneration(config).eval().requires_grad_(False))


@pytest.mark.parametrize("masked", [True, False])
def test_x2_vision(masked):
    model = llava()
    ids = torch.tensor([[1, 7, *[IMAGE] * 9, 12, 5, 30]])
    batch = {"input_ids": ids, "pixel_values": torch.randn(1, 3, 12, 12, generator=torch.Generator().manual_seed(1))}
    batch |= {"attention_mask": torch.ones_like(ids)} if masked else {}
    projected = model._module.model.get_image_features(batch["pixel_values"], return_dict=True).pooler_output[0]
    mask = ids == IMAGE
    with model.trace(batch):
        features = model.vision.image_features
        entering, logits = model.layers[0].layer_input, model.logits
        assert torch.equal(model.vision.image_token_mask, mask)
    assert torch.equal(features, projected)
    assert torch.equal(entering[mask], projected)
    with model.trace(batch):
        model.vision.image_features[:] = 0
        zeroed, without = model.layers[0].layer_input, model.logits
    assert torch.equal(zeroed[~mask], entering[~mask])
    assert not zeroed[mask].any()
    assert (without - logits).abs().max() > 1e-3
    with model.trace(ids[:, :2]):
        assert model.logits.shape == (1, 2, 99)
    with model.trace(ids[:, :2]), pytest.raises(Unavailable, match="was given no images"):
        model.vision.image_features
