"""JetMoE: the attention is a mixture too, each expert with its own queries and output projection over shared keys and values."""

from nnatlas.families._shapes import AS_CALLED, LLAMA, absent, kind

_PER_EXPERT = "every attention expert has an output projection of its own"

FAMILY = LLAMA.but(
    **AS_CALLED,
    self_attn="self_attention",
    attention_keys="attention > key as batch num_heads seq qk_head_dim",
    attention_values="attention > value as batch num_heads seq head_dim",
    o_proj=absent(_PER_EXPERT),
    attention_premix="same as attention_head_outputs",
    attention_head_contributions=absent(_PER_EXPERT),
    kinds=(
        kind(
            "sparse",
            "has mlp.router",
            experts="input_linear",
            router_logits="router ~ linear[0] > out : (batch seq) num_experts",
            expert_indices="router ~ topk[0] > out[1] : (batch seq) top_k",
            expert_weights="router ~ softmax[0] > out : (batch seq) top_k",
            expert_neurons="sorted_expert_neurons(router)",
            routed_output="same as mlp_output",
        ),
    ),
    breaks={"chain unrotated_keys": "the keys that enter attention are laid out once for each chosen expert"},
    notes={
        "attention_keys": "repeated for each chosen expert, whose queries follow each other",
        "attention_values": "repeated for each chosen expert",
        "routed_output": "with the bias that the mixture adds at its end",
    },
)
