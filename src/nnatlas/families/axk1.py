"""A.X K1: DeepSeek 3 with a norm on what its mixtures write."""

from nnatlas.families._shapes import LLAMA, kind

FAMILY = LLAMA.but(
    kinds=(kind("sparse", "has mlp.experts", mlp_post_norm="mlp.post_mlp_layernorm", mlp_output="mlp_post_norm > out"),),
)
