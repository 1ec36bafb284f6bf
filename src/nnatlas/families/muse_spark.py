"""Muse Spark: sandwich norms, gated and normed heads, and a learned gate a channel between the stream and what is added."""

from nnatlas.families._shapes import AS_CALLED, NO_ROTARY, SANDWICH, absent, kind

_GATED = "a learned gate weighs, channel by channel, the stream against what each sublayer adds"

FAMILY = SANDWICH.but(
    identity=absent(_GATED),
    readout="norm | lm_head | * output_multiplier | cap final_logit_softcapping",
    **AS_CALLED,
    attention_gate=(
        "self_attn.gate_proj > out : batch seq (num_heads head_dim) through sigmoid as batch seq num_heads head_dim"
    ),
    passes="block.post_attention_residual_gate block.post_feedforward_residual_gate",
    kinds=(
        kind("without rotary", "not config.layer_rope_theta", **NO_ROTARY),
        kind("sparse", "has mlp.experts", routed_output="mlp.post_expert_proj > out : (batch seq) hidden_size"),
    ),
    notes={
        "routed_output": "the experts work in a width of their own; this is their sum in the stream's",
        "attention_output": "before the gate that weighs it against the stream",
        "mlp_output": "before the gate that weighs it against the stream",
    },
    tiny={"text_config.mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]},
)
