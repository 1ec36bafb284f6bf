"""Types that have no row: bound by what their modules do and proven, or refused with the law that does not hold."""

from __future__ import annotations

import pytest
import torch
from tests.guess.strangers import RenamedBlock, ScrambledBlock, TurnedZzz, copied, disturbed, stranger

import nnatlas
from nnatlas.bind import bind
from nnatlas.check import check
from nnatlas.errors import UnsupportedFamily
from nnatlas.families._shapes import LLAMA
from nnatlas.guess import GuessedFamily, draft, prove

torch.set_num_threads(1)
IDS = torch.arange(40, 48)[None]


def test_a_copied_llama_binds_by_itself_and_passes() -> None:
    with pytest.warns(GuessedFamily, match="'zzz'.*guessed"):
        model = nnatlas.load(stranger())
    assert check(model).passed
    with model.trace(IDS):
        entering, attention = model.layers[1].layer_input, model.layers[1].self_attn.attention_output
        pattern = model.layers[2].self_attn.attention_probabilities
    assert entering.shape == attention.shape == (1, 8, 64)
    torch.testing.assert_close(pattern.sum(-1), torch.ones(1, 4, 8))
    known = nnatlas.load(stranger(), family=LLAMA.but(name="known", covers="zzz"))
    assert served(model) == served(known)


def served(model: nnatlas.StandardizedTransformer) -> set[str]:
    return {key for key, row in model.support().rows.items() if not row.nowhere}


def test_renamed_parts_are_found_by_what_they_do() -> None:
    with pytest.warns(GuessedFamily):
        model = nnatlas.load(stranger(RenamedBlock))
    roles = {name: model._owner.blocks[0].role(name)[1] for name in ("self_attn", "mlp", "attention_norm", "mlp_norm")}
    assert roles == {
        "self_attn": "model.layers.0.mixer",
        "mlp": "model.layers.0.thinker",
        "attention_norm": "model.layers.0.before_mixer",
        "mlp_norm": "model.layers.0.before_thinker",
    }
    with model.trace(IDS):
        parts = [
            model.layers[0].layer_input,
            model.layers[0].self_attn.attention_output,
            model.layers[0].mlp.mlp_output,
        ]
        leaving = model.layers[0].layer_output
    torch.testing.assert_close(sum(parts[1:], parts[0]), leaving)  # only with the factor of 0.6 on both


def test_a_scrambled_llama_is_refused_with_the_law() -> None:
    with pytest.raises(UnsupportedFamily, match=r"residual law does not hold"):
        nnatlas.load(stranger(ScrambledBlock))


def test_logits_that_no_readout_explains_are_refused_with_the_law() -> None:
    with pytest.raises(UnsupportedFamily, match=r"head.* law does not hold"):
        nnatlas.load(stranger(whole=TurnedZzz))


BLOCKS = {"llama": "model.layers.*", "gpt2": "transformer.h.*", "mixtral": "model.layers.*", "gemma2": "model.layers.*"}


@pytest.mark.parametrize("model_type", BLOCKS)
def test_copies_under_new_names_bind_are_proven_and_serve_what_their_own_rows_do(model_type: str) -> None:
    with pytest.warns(GuessedFamily, match=f"'{model_type}9'.*guessed") as warned:
        model = nnatlas.load(copied(model_type, f"{model_type}9"))
    assert "Not proven" not in str(warned[0].message)
    assert check(model).passed
    known = nnatlas.load(f"tiny:{model_type}")
    assert served(known) - served(model) == set() and served(model) >= INTERIOR


INTERIOR = {f"self_attn.attention_{name}" for name in ("queries", "scores", "probabilities", "head_contributions")}


@pytest.mark.parametrize("model_type", BLOCKS)
def test_scrambled_copies_are_refused_with_the_law(model_type: str) -> None:
    block = BLOCKS[model_type].removesuffix("*") + "[0-9]"
    scrambled = disturbed(copied(model_type, "scrambled"), block, lambda stream: stream.flip(-1))
    with pytest.raises(UnsupportedFamily, match=r"'scrambled'; one was guessed.* residual.* law does not hold"):
        nnatlas.load(scrambled)


def test_a_factor_that_no_config_states_is_refused() -> None:
    weighed = disturbed(copied("gpt2", "weighed"), "transformer.h.[0-9]", lambda stream: stream * 0.37)
    with pytest.raises(UnsupportedFamily, match="residual"):
        nnatlas.load(weighed)


DRAFTED = "gpt2 gpt_neox gptj phi3 olmo2 cohere gemma2 granite exaone4 helium biogpt gpt_oss qwen3_moe"


@pytest.mark.parametrize("model_type", DRAFTED.split())
def test_drafts_of_known_types_pass_every_law(model_type: str) -> None:
    module = nnatlas.load(f"tiny:{model_type}")._module
    assert not check(nnatlas.model.StandardizedTransformer(bind(module, draft(module).family()))).failures


def test_a_row_of_ones_own_is_taken_as_it_is(recwarn: pytest.WarningsRecorder) -> None:
    own = LLAMA.but(name="own", covers="zzz", self_attn="mixer", mlp="thinker", **NORMS)
    assert nnatlas.load(stranger(RenamedBlock), family=own).family is own
    assert not [one for one in recwarn if one.category is GuessedFamily]


NORMS = {"attention_norm": "before_mixer", "mlp_norm": "before_thinker"}


@pytest.mark.parametrize(
    "model_type", ["llama", "gemma2", "granite", "cohere", "olmo2", "gpt_neox", "mixtral", "deepseek_v3"]
)
def test_what_is_guessed_of_known_types_obeys_the_laws_of_the_stream(model_type: str) -> None:
    module = nnatlas.load(f"tiny:{model_type}")._module
    model = nnatlas.model.StandardizedTransformer(bind(module, draft(module).family()))
    assert not check(model, laws=["residual", "head", "shape"]).failures


@pytest.mark.parametrize("model_type", ["mamba", "bamba"])
def test_a_mixer_without_attention_is_not_taken_for_an_mlp(model_type: str) -> None:
    module = nnatlas.load(f"tiny:{model_type}")._module
    with pytest.raises(UnsupportedFamily, match=r"the residual.* law does not hold"):
        prove(module, draft(module))


def test_the_probe_leaves_the_model_as_it_was() -> None:
    module = stranger()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    draft(module)
    assert all(not part._forward_hooks and not part._forward_pre_hooks for part in module.modules())
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
