"""What the notes on Llama claim; what they say of SmolLM2 is measured on it."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from tests.encyclopedia.claims.common import gated_mlp, logits, pre_norms, tiny

from nnatlas import families

PROMPT = "The Eiffel Tower is in the city of"


def block_equations(model: Any) -> None:
    pre_norms(model)
    gated_mlp(model)


def biases_are_a_switch(model: Any) -> None:
    for on in (False, True):
        block = tiny("llama", "sdpa", {"attention_bias": on, "mlp_bias": on}).layers[1]._module
        biased = {name for name, _ in block.named_parameters() if name.endswith("bias")}
        parts = [f"self_attn.{name}_proj" for name in "qkvo"] + [f"mlp.{name}_proj" for name in ("gate", "up", "down")]
        assert biased == ({f"{part}.bias" for part in parts} if on else set())


def scaled_slices_matter(model: Any) -> None:
    attention, width = model.layers[1].self_attn, model.qk_head_dim

    def double_slice() -> None:
        attention.q_proj.output[..., width : 2 * width] *= 2

    def double_queries() -> None:
        attention.attention_queries[:, 1] *= 2

    torch.testing.assert_close(logits(model, double_slice), logits(model, double_queries))
    assert (logits(model, double_slice) - logits(model)).abs().max() > 1e-3
    assert not hasattr(attention._module, "q_norm")


@cache
def streams(smollm2: Any) -> list[torch.Tensor]:
    """The stream after every block, `[seq, hidden_size]`."""
    found = smollm2.collect(PROMPT, "layers.*.layer_output")
    return [found[f"layers.{block}.layer_output"][0] for block in range(smollm2.num_layers)]


def smollm2_rests_on_position_0(smollm2: Any) -> None:
    for block in range(23, 27):
        name = f"layers.{block}.self_attn.attention_probabilities"
        pattern = smollm2.collect(PROMPT, name)[name][0]
        assert pattern[:, 1:, 0].mean() > 0.8
    for block in range(11, 28):
        first, *others = streams(smollm2)[block].norm(dim=-1).tolist()
        assert first > 22_000
        assert max(others) < 800


def smollm2_has_one_massive_dimension(smollm2: Any) -> None:
    first = streams(smollm2)[20][0]
    assert (first.argmax(), smollm2.hidden_size) == (507, 576)
    assert first[507].abs() > 0.99 * first.norm()
    whole, rest = streams(smollm2)[20].mean(0), streams(smollm2)[20][1:].mean(0)
    assert whole.abs().argmax() == 507
    assert rest.norm() < 0.2 * whole.norm()


def smollm2_has_no_bos(smollm2: Any) -> None:
    ids = smollm2.tokenizer(PROMPT).input_ids
    assert ids[0] == smollm2.tokenizer("The").input_ids[0] != smollm2.tokenizer.bos_token_id
    assert smollm2.tokenizer.bos_token is not None


def smollm2_is_tied(smollm2: Any) -> None:
    assert smollm2.lm_head._module.weight is smollm2.embed_tokens._module.weight


def kin_have_rows_of_their_own(model: Any) -> None:
    assert [families.find(name).name for name in ("llama4", "mistral", "qwen2")] == ["llama4", "mistral", "qwen2"]
    later = tiny("llama4_text", "eager")
    assert any(hasattr(block.mlp, "router") for block in later.layers)
    assert not all(later.config.no_rope_layers)
    unchanged = [row.name for row in families.rows().values() if row.shape == "llama" and not row.changed]
    assert len(set(unchanged)) > 10
