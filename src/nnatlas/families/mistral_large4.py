"""Mistral Large 4: latent attention over picked keys; later blocks take over an earlier one's latent and choice."""

from nnatlas.families._shapes import INDEXED, LATENT_KEYS, LLAMA, PICKED

FAMILY = LLAMA.but(
    **LATENT_KEYS,
    **PICKED,
    readout="norm | lm_head | cap final_logit_softcapping",
    tiny={"text_config.indexer_types": ["full", "full", "shared", "shared"]},
    notes={"unrotated_queries": "before they are scaled by a learned function of head and position"},
    breaks=INDEXED | {"chain unrotated_queries": "queries are scaled by a learned function of head and position"},
    passes="base.rotary_emb",
)
