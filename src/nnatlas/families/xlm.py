"""XLM: the parts of a block lie in four lists beside each other, and each sum of stream and sublayer is normed."""

from nnatlas.families._shapes import LLAMA, NO_ROTARY, NORMED_SUMS, WRITTEN_OUT, absent

FAMILY = LLAMA.but(
    **NORMED_SUMS
    | NO_ROTARY
    | WRITTEN_OUT
    | dict(
        base="transformer",
        layers="base.attentions",
        embed_tokens="base.embeddings",
        lm_head="pred_layer.proj",
        self_attn="block",
        q_proj="q_lin",
        k_proj="k_lin",
        v_proj="v_lin",
        o_proj="out_lin",
        mlp="root.transformer.ffns.#",
        up_proj="lin1",
        act_fn=absent("all blocks share one activation module, or call a function"),
        mlp_activation="same as mlp_neurons",
        layer_input="block > in shared",
        down_proj="lin2",
        layer_mid="root.transformer.layer_norm1.# > out",
        layer_output="root.transformer.layer_norm2.# > out copied",
        attention_output="o_proj > out",
    ),
    looped=True,
    readout="lm_head",
    passes="base.position_embeddings base.lang_embeddings base.layer_norm_emb base.layer_norm1 base.layer_norm2",
    notes={"attention_queries": "already scaled"},
    breaks={
        "batch padding": "its causal mask leaves out padding at the end only",
        "batch cache": "generation appends a token to be filled in, which the full forward does not have",
    },
    tiny={"causal": True},
)
