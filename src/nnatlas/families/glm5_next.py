"""GLM 5 Next: four residual streams, Kimi's delta attention in some blocks and latent attention over picked keys in the others."""

from nnatlas.families._mixers import CARRIED, DELTA_NOTES, KIMI_DELTA, NO_ATTENTION
from nnatlas.families._shapes import INDEXED, LLAMA, absent, kind
from nnatlas.families._streams import HYPER, HYPER_BREAKS, HYPER_NOTES

FAMILY = LLAMA.but(
    **HYPER,
    indexer_choice=(
        "self_attn.indexer > out as batch query chosen",
        absent("this block attends to what an earlier block's indexer picked"),
    ),
    kinds=(
        kind(
            "recurrent",
            "has self_attn.forget_gate",
            self_attn=absent(NO_ATTENTION),
            linear_attn={"path": "self_attn", **KIMI_DELTA},
        ),
    ),
    breaks=HYPER_BREAKS
    | INDEXED
    | CARRIED
    | {"chain mlp_neurons": "gate and up projection are kept within bounds"},
    notes=DELTA_NOTES
    | HYPER_NOTES
    | {
        "linear_attn.decays": "the factor on each key dimension of a head's state at each token, between 0 and 1",
        "linear_attn.attention_gate": "before its sigmoid; the normed head outputs are multiplied by it",
    },
    tiny={
        "text_config.layer_types": ["linear_attention", "indexed_attention", "indexed_attention", "linear_attention"],
        "text_config.indexer_types": ["full", "full", "shared", "full"],
    },
)
