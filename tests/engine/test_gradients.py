"""Point 10: gradients at any value, in the body, and no graph unless something asks for one."""

from __future__ import annotations

import pytest
import torch
from tests.tiny_models import IDS, left_alone, tiny

from nnatlas.model import load

VALUES = [
    ("llama", "layer_input"),
    ("llama", "layer_mid"),
    ("llama", "self_attn.attention_queries"),
    ("llama", "self_attn.attention_keys"),
    ("llama", "self_attn.attention_scores"),
    ("llama", "self_attn.attention_probabilities"),
    ("llama", "self_attn.attention_premix"),
    ("granite", "self_attn.attention_output"),
    ("granite", "mlp.mlp_output"),
    ("gpt2", "self_attn.attention_values"),
    ("gpt_neox", "self_attn.unrotated_queries"),
    ("falcon", "self_attn.attention_queries"),
    ("falcon", "mlp.mlp_output"),
    ("bloom", "self_attn.attention_keys"),
    ("opt", "layer_mid"),
    ("olmo2", "mlp_input"),
    ("mixtral", "mlp.expert_weights"),
]


def read(block, path):
    for part in path.split("."):
        block = getattr(block, part)
    return block


@pytest.mark.parametrize("model_type, path", VALUES)
def test_the_gradient_at_a_value_is_the_slope_of_the_logits(model_type, path):
    """Against a small step along the gradient's own direction, which also moves what an edit moves."""
    model = tiny(model_type)
    weights = torch.randn(model.vocab_size, generator=torch.Generator().manual_seed(0))

    def score():
        return (model.logits[0, -1] * weights).sum()

    with left_alone(model), model.trace(IDS):
        x = read(model.layers[1], path).requires_grad_()
        (gradient,) = torch.autograd.grad(score(), x)
    assert gradient.shape == x.shape
    step = gradient / gradient.norm() * 1e-2
    moved = []
    for sign in (1, -1):
        with model.trace(IDS):
            read(model.layers[1], path).add_(sign * step)
            moved.append(score())
    slope = (moved[0] - moved[1]) / 2e-2
    assert slope.item() == pytest.approx(gradient.norm().item(), rel=0.05)


def test_two_parts_of_one_projection_both_have_gradients():
    model = tiny("gpt_neox")
    with model.trace(IDS):
        queries = model.layers[1].self_attn.unrotated_queries.requires_grad_()
        keys = model.layers[1].self_attn.unrotated_keys.requires_grad_()
        both = torch.autograd.grad(model.logits.sum(), (queries, keys))
    assert all(gradient.abs().sum() > 0 for gradient in both)


def test_between_two_values_of_one_run():
    model = tiny()
    with model.trace(IDS):
        x = model.layers[0].layer_output.requires_grad_()
        y = model.layers[2].mlp.mlp_output
        (gradient,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
        model.logits.sum().backward()
    assert gradient.abs().sum() > 0
    assert x.grad.abs().sum() > 0
    assert not torch.equal(x.grad, gradient)


def test_no_graph_is_kept_until_something_asks():
    model = tiny()
    with model.trace(IDS):
        assert not model.layers[1].layer_output.requires_grad
        assert not model.logits.requires_grad
    assert all(not weight.requires_grad for weight in model._module.parameters())


def test_a_module_handed_in_keeps_its_own():
    module = load("tiny:granite")._module.requires_grad_(True)
    model = load(module)
    with model.trace(IDS):
        attention = model.layers[1].self_attn
        premix, out = attention.attention_premix, attention.attention_output
        model.layers[2].layer_mid[:, -1] *= 2
        pattern = model.layers[3].self_attn.attention_probabilities
        model.layers[3].self_attn.attention_probabilities = pattern * 0.9  # softmax needs its own output for backward
        loss = model.logits.float().logsumexp(-1).sum()
        at_premix, at_out = torch.autograd.grad(loss, (premix, out), retain_graph=True)
        loss.backward()
    weight = module.model.layers[1].self_attn.o_proj.weight
    assert at_premix.abs().sum() > 0
    assert at_out.abs().sum() > 0
    assert weight.grad is not None
    scaled = at_out.flatten(0, 1) * model.config.residual_multiplier
    assert torch.allclose(weight.grad, scaled.T @ premix.flatten(2).flatten(0, 1), rtol=1e-3, atol=1e-5)


def test_gradients_through_a_patch_from_another_run():
    model = tiny()
    with model.trace(IDS) as source, model.trace(IDS.flip(1)) as target:
        x = source.layers[1].layer_output.requires_grad_()
        target.layers[2].layer_output = source.layers[2].layer_output
        (gradient,) = torch.autograd.grad(target.logits.sum(), x)
    assert gradient.abs().sum() > 0


@pytest.mark.parametrize("edit", ["in place", "assigned"])
def test_inside_a_transform_of_torch_func(edit):
    model = tiny("llama", "eager")
    before = model.collect(IDS, "layers.1.layer_output")["layers.1.layer_output"]

    def logit(vector):
        with model.trace(IDS):
            if edit == "in place":
                model.layers[1].layer_output[:, -1] += vector
            else:
                model.layers[1].layer_output = torch.cat([before[:, :-1], before[:, -1:] + vector], 1)
            return model.logits[0, -1, 3]

    zero = torch.zeros(model.hidden_size)
    slope = torch.func.grad(logit)(zero)
    asked = zero.clone().requires_grad_()
    logit(asked).backward()
    torch.testing.assert_close(slope, asked.grad)
