"""nanochat: norms without weights, one more on the embeddings, heads normed after the rotary, and capped logits."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    up_proj="fc1",
    down_proj="fc2",
    final_norm_output="norm > out after layers",
    readout="norm | lm_head | maybe cap final_logit_softcapping",
    unrotated_queries="q_proj > out : batch seq (num_heads qk_head_dim)",
    unrotated_keys="k_proj > out : batch seq (num_kv_heads qk_head_dim)",
    notes={
        "layer_input": "the first block's is the normed embedding",
        "unrotated_queries": "before any norm: here the norm comes after the rotary",
        "unrotated_keys": "before any norm: here the norm comes after the rotary",
    },
    breaks={
        "chain unrotated_queries": "queries are normed after the rotary",
        "chain unrotated_keys": "keys are normed after the rotary",
    },
)
