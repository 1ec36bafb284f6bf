"""GIT: BERT's blocks made causal, which norm each sum of stream and sublayer; text alone runs without an image."""

from nnatlas.families._shapes import LLAMA, NO_ROTARY, NORMED_SUMS

FAMILY = LLAMA.but(
    **NORMED_SUMS
    | NO_ROTARY
    | dict(
        base="git",
        layers="base.encoder.layer",
        embed_tokens="base.embeddings.word_embeddings",
        lm_head="output",
        self_attn="attention.self",
        o_proj="block.attention.output.dense",
        q_proj="query",
        k_proj="key",
        v_proj="value",
        mlp="block",
        up_proj="intermediate.dense",
        act_fn="intermediate.intermediate_act_fn",
        down_proj="output.dense",
        token_embeddings="embed_tokens > out copied",
        layer_mid="block.attention > out",
        mlp_input="up_proj > in copied",
        attention_output="o_proj > out",
        mlp_output="down_proj > out",
        attention_queries="self_attn ~ matmul[0] > in[0]",
        attention_keys="self_attn ~ matmul[0] > in[1] : batch num_kv_heads qk_head_dim seq",
        attention_values="self_attn ~ matmul[1] > in[1]",
        attention_scores="self_attn ~ softmax[0] > in",
        attention_probabilities="self_attn ~ dropout[0] > out",
        attention_head_outputs="self_attn ~ matmul[1] > out : batch num_heads seq head_dim",
    ),
    readout="lm_head",
    passes="base.embeddings base.img_temporal_embedding block.attention block.output.LayerNorm",
)
