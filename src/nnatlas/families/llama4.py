"""Llama 4: full blocks without a rotary among chunked ones, heads normed after the rotary, and experts beside a shared one."""

from nnatlas.families._shapes import LLAMA, absent, kind

_FIRST = "the first position of a chunk attends to itself alone, whatever its query"

FAMILY = LLAMA.but(
    covers="llama4 llama4_text",
    mlp="feed_forward",
    q_norm=("qk_norm", absent("no query norm")),
    k_norm=("qk_norm", absent("no key norm")),
    unrotated_queries="q_proj > out : batch seq (num_heads qk_head_dim)",
    unrotated_keys="k_proj > out : batch seq (num_kv_heads qk_head_dim)",
    kinds=(
        kind(
            "sparse",
            "has feed_forward.experts",
            expert_indices="router ~ topk[0] > out[1] : (batch seq) top_k",
            expert_weights="router ~ topk[0] > out[0] : (batch seq) top_k through sigmoid",
            expert_neurons="batched_expert_neurons(expert_indices)",
            routed_output="mlp ~ sum[0] > out : (batch seq) hidden_size",
            shared_expert_output="shared_experts > out : (batch seq) hidden_size copied",
            mlp_output="mlp > out : (batch seq) hidden_size",
        ),
    ),
    notes={
        "expert_weights": "they weigh what the expert reads, not what it writes",
        "unrotated_queries": "before any norm: here the norm comes after the rotary",
        "unrotated_keys": "before any norm: here the norm comes after the rotary",
    },
    breaks={
        "batch": "chunks are counted from the start of the padded row, in transformers itself",
        "causal unrotated_queries": _FIRST,
        "causal attention_queries": _FIRST,
        "causal attention_scores": _FIRST,
        "chain expert_neurons": "the routed tokens are weighed before the experts, not after them",
        "chain unrotated_queries": "queries are normed after the rotary, or scaled by position where there is none",
        "chain unrotated_keys": "keys are normed after the rotary",
    },
    tiny={"*.moe_layers": [1, 3]},
)
