"""Inkling 2 with a loop: its middle blocks run several times, each pass after the first with messages from the one before."""

from nnatlas.families._partial_sums import INKLING2, INKLING2_BREAKS, INKLING2_KINDS, INKLING2_NOTES
from nnatlas.families._shapes import LLAMA, PASS_BY_PASS

_LAYERS = ["hybrid_sliding", "hybrid_sliding", "hybrid_sliding", "hybrid", "hybrid_sliding", "hybrid_sliding"]

FAMILY = LLAMA.but(
    **INKLING2,
    covers="inkling2_loop inkling2_loop_text",
    looped=True,
    kinds=INKLING2_KINDS,
    notes=INKLING2_NOTES | PASS_BY_PASS,
    breaks=INKLING2_BREAKS
    | {"chain block.layer_input": "the first block after the loop enters with what the last pass left, not the first"},
    tiny={
        "*.loop_layer_index_start": 2,
        "*.loop_layer_index_end": 4,
        "*.loop_num_passes": 2,
        "*.n_layers_per_attn_res_block": 2,
        "*.num_hidden_layers": 6,
        "*.layer_types": _LAYERS,
    },
)
