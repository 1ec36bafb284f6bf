"""CWM: a Llama for code whose blocks mostly attend within a sliding window."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but()
