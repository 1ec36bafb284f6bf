"""Gemma 3n: several residual streams of which one is computed and the others are predicted and corrected, and a low-rank bypass."""

from nnatlas.families._shapes import LLAMA, SHARED_KEYS, SMALL_TOWER, absent

_STREAMS = ": streams batch seq hidden_size as batch seq streams hidden_size"
_ALTUP = "what is computed is compared with a prediction, and every stream takes its own share of the difference"

FAMILY = LLAMA.but(
    covers="gemma3n gemma3n_text",
    identity=absent(_ALTUP),
    readout="unembedded | norm | lm_head | cap final_logit_softcapping",
    mlp_norm="pre_feedforward_layernorm",
    attention_post_norm="post_attention_layernorm",
    mlp_post_norm="post_feedforward_layernorm",
    layer_input=f"block > in {_STREAMS}",
    layer_output=f"block > out {_STREAMS}",
    attention_norm_output="attention_norm > out",
    attention_output="attention_post_norm > out",
    mlp_output="mlp_post_norm > out",
    unrotated_queries="q_norm > out : batch seq num_heads qk_head_dim",
    k_norm=("k_norm", absent(SHARED_KEYS)),
    unrotated_keys=("k_norm > out : batch seq num_kv_heads qk_head_dim", absent(SHARED_KEYS)),
    passes="base.altup_projections base.altup_unembed_projections base.embed_tokens_per_layer"
    " base.per_layer_model_projection base.per_layer_projection_norm root.model.embed_vision root.model.embed_audio"
    " block.altup block.laurel block.per_layer_input_gate block.per_layer_projection block.post_per_layer_input_norm",
    notes={
        "layer_input": "all streams; the first is the active one, the others start from projections of the embedding",
        "layer_output": "all streams, corrected; the per-layer input is added to all but the active one",
        "attention_norm_output": "of what is predicted for the active stream",
        "layer_mid": "of the active stream alone: prediction, attention and low-rank bypass, over the square root of 2",
    },
    breaks={
        "chain attention_norm_output": "the norm reads a prediction of the active stream, made from all of them",
        "chain mlp_neurons": "in some blocks only the largest gates pass, before the activation",
    },
    tiny={
        "vision_config": SMALL_TOWER | {"vocab_offset": 300, "vocab_size": 8, "rms_norm_eps": 1e-06},
        "*.audio_config.vocab_offset": 308,
        "*.audio_config.vocab_size": 8,
        "*.layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
        "*.num_kv_shared_layers": 2,
        "*.head_dim": 8,
    },
)
