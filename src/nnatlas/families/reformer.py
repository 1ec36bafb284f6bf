"""Reformer: two streams, of which the attention reads one and adds to the other and the MLP the other way round, over sorted chunks."""

from nnatlas.families._shapes import LLAMA, NO_ACT_MODULE, NO_ROTARY, absent

_CHUNKS = "attention runs over chunks of neighbouring or of sorted positions, with no pattern over all keys"
_TWO = "the head reads the norm of both streams side by side; layer_output is one of them"
_REVERSIBLE = (
    "the blocks run inside a reversible function, which recomputes them backwards without the forward's own tensors"
)
_KEYS = (
    "self_attn.key > out : batch seq (num_kv_heads qk_head_dim)",
    absent("the keys are the queries, each brought to length 1"),
)

FAMILY = LLAMA.but(
    **NO_ROTARY
    | dict(
        identity="layer_input + mlp_output = layer_output",
        readout=absent(_TWO),
        base="reformer",
        layers="base.encoder.layers",
        embed_tokens="base.embeddings.word_embeddings",
        norm="base.encoder.layer_norm",
        lm_head="lm_head.decoder",
        self_attn="attention.self_attention",
        attention_norm="attention.layer_norm",
        mlp="feed_forward",
        mlp_norm="feed_forward.layer_norm",
        q_proj=("query", "query_key"),
        k_proj=("key", absent("queries and keys are one projection")),
        v_proj="value",
        o_proj="block.attention.output.dense",
        up_proj="dense.dense",
        act_fn=("dense.act_fn", absent(NO_ACT_MODULE)),
        down_proj="output.dense",
        layer_input="block > in.hidden_states",
        layer_output="block > out.hidden_states",
        mlp_input="up_proj > in",
        mlp_output="down_proj > out",
        attention_queries=(
            "self_attn.query > out : batch seq (num_heads qk_head_dim)",
            "self_attn.query_key > out : batch seq (num_heads qk_head_dim)",
        ),
        attention_keys=_KEYS,
        unrotated_keys=_KEYS,
        attention_values="self_attn.value > out : batch seq (num_kv_heads head_dim)",
        attention_scores=absent(_CHUNKS),
        attention_probabilities=absent(_CHUNKS),
        attention_head_outputs="same as attention_premix",
        attention_output="o_proj > out",
        final_norm_output="norm > out as batch seq both_streams",
    ),
    passes="base.embeddings root.lm_head",
    notes={
        "layer_input": "the stream that the attention reads and the MLP adds to",
        "layer_mid": "the other stream, which the attention has added to and the MLP reads",
        "layer_output": "the stream that the next attention reads; the other one is layer_mid",
    },
    breaks={
        "causal earlier positions": "which positions share a chunk depends on how all of them, later ones too, are sorted",
        "gradient": _REVERSIBLE,
        "batch": "transformers 5.24 cannot generate with it, and padding moves its chunks",
    },
    tiny={
        "is_decoder": True,
        "axial_pos_embds_dim": [16, 48],
        "axial_pos_shape": [16, 16],
        "attention_head_size": 16,
        "local_attn_chunk_length": 4,
        "lsh_attn_chunk_length": 4,
        "num_buckets": 2,
        "attn_layers": ["local", "lsh", "local", "lsh"],
        "hash_seed": 0,
    },
)
