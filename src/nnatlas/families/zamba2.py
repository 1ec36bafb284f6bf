"""Zamba 2: Mamba-2 mixers; in some blocks one of two shared transformers first adds to what the mixer reads, not to the stream."""

from nnatlas.families._mixers import BESIDE, CLAMPED, MAMBA2
from nnatlas.families._shapes import AS_CALLED, kind

FAMILY = BESIDE.but(
    linear_attn={"path": "mamba", **MAMBA2},
    kinds=(kind("rotated", "config.use_mem_rope", **AS_CALLED),),
    breaks=CLAMPED,
    tiny={
        "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid", "linear_attention", "hybrid"],
        "num_hidden_layers": 6,
        "hybrid_layer_ids": [1, 3, 5],
        "attention_hidden_size": 128,
        "attention_head_dim": 32,
        "num_key_value_heads": 4,
        "num_query_groups": 4,
        "mamba_headdim": 16,
        "num_mem_blocks": 2,
    },
)
