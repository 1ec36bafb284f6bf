"""InternVL, LLaVA-OneVision, Ovis 2, GOT-OCR 2 and others: a Qwen 2 behind an image or video tower."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    covers="internvl llava_onevision ovis2 got_ocr2 pp_chart2table video_llama_3",
)
