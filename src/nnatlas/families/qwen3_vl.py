"""Qwen 3-VL, Cosmos 3 Omni and others: a Qwen 3 behind towers; some add image features to the stream between early blocks."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    covers="qwen3_vl cosmos3_omni lighton_ocr qianfan_ocr moss_transcribe_diarize",
)
