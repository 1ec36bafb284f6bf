"""CodeGen: GPT-J's parallel block and rotary; queries, values and keys are interleaved in four groups of heads."""

from nnatlas.families._shapes import absent
from nnatlas.families.gptj import FAMILY as GPTJ

FAMILY = GPTJ.twin(
    unrotated_queries=absent("the fused projection is split across four groups of heads before the rotary"),
    unrotated_keys=absent("the fused projection is split across four groups of heads before the rotary"),
)
