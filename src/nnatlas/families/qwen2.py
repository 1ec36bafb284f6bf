"""Qwen 2 and 2.5: Llama's block with biases on the query, key and value projections."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but()
