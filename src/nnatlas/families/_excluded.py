"""Model types of transformers' language-model mappings that are no decoder-only language models, and why.

They have no row on purpose.  Whoever loads one is told the reason; any other type without a row is a gap.
"""

from __future__ import annotations

from typing import Final

_ENCODER_DECODER = "an encoder-decoder: its blocks also read what an encoder made of another sequence"
_DECODER_HALF = "the decoder half of an encoder-decoder, whose blocks are built to read an encoder's output"
_ENCODER = "an encoder: trained to see later tokens too, it predicts the next one only by a switch of its config"
_ASSISTANT = "a draft model: it reads the keys and values of another model and cannot run alone"
_ROBOT = "a robot policy: its text model conditions actions and predicts no token"

_TABLE = {
    _ENCODER_DECODER: "blip florence2 musicgen musicgen_melody pix2struct pp_formulanet t5gemma2 udop vision-encoder-decoder",
    _DECODER_HALF: "bart bigbird_pegasus blenderbot blenderbot-small marian mbart mvp pegasus plbart prophetnet trocr whisper",
    _ENCODER: "bert bert-generation big_bird camembert data2vec-text electra ernie megatron-bert rembert roberta"
    " roberta-prelayernorm roc_bert roformer xlm-roberta xlm-roberta-xl xmod",
    _ASSISTANT: "gemma4_assistant gemma4_unified_assistant",
    _ROBOT: "pi0",
}

EXCLUDED: Final = {name: reason for reason, names in _TABLE.items() for name in names.split()}
"""Model type -> why it has no row."""
