"""GIT: BERT's blocks made causal, which norm each sum of stream and sublayer; text alone runs without an image."""

from nnatlas.families._shapes import LLAMA, NO_ROTARY, NORMED_SUMS, WRITTEN_OUT

FAMILY = LLAMA.but(
    **NORMED_SUMS
    | NO_ROTARY
    | WRITTEN_OUT
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
    ),
    readout="lm_head",
    passes="base.embeddings base.img_temporal_embedding block.attention block.output.LayerNorm",
)
