"""Which way every type's sweep goes, and why not the quickest: `NNATLAS_SWEEP=1` for all of them, else one for each reason."""

from __future__ import annotations

import os

import pytest
import torch
from tests.patching.naive import CLEAN, CORRUPTED, by_position, metric
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from nnatlas import families
from nnatlas.model import load
from nnatlas.patching import activation_patching
from nnatlas.patching.ways import ABOVE, CAUSAL, PLAIN

# Types that do not go the quickest way, by the reason that their note gives.
STATE = "remembers earlier positions by a state, not by keys and values"
GAPS = "blocks keep keys and values"
NO_CACHE = "it does not run over a plain key/value cache"
ALL_SEEN = "positions before the first differing token differ"
FALLS = {
    (ABOVE, STATE): (
        "bailing_hybrid bamba falcon_h1 falcon_mamba glm5_next granitemoehybrid jamba kimi_linear lara_mini lfm2 lfm2_moe "
        "lfm2_vl lfm3 lfm3_vl mamba mamba2 minicpm_ocr minicpmv4_6 minicpmv4_7 minimax nemotron_h nemotron_h_omni "
        "olmo_hybrid qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen3_next recurrent_gemma rwkv xlstm zamba zamba2"
    ),
    (ABOVE, NO_CACHE): (
        "axk2 deepseek_v32 deepseek_v4 dots3_note dots3_note_text glm_moe_dsa hy_v4 hy_v4_vl inkling_mm_model inkling_text "
        "minimax_m3_vl minimax_m3_vl_text mistral_large4 zaya"
    ),
    (ABOVE, GAPS): "hrm_text longcat_flash openai-gpt",
    (ABOVE, ALL_SEEN): "paligemma",
    (ABOVE, "the unpatched row gives other logits"): "kosmos-2.5",
    (ABOVE, "AssertionError"): "xlm",
    # its streams are several, or are stacked outside the blocks, or lie in the order of positions
    (PLAIN, "doesn't match the broadcast shape"): "gemma3n gemma3n_text qwen4_exp qwen4_exp_text xlnet",
    (PLAIN, "Sizes of tensors must match"): "inkling2 inkling2_loop inkling2_loop_text inkling2_text reformer",
    (PLAIN, "is invalid for input of size"): "blt",  # its blocks are of two transformers
    (PLAIN, "must match the size of tensor b"): "dory",
}
UNSWEPT = {
    # text alone does not run, or no language model of the type is built
    "blip-2", "instructblip", "instructblipvideo", "idefics", "kosmos-2", "mllama", "mllama_text_model", "emu3_text_model",
    "cpmant",  # a learned prompt stands in front of the tokens
    "evolla",  # its cache has two names, and the older one warns
    "diffusion_gemma",  # draws its noise anew in every forward
}  # fmt: skip
EXPECTED = {name: (way, why) for (way, why), names in FALLS.items() for name in names.split()}
EVERY = [
    name
    for name, row in families.rows().items()
    if name not in UNSWEPT and (row.defined_in or name in CONFIG_MAPPING_NAMES) and not families.lacking(name)
]
FEW = [names.split()[0] for names in FALLS.values()] + ["chameleon"]


@pytest.mark.parametrize("name", EVERY if os.environ.get("NNATLAS_SWEEP") else [one for one in FEW if one in EVERY])
def test_its_way_and_its_numbers(name):
    model = load(name if name == "apex-1" else f"tiny:{name}")
    found = activation_patching(model, CLEAN, CORRUPTED, metric=metric)
    way, why = EXPECTED.get(name, (CAUSAL, ""))
    assert found.way == way.words, found.note
    assert why in found.note and (found.note == "") == (way is CAUSAL)
    picked = [4, 9]
    expected = by_position(model, CLEAN, CORRUPTED, "layer_output", picked)
    assert (found.values[0][:, picked] - expected).abs().max() < 1e-4 * max(1, float(expected.abs().max()))
    assert torch.isfinite(found.values).all()


def test_few_types_are_left_to_whole_forwards():
    plain = [name for name, (way, _) in EXPECTED.items() if way is PLAIN]
    assert len(plain) == 12 and len(EXPECTED) == 65
