"""CPM-Ant: a learned prompt in front of every sequence, a relative position bias, and residuals added inside the sublayers."""

from nnatlas.families._shapes import LLAMA, NO_ROTARY, absent

_ALL = "as batch prompt_and_seq hidden_size"
_HEADS = "as batch num_heads prompt_and_seq"
_WIDE = "as batch prompt_and_seq intermediate_size"
_PATTERN = "as batch num_heads prompt_and_query prompt_and_key"
_BOTH_WAYS = "without a target the whole sequence is context, in which every position sees all others"
_PROMPT = "the learned prompt stands in front, and is cut off again before the head"

FAMILY = LLAMA.but(
    **NO_ROTARY
    | dict(
        base="cpmant",
        layers="base.encoder.layers",
        embed_tokens="base.input_embedding",
        norm="base.encoder.output_layernorm",
        self_attn="self_att.self_attention",
        attention_norm="self_att.layernorm_before_attention",
        mlp="ffn.ffn",
        mlp_norm="ffn.layernorm_before_ffn",
        q_proj="project_q",
        k_proj="project_k",
        v_proj="project_v",
        o_proj="attention_out",
        up_proj="w_in.w_1",
        act_fn="w_in.act",
        down_proj="w_out",
        token_embeddings=f"embed_tokens > out {_ALL}",
        final_norm_output=f"norm > out {_ALL}",
        layer_input=f"block > in {_ALL}",
        attention_norm_output=f"attention_norm > out {_ALL}",
        layer_mid=f"mlp_norm > in {_ALL} shared",
        mlp_norm_output=f"mlp_norm > out {_ALL}",
        mlp_input=f"mlp > in {_ALL}",
        layer_output=f"block > out[0] {_ALL}",
        attention_queries=f"self_attn ~ matmul[0] > in[0] {_HEADS} qk_head_dim",
        attention_keys="self_attn ~ matmul[0] > in[1] : batch num_heads qk_head_dim prompt_and_seq"
        f" {_HEADS} qk_head_dim",
        attention_values=f"self_attn ~ matmul[1] > in[1] {_HEADS} head_dim",
        attention_scores=f"self_attn ~ softmax[0] > in {_PATTERN}",
        attention_probabilities=f"self_attn ~ matmul[1] > in[0] {_PATTERN}",
        attention_head_outputs="self_attn ~ matmul[1] > out : batch num_heads prompt_and_seq head_dim"
        " as batch prompt_and_seq num_heads head_dim",
        attention_premix="o_proj > in : batch prompt_and_seq (num_heads head_dim)"
        " as batch prompt_and_seq num_heads head_dim",
        attention_output=f"self_attn > out[0] {_ALL}",
        attention_head_contributions="head_contributions(attention_premix) as batch prompt_and_seq num_heads hidden_size",
        attention_mask=absent("the model takes no mask: a token of id 0 is its padding"),
        mlp_activation=f"act_fn > out {_WIDE}",
        mlp_neurons=f"down_proj > in {_WIDE}",
        mlp_output=f"mlp > out {_ALL}",
    ),
    passes="base.segment_embedding base.position_bias",
    notes={"layer_input": _PROMPT, "layer_output": _PROMPT, "token_embeddings": "the learned prompt's in front"},
    sizes={
        "num_heads": "config.num_attention_heads",
        "num_kv_heads": "config.num_attention_heads",
        "qk_head_dim": "config.dim_head",
        "head_dim": "config.dim_head",
    },
    breaks={
        "causal earlier positions": _BOTH_WAYS,
        "chain attention_probabilities": _BOTH_WAYS,
        "head": _PROMPT,
        "chain token_embeddings": "the prompt's own ids stand in front",
        "chain lm_head_output": _PROMPT,
        "batch padding": "the model takes no mask: a token of id 0 is its padding",
        "batch cache": "a later token changes all earlier ones, whose keys and values the cache keeps as they were",
    },
    tiny={"prompt_length": 4},
)
