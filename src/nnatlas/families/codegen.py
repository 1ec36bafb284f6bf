"""CodeGen: GPT-J's parallel block and rotary; queries, values and keys are interleaved in four groups of heads."""

from nnatlas.families.gptj import FAMILY as GPTJ

FAMILY = GPTJ.twin(
    unrotated_queries="self_attn ~ reshape[0] > out : batch seq num_heads qk_head_dim",
    unrotated_keys="self_attn ~ reshape[1] > out : batch seq num_kv_heads qk_head_dim",
)
