"""Zaya: convolved and compressed queries, keys and values, experts one of which is to skip, and scales on every sum."""

from nnatlas.families._shapes import AS_CALLED, LLAMA, absent, kind

_SCALED = "every sum scales and shifts the stream and what is added to it, channel by channel"
_CLASSES = "batch seq router_classes"

FAMILY = LLAMA.but(
    **AS_CALLED,
    identity=absent(_SCALED),
    attention_output="self_attn > out[0] * block.post_attention_residual_scale.hidden_states_scale",
    mlp_output="mlp > out[0] * block.post_mlp_residual_scale.hidden_states_scale",
    passes="base.input_hidden_states_scale base.input_hidden_states_bias"
    " block.post_attention_residual_scale block.post_mlp_residual_scale",
    kinds=(
        kind(
            "sparse",
            "has mlp.experts",
            router_logits=f"router > out[0] : (batch seq) router_classes as {_CLASSES} reported",
        ),
    ),
    sizes={"router_classes": "mlp.gate.num_router_classes"},
    notes={
        "attention_output": "with the factor of its sum, without the constant shift",
        "mlp_output": "with the factor of its sum, without the constant shift",
        "router_logits": "the last class stands for no expert at all",
        "expert_indices": "a token that skips is given expert 0, with a weight of 0",
    },
    breaks={
        "batch padding": "the first of two convolutions has a bias, which fills the padding that the second then sees"
    },
    tiny={
        "layer_types": ["hybrid", "hybrid_sliding", "hybrid", "hybrid_sliding"],
        "sliding_window": 8,
        "num_experts_per_tok": 1,
    },
)
