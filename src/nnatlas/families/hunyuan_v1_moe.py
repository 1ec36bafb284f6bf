"""Hunyuan with a mixture of experts beside one shared MLP; queries and keys are normed after the rotary."""

from nnatlas.families.hunyuan_v1_dense import FAMILY as HUNYUAN_V1_DENSE

FAMILY = HUNYUAN_V1_DENSE.twin(tiny={"num_experts": 4})
