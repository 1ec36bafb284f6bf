"""Granite: Llama blocks with four constants: on the embedding, on what each sublayer adds, on the scores and on the logits."""

from nnatlas.families._shapes import GRANITE, LLAMA

FAMILY = LLAMA.but(
    covers="granite granite_docling",
    **GRANITE,
    readout="norm | lm_head | / logits_scaling",
)
