"""EXAONE 3 and 3.5, Seed-OSS, IQuestCoder and InternLM 3: Llama blocks, apart in biases and in what scales the rotary."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    covers="exaone seed_oss iquestcoder internlm3",
)
