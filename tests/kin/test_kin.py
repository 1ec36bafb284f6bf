"""Other libraries' names: every target exists, and people find what they know by the name they know."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nnatlas import families, kin
from nnatlas.errors import InputError
from nnatlas.kin.paths import look_up
from nnatlas.values import VALUES


def first(name: str) -> str:
    return kin.find(name)[0].ours


def test_every_target_exists_and_none_is_listed_twice():
    assert [one for one in kin.table() if one.ours and one.ours not in VALUES] == []
    names = [(one.library, one.theirs) for one in kin.table()]
    assert len(names) == len(set(names)) > 80


def test_where_there_is_no_value_it_says_what_to_do():
    assert [one for one in kin.table() if not one.ours and len(one.difference) < 30] == []


@pytest.mark.parametrize(
    "theirs, ours",
    [
        ("hook_resid_pre", "block.layer_input"),
        ("blocks.3.hook_resid_mid", "block.layer_mid"),
        ("blocks.11.hook_resid_post", "block.layer_output"),
        ("resid_pre", "block.layer_input"),  # the activation cache's short form
        ("blocks.0.attn.hook_z", "self_attn.attention_head_outputs"),
        ("blocks.0.attn.hook_pattern", "self_attn.attention_probabilities"),
        ("pattern", "self_attn.attention_probabilities"),
        ("attn.hook_q", "self_attn.unrotated_queries"),
        ("hook_rot_q", "self_attn.attention_queries"),
        ("mlp.hook_post", "mlp.mlp_neurons"),
        ("ln_final.hook_normalized", "final_norm_output"),
        ("layers_output[5]", "block.layer_output"),
        ("model.attentions_output[3]", "self_attn.attention_output"),
        ("hidden_states[4]", "block.layer_input"),
        ("hidden_states[-1]", "final_norm_output"),
        ("attentions[2]", "self_attn.attention_probabilities"),
        ("head_attention_value_output", "self_attn.attention_premix"),
        ("attention_value_states", "self_attn.attention_values"),
        ("mlp_neurons", "mlp.mlp_neurons"),  # our own
        ("layers.3.self_attn.attention_scores", "self_attn.attention_scores"),
    ],
)
def test_a_known_name_is_found_first(theirs, ours):
    assert first(theirs) == ours


@pytest.mark.parametrize(
    "path, ours",
    [
        ("transformer.h.3.attn.c_proj.input", {"self_attn.attention_premix"}),
        ("model.layers[5].self_attn.o_proj.input", {"self_attn.attention_premix"}),
        ("model.model.layers[5].output[0]", {"block.layer_output"}),
        ("model.layers.5", {"block.layer_input", "block.layer_output"}),
        ("gpt_neox.layers.3.mlp.dense_4h_to_h.input", {"mlp.mlp_neurons"}),
        ("transformer.wte.output", {"token_embeddings"}),
        ("lm_head", {"lm_head_output"}),
    ],
)
def test_a_module_path_is_read_off_the_rows(path, ours):
    found = look_up(path)
    most = max(len(types) for types in found.values())  # families may differ; what most of them say is meant
    assert {key for (_, key, _), types in found.items() if len(types) == most} == ours


def test_a_path_names_the_types_it_holds_for():
    [types] = look_up("transformer.h.0.attn.c_proj.input").values()
    assert "gpt2" in types and "llama" not in types
    [dropped] = [unless for (_, key, unless) in look_up("model.layers.0.self_attn.q_proj.output") if unless]
    assert dropped == "q_norm > out"


def test_every_path_of_the_rows_is_a_value():
    assert {key for types in (look_up("model.layers.0.mlp"),) for _, key, _ in types} <= set(VALUES)
    assert families.find("gpt2")


def test_a_slip_of_the_pen_finds_its_neighbours():
    assert first("hook_reasid_pre") == "block.layer_input"
    assert "self_attn.attention_probabilities" in {one.ours for one in kin.find("attention_probabilites")}
    assert "self_attn.attention_queries" in {one.ours for one in kin.find("rotary queries")}


def test_what_nobody_calls_so_is_an_error():
    with pytest.raises(InputError, match="no library we know calls a value 'zzzzqq'"):
        kin.find("zzzzqq")


def test_torch_is_not_imported():
    code = "import sys, nnatlas.kin; nnatlas.kin.find('transformer.h.0.mlp'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
