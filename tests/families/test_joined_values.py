"""Values that no tensor of the forward holds, or that only a picture or a canvas brings about: read, and held against the laws."""

from __future__ import annotations

import pytest
import torch

from nnatlas import families, load
from nnatlas.bind import bind
from nnatlas.check import check
from nnatlas.model import StandardizedTransformer

LAWS = ("shape", "residual", "chain")
SERVED = {
    "deepseek_v2": "self_attn.unrotated_keys",
    "deepseek_v3": "self_attn.unrotated_keys",
    "dots3_note_text": "self_attn.unrotated_keys",
    "kimi_linear": "self_attn.unrotated_keys",
    "axk2": "self_attn.unrotated_queries",
    "codegen": "self_attn.unrotated_keys",
    "falcon": "self_attn.unrotated_queries",
    "longcat_flash": "self_attn.unrotated_queries",
    "deepseek_v4": "self_attn.attention_head_contributions",
    "mamba": "linear_attn.attention_premix",
    "zamba": "linear_attn.attention_premix",
    "falcon_h1": "linear_attn.attention_head_outputs",
    "llama4_text": "mlp.routed_output",
    "lfm2": "mlp.mlp_activation",
    "minimax_m3_vl_text": "mlp.mlp_activation",
    "beam": "block.layer_output",
    "mllama": "self_attn.attention_head_contributions",
    "diffusion_gemma": "self_attn.attention_keys",
}


@pytest.mark.parametrize("model_type, value", SERVED.items(), ids=SERVED)
def test_the_value_is_read_and_obeys_the_laws(model_type: str, value: str) -> None:
    report = check(f"tiny:{model_type}", laws=LAWS)
    assert report.failures == []
    assert report.values[value].read == "holds"
    assert (
        not any(one.law == "residual" and one.status != "holds" for one in report.findings)
        or model_type == "deepseek_v4"
    )


def failing(model_type: str, laws: tuple[str, ...] = LAWS, **cells: object) -> set[str]:
    """What breaks under the type's row with some cells changed."""
    row = families.find(model_type)
    assert row is not None
    module = load(f"tiny:{model_type}")._module
    changed = row.remade(cells={**row.cells, **cells}, breaks={})
    report = check(StandardizedTransformer(bind(module, changed)), laws=laws)
    return {f"{one.law} {one.value}" for one in report.failures}


def test_a_scan_read_by_its_keys_is_found_out() -> None:
    wrong = "scanned(state_input, attention_values, attention_keys, attention_queries, betas) as batch seq channels"
    assert "chain linear_attn.attention_premix" in failing("mamba", **{"linear_attn.attention_head_outputs": wrong})


def test_latent_keys_with_the_latent_in_place_of_the_rotary_part_are_found_out() -> None:
    wrong = "latent_keys(self_attn.kv_a_layernorm > out, self_attn.kv_b_proj > out)"
    assert failing("deepseek_v2", **{"self_attn.unrotated_keys": wrong}) == {"chain self_attn.unrotated_keys"}


def test_a_query_without_its_factor_is_found_out_though_the_rotary_reorders_it() -> None:
    plain = "self_attn.q_b_proj > out : batch seq (num_heads qk_head_dim)"
    assert "chain self_attn.unrotated_queries" in failing("longcat_flash", **{"self_attn.unrotated_queries": plain})


def test_cross_attention_without_its_gate_is_found_out() -> None:
    row = families.find("mllama")
    assert row is not None
    cross = row.kinds[-1].remade(cells={**row.kinds[-1].cells, "self_attn.attention_output": "self_attn > out[0]"})
    module = load("tiny:mllama")._module
    ungated = row.remade(kinds=(*row.kinds[:-1], cross))
    report = check(StandardizedTransformer(bind(module, ungated)), laws=["residual"])
    assert [one.where for one in report.failures] == ["layers[3]"]


def test_reading_the_scores_of_a_canvas_wider_than_the_window_changes_nothing() -> None:
    """Its sliding blocks are called with a window that sdpa's kernel does not take, and see all."""
    assert check("tiny:diffusion_gemma", laws=["pure"]).passed


def test_latent_keys_of_a_cached_step_are_the_steps_own() -> None:
    model = load("tiny:deepseek_v2")
    ids = torch.arange(40, 49)[None]
    with model.generate(ids, max_new_tokens=3, do_sample=False) as run:
        kept = [model.layers[1].self_attn.unrotated_keys.clone() for _ in run.steps()]
    with model.trace(run.output[:, :-1]):
        whole = model.layers[1].self_attn.unrotated_keys
    assert [one.shape[2] for one in kept] == [9, 1, 1]
    torch.testing.assert_close(torch.cat(kept, 2), whole)
