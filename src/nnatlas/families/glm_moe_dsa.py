"""GLM 5: DeepSeek 3.2; some blocks take over the choice of keys that the indexer of an earlier one made."""

from nnatlas.families._shapes import INDEXED, LLAMA, absent

FAMILY = LLAMA.but(
    indexer_choice=(
        "self_attn.indexer > out as batch query chosen",
        absent("this block attends to what an earlier block's indexer picked"),
    ),
    tiny={"indexer_types": ["full", "full", "shared", "shared"]},
    breaks=INDEXED,
)
