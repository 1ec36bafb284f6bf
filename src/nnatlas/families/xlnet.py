"""XLNet: positions before rows in every tensor, relative positions inside the scores, and each sum of stream and sublayer normed."""

from nnatlas.families._shapes import LLAMA, NORMED_SUMS, absent

_PARAMETERS = "its weights are parameters of the attention itself, not modules"
_BOTH_WAYS = "without a permutation mask every position sees all others"

FAMILY = LLAMA.but(
    **NORMED_SUMS
    | dict(
        base="transformer",
        layers="base.layer",
        embed_tokens="base.word_embedding",
        lm_head="lm_loss",
        self_attn="rel_attn",
        o_proj=absent(_PARAMETERS),
        mlp="ff",
        up_proj="layer_1",
        down_proj="layer_2",
        act_fn="activation_function",
        token_embeddings="embed_tokens > out : seq batch hidden_size",
        layer_input="block > in : seq batch hidden_size",
        layer_mid="mlp > in : seq batch hidden_size shared",
        mlp_input="up_proj > in : seq batch hidden_size copied",
        layer_output="block > out[0] : seq batch hidden_size",
        unrotated_queries="same as attention_queries",
        unrotated_keys="same as attention_keys",
        attention_queries="self_attn ~ einsum[0] > out : seq batch num_heads qk_head_dim",
        attention_keys="self_attn ~ einsum[1] > out : seq batch num_kv_heads qk_head_dim",
        attention_values="self_attn ~ einsum[2] > out : seq batch num_kv_heads head_dim",
        attention_scores="self_attn ~ softmax[0] > in",
        attention_probabilities="self_attn ~ dropout[0] > out",
        attention_head_outputs="self_attn calls post_attention > in.attn_vec : seq batch num_heads head_dim",
        attention_premix="same as attention_head_outputs",
        attention_head_contributions=absent(_PARAMETERS),
        attention_output="self_attn ~ dropout[1] > out : seq batch hidden_size",
        mlp_activation="act_fn > out : seq batch intermediate_size",
        mlp_neurons="down_proj > in : seq batch intermediate_size",
        mlp_output="down_proj > out : seq batch hidden_size",
    ),
    readout="lm_head",
    passes="base.mask_emb",
    sizes={"qk_head_dim": "config.d_head", "head_dim": "config.d_head", "num_heads": "config.n_head"},
    notes={"attention_queries": "before a learned bias for content and one for positions"},
    breaks={
        "causal earlier positions": _BOTH_WAYS,
        "chain attention_probabilities": _BOTH_WAYS,
        "chain attention_scores": "queries get one learned bias for content and one for relative positions, each a part of its own",
        "batch cache": "generation appends a token to be predicted, which the full forward does not have",
    },
    tiny={"d_head": 16},
)
