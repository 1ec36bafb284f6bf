"""MiniMax M3 behind an image tower."""

from nnatlas.families._shapes import LLAMA, NO_INDEXER, absent, kind

FAMILY = LLAMA.but(
    indexer_choice=("self_attn.indexer > out as batch num_kv_heads query chosen_blocks", absent(NO_INDEXER)),
    kinds=(
        kind(
            "sparse",
            "has mlp.experts",
            routed_output="experts > out : (batch seq) hidden_size * mlp.routed_scaling_factor",
        ),
    ),
    tiny={
        "text_config.layer_types": ["full_attention", "minimax_m3_sparse", "full_attention", "minimax_m3_sparse"],
        "text_config.mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
    },
)
