"""Inkling: no rotary but learned relative positions, and short convolutions on keys, values and on what each sublayer writes."""

from nnatlas.families._shapes import LLAMA, kind

FAMILY = LLAMA.but(
    attention_output="block.attn_sconv > out",
    mlp_output="block.mlp_sconv > out",
    logits="root > out.logits as batch seq kept_vocab",
    next_token_probs="next_token_probs(logits) as batch kept_vocab",
    readout="norm | / logits_mup_width_multiplier | lm_head | maybe keep unpadded_vocab_size",
    kinds=(
        kind(
            "sparse",
            "has mlp.experts",
            router_logits="router ~ linear[0] > out : (batch seq) (num_experts | num_shared) -> 0",
        ),
    ),
    sizes={"num_shared": "config.n_shared_experts"},
    notes={
        "attention_output": "after a short convolution over the sequence",
        "mlp_output": "after a short convolution over the sequence",
    },
    breaks={
        "batch": "full blocks scale by the position in the padded row, in transformers itself",
        "chain attention_scores": "a relative position bias that depends on the tokens is added to them",
        "chain self_attn.attention_output": "a short convolution over the sequence, attn_sconv, comes between",
        "chain mlp.mlp_output": "a short convolution over the sequence, mlp_sconv, comes between",
    },
    passes="block.attn_sconv block.mlp_sconv",
    tiny={"log_scaling_n_floor": 4, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]},
)
