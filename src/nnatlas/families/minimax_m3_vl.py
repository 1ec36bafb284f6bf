"""MiniMax M3 behind an image tower."""

from nnatlas.families._shapes import INDEXED, LLAMA, NO_INDEXER, SCALED_EXPERTS, absent

FAMILY = LLAMA.but(
    indexer_choice=("self_attn.indexer > out as batch num_kv_heads query chosen_blocks", absent(NO_INDEXER)),
    kinds=(SCALED_EXPERTS,),
    breaks=INDEXED,
    tiny={
        "text_config.layer_types": ["full_attention", "minimax_m3_sparse", "full_attention", "minimax_m3_sparse"],
        "text_config.mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
        "merged_hidden_size": 256,
    },
)
