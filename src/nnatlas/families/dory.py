"""Dory: a stream of unit length that each sublayer moves part of the way to what it writes, and middle blocks that run in a loop."""

from nnatlas.families._shapes import LLAMA, PASS_BY_PASS, absent

_MOVED = "each sublayer moves the normed stream a learned part of the way to what it writes"

FAMILY = LLAMA.but(
    identity=absent(_MOVED),
    looped=True,
    mlp_norm="pre_feedforward_layernorm",
    attention_post_norm="post_attention_layernorm",
    mlp_post_norm="post_feedforward_layernorm",
    attention_output="attention_post_norm > out",
    mlp_output="mlp_post_norm > out",
    layer_mid="mlp_norm > in",
    mlp_input="mlp > in copied",
    final_norm_output="norm > out after layers",
    unrotated_queries="self_attn calls apply_rotary_pos_emb > in.q",
    unrotated_keys="self_attn calls apply_rotary_pos_emb > in.k",
    attention_gate="self_attn.gate_proj > out : batch seq (num_heads head_dim) as batch seq num_heads head_dim",
    passes="block.lambda_1 block.lambda_2",
    breaks={
        "chain unrotated_queries": "queries are scaled by a learned factor after the rotary",
        "chain block.layer_input": "the norm stands between the passes of the loop, and before and after it",
        "chain mlp_neurons": "gate and up projection are scaled by learned factors, and their product is normed",
    },
    notes=PASS_BY_PASS
    | {
        "attention_output": "where the normed stream is moved to, by a learned part of the way for each channel",
        "mlp_output": "where the normed stream is moved to, by a learned part of the way for each channel",
        "attention_gate": "before a learned scale for each channel and its sigmoid",
    },
    tiny={"n_input_layers": 1, "n_recurrent_layers": 2, "n_output_layers": 1, "initializer_range": 1.0},
)
