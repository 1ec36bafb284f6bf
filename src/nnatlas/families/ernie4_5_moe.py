"""ERNIE 4.5 with a mixture of experts: the choice is corrected by a bias that the weights do not see."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but()
