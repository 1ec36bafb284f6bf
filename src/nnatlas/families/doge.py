"""Doge: each sum weighs the stream by a learned vector, and the mask grows by a learned function of the values."""

from nnatlas.families._shapes import LLAMA, absent, kind

_NEURONS = "the experts are single neurons, picked for each token from the product of two sets of keys"

FAMILY = LLAMA.but(
    kinds=(
        kind(
            "sparse",
            "config.is_moe",
            router_logits="mlp.router_gate > out as batch seq keys_of_both_sets",
            expert_indices="mlp ~ gather[0] > out : (batch seq) top_k",
            expert_weights="mlp ~ mul[1] > in[1] : (batch seq) top_k",
            expert_neurons=absent(_NEURONS),
            shared_expert_output="down_proj > out",
            routed_output="beyond(shared_expert_output, mlp_output)",
            mlp_activation=absent("one activation module is called for the experts and for the shared MLP"),
        ),
    ),
    identity=(
        "layer_input * block.input_residual * block.post_attention_residual"
        " + attention_output * block.post_attention_residual + mlp_output = layer_output"
    ),
    passes="block.input_residual block.post_attention_residual",
    breaks={
        "chain mlp.mlp_output": "in a mixture, the routed neurons are added to the shared MLP's output",
        "causal": "a mixture's router mixes the scores of different tokens, in transformers itself",
        "batch": "a mixture's router mixes the scores of different tokens, in transformers itself",
        "chain attention_scores": "the mask holds a learned function of the values",
    },
)
