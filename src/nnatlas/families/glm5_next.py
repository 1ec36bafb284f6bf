"""GLM 5 Next: four residual streams, Kimi's delta attention in some blocks and latent attention over picked keys in the others."""

from nnatlas.families._mixers import CARRIED, KIMI_KIND, KIMI_NOTES
from nnatlas.families._shapes import INDEXED, LATENT_KEYS, LLAMA, PICKED
from nnatlas.families._streams import HYPER, HYPER_BREAKS, HYPER_NOTES

FAMILY = LLAMA.but(
    **LATENT_KEYS,
    **HYPER,
    **PICKED,
    kinds=(KIMI_KIND,),
    breaks=HYPER_BREAKS
    | INDEXED
    | CARRIED
    | {"chain mlp_neurons": "gate and up projection are kept within bounds"},
    notes=KIMI_NOTES | HYPER_NOTES,
    tiny={
        "text_config.layer_types": ["linear_attention", "indexed_attention", "indexed_attention", "linear_attention"],
        "text_config.indexer_types": ["full", "full", "shared", "full"],
    },
)
