"""MiniMax M3: some blocks attend only to blocks of keys that an indexer picks; experts and MLPs with a clamped gate."""

from nnatlas.families._shapes import INDEXED, LLAMA, NO_INDEXER, SCALED_EXPERTS, absent

FAMILY = LLAMA.but(
    indexer_choice=("self_attn.indexer > out as batch num_kv_heads query chosen_blocks", absent(NO_INDEXER)),
    mlp_activation="mlp ~ mul[1] > out",
    kinds=(SCALED_EXPERTS,),
    breaks=INDEXED,
    tiny={
        "layer_types": ["full_attention", "minimax_m3_sparse", "full_attention", "minimax_m3_sparse"],
        "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
    },
)
