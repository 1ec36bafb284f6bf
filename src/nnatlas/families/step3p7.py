"""Step 3: one sigmoid gate per attention head, partial rotaries that differ by block, and scaled experts with a shared one."""

from nnatlas.families._shapes import LLAMA, SCALED_EXPERTS

FAMILY = LLAMA.but(
    attention_gate="self_attn.g_proj > out through sigmoid as batch seq num_heads",
    tiny={
        "text_config.sliding_window": 8,
        "text_config.layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
        "text_config.mlp_layer_types": ["dense", "dense", "sparse", "sparse"],
        "text_config.rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
        "text_config.swiglu_limits": [None, 1.5, None, 1.5],
        "text_config.swiglu_limits_shared": [None, None, 1.5, 1.5],
        "text_config.num_sliding_attention_heads": 8,
        "text_config.per_layer_config": {"1": {"num_attention_heads": 8}, "2": {"num_attention_heads": 8}},
        "vision_config.intermediate_size": 373,
    },
    kinds=(SCALED_EXPERTS,),
)
