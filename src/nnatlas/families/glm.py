"""GLM 4: Llama blocks with fused gate and up projections and a rotary of neighbouring pairs on half of each head."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but()
