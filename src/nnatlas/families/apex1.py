"""APEX-1: local grouped-query attention and, every few blocks, latent attention; experts in every second block; extra heads."""

from nnatlas.families._shapes import LLAMA, absent, kind

_PIECES = "queries and keys are joined from a part without a rotary and a rotary part of its own"

FAMILY = LLAMA.but(
    layers="base.blocks",
    embed_tokens="base.embedding",
    norm="base.final_norm",
    attention_norm="norm1",
    mlp_norm="norm2",
    self_attn="attn",
    mlp="ffn",
    q_proj=("W_Q", absent(_PIECES)),
    k_proj=("W_K", absent(_PIECES)),
    v_proj=("W_V", absent("values are expanded from the latent")),
    o_proj="W_O",
    up_proj=("W_up", absent("each expert has its own")),
    down_proj=("W_down", absent("each expert has its own")),
    experts=("routed_experts", absent("a dense MLP: it has no router and no experts")),
    attention_latent=(
        "self_attn.W_DKV > out as batch seq latent",
        absent("keys and values are projected directly, not expanded from a latent"),
    ),
    defined_in="nnatlas.apex.modeling",
    passes="root.multi_token_head block.skip_gate",
    tiny={"skip_gate_threshold": 5e-4},
    breaks={
        "causal mlp.mlp_gate": "the gate is a yes or no: only an edit across the threshold changes anything",
        "gradient mlp.mlp_gate": "the gate is a yes or no; outside training no gradient goes through it",
    },
    multi_token_logits="stacked(root > out.spec_logits) as batch heads seq vocab_size",
    readout="norm | lm_head | * logit_scale",
    kinds=(
        kind(
            "latent",
            "has attn.W_DKV",
            unrotated_queries=absent(_PIECES),
            unrotated_keys=absent(_PIECES),
        ),
        kind(
            "sparse",
            "has ffn.routed_experts",
            router_logits="router ~ linear[0] > out : (batch seq) num_experts",
            expert_weights="router > out[1] : (batch seq) top_k",
            expert_indices="router > out[2] : (batch seq) top_k",
            mlp_activation=absent("a mixture of experts: each expert has its own neurons, see expert_neurons(e)"),
            mlp_neurons=absent("a mixture of experts: each expert has its own neurons, see expert_neurons(e)"),
            expert_neurons="expert_neurons(router)",
            routed_output="experts > out : (batch seq) hidden_size",
            shared_expert_output="shared_experts > out",
        ),
        kind(
            "gated",
            "has skip_gate.gate_mlp",
            mlp_output="block.skip_gate > out",
            mlp_gate="block.skip_gate.gate_mlp > out as batch seq one",
        ),
    ),
    notes={"mlp_gate": "tokens whose sigmoid is below the config's threshold pass the block without its MLP"},
)
