"""The kinds behind the public cases, asked of every family row: order, one stream tensor, padding, generation, patterns.

By default of the rows below, which have every kind of block; of every row there is with `NNATLAS_SWEEP=1`, in minutes.
"""

from __future__ import annotations

import os

import pytest
import torch
from tests.tiny_models import IDS, left_alone

from nnatlas import families
from nnatlas.bind.points import Point
from nnatlas.errors import AlreadyRan, InputError, NeverReached
from nnatlas.model import load
from nnatlas.model.collect import Gathering

FIRST = """llama mistral qwen2 qwen3 gemma2 gpt2 gpt_neox phi olmo2 granite mixtral gpt_oss bloom falcon opt cohere apertus helium
exaone4 cohere2"""
FURTHER = (
    "deepseek_v3 gptj mpt qwen3_next jamba mamba2 gemma3n_text llama4_text glm4 granitemoehybrid rwkv recurrent_gemma"
)
ROWS = sorted(families.rows()) if os.environ.get("NNATLAS_SWEEP") else [*FIRST.split(), *FURTHER.split()]
GREEDY = {"max_new_tokens": 3, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}


@pytest.fixture(scope="module", params=ROWS)
def model(request):
    """One tiny model per row that runs on ids alone."""
    try:
        made = load(f"tiny:{request.param}")
        made._module(IDS)
    except (TypeError, ValueError, InputError) as why:
        pytest.skip(str(why).splitlines()[0])
    return made


def length(model):
    """Positions of the stream for the six ids: some families put a prompt of their own in front."""
    with model.trace(IDS) as run:
        found = model.layers[0].layer_input.shape[1]
        run.stop()
    return found


class Noting(Gathering):
    """Collects, and remembers in which order the places came by."""

    def reach(self, site, payload, at=None):
        self.__dict__.setdefault("order", []).extend(self._by_site[site])
        super().reach(site, payload, at)


def in_forward_order(model, blocks):
    """Every point of some blocks, in the order in which one forward that is never stopped comes by them."""
    noting = Noting(model._owner)
    for host in (part for block in blocks for part in (block, *block.parts.values())):
        for name in host.values:
            if host.absence(name) is None and isinstance(point := host.point(name), Point):
                noting.need(point)
    noting.run_forward(lambda: model._module(IDS))
    return noting.order


def test_t2_values_come_in_order_and_what_is_past_raises_at_its_line(model):
    blocks = [model._owner.blocks[0], model._owner.blocks[-1]]
    order = in_forward_order(model, blocks)
    with left_alone(model):
        for _ in range(2):  # the first run learns the order as it goes
            with model.trace(IDS) as run:
                for point in order:
                    run._run.read(point)
        if model.family.looped:
            return
        last = order[-1]
        with model.trace(IDS) as run:
            run._run.read(last)
            for point in order:
                if point.site != last.site:
                    with pytest.raises((AlreadyRan, NeverReached)):
                        run._run.read(point)
            assert run._run.where() == last.name


def test_w5_the_stream_is_one_tensor_and_editing_it_lands(model):
    block = model.layers[0]
    if model._owner.blocks[0].absence("layer_output"):
        pytest.skip(model._owner.blocks[0].absence("layer_output"))
    plain = model._module(IDS).logits
    with left_alone(model), model.trace(IDS):
        out = block.layer_output
        assert isinstance(out, torch.Tensor)
        assert out.shape[0] == 1
        assert out.shape[-1] == model.hidden_size
        block.layer_output = out * 0
        assert block.layer_output.abs().max() == 0
        logits = model.logits
    assert not torch.allclose(logits, plain, atol=1e-4)
    with model.trace(IDS):
        block.layer_output[:] *= 0
        assert torch.allclose(model.logits, logits, atol=1e-5)


def test_g1_generation_sees_every_step(model):
    if not hasattr(model._module, "generate") or model._owner.blocks[-1].absence("layer_output"):
        pytest.skip("this type does not generate")
    torch.manual_seed(0)
    expected = model._module.generate(IDS, **GREEDY)
    torch.manual_seed(0)
    lengths = []
    with left_alone(model), model.generate(IDS, **GREEDY) as run:
        for _ in run.steps():
            lengths.append(model.layers[-1].layer_output.shape[1])
            if not model.family.looped:
                with pytest.raises((AlreadyRan, NeverReached)):
                    model.layers[0].layer_input
    assert torch.equal(run.output, expected)
    n = length(model)
    assert lengths in ([n, 1, 1], [n, n + 1, n + 2])


def test_at1_the_pattern_is_a_pattern(model):
    host = next((block.parts["self_attn"] for block in model._owner.blocks if "self_attn" in block.parts), None)
    if host is None or host.absence("attention_probabilities"):
        pytest.skip("no pattern is served")
    attention = model.layers[host.index].self_attn
    with left_alone(model), model.trace(IDS):
        pattern = attention.attention_probabilities
    assert pattern.shape[:3] == (1, attention.num_heads, length(model))
    assert (pattern >= 0).all()
    assert pattern.sum(-1).max() < 1 + 1e-4


def test_p1_left_padding_changes_no_row(model):
    why = next((why for law, why in model.family.breaks.items() if law.startswith("batch")), None)
    if why:
        pytest.skip(why)
    short, long = [5, 9, 30], IDS[0].tolist()
    with model.trace([short]):
        alone = model.logits
    with left_alone(model), model.trace([short, long]):
        both = model.logits
    assert (both[0, 3:] - alone[0]).abs().max() < 1e-3 * max(1, alone.abs().max())
