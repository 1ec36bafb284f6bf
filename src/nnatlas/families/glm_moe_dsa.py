"""GLM 5: DeepSeek 3.2; some blocks take over the choice of keys that the indexer of an earlier one made."""

from nnatlas.families._shapes import INDEXED, LATENT_KEYS, LLAMA, PICKED

FAMILY = LLAMA.but(
    **LATENT_KEYS,
    **PICKED,
    tiny={"indexer_types": ["full", "full", "shared", "shared"]},
    breaks=INDEXED,
)
