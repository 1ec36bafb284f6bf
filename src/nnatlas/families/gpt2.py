"""GPT-2 and GPT-SW3: pre-norm blocks with learned positions and one fused projection for queries, keys and values."""

from nnatlas.families._shapes import GPT2

FAMILY = GPT2.but(
    covers="gpt2 gpt-sw3",
    passes="base.wpe",
)
