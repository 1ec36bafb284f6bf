"""What the two Inkling 2 rows share: a stream that is added up in stretches of blocks, of which later sublayers read a mixture.

What a block is called with is the sum of its own stretch; the sums of the earlier stretches are handed to it beside.  Each
sublayer reads an attention over all of them, with a learned query (`attention_input`, `mlp_input`).
"""

from __future__ import annotations

from typing import Any

from nnatlas.families._shapes import NO_ROTARY, kind

_MIXED = "it reads a learned mixture of this sum and those of earlier stretches"
_READ_ALONE = "the head reads a learned mixture of the last sum and those of earlier stretches; the readout reads one sum alone"

INKLING2: dict[str, Any] = NO_ROTARY | dict(
    identity="layer_input + attention_output + mlp_output = layer_output",
    attention_norm=("input_layernorm", "q_input_layernorm"),
    o_proj="o_proj.linear",
    layer_input="block > in shared",
    layer_mid="block.mlp_input > in[1] shared",
    attention_output="block.post_attention_convolution > out",
    mlp_output="block.post_mlp_convolution > out",
    attention_gate="self_attn.o_proj.gate_proj > out : batch seq (num_heads head_dim) through sigmoid"
    " as batch seq num_heads head_dim",
    attention_scores="attention > scores as batch num_heads query key_and_sink",
    logits="root > out.logits as batch seq kept_vocab",
    lm_head_output="lm_head > out as batch seq kept_vocab",
    next_token_probs="next_token_probs(logits) as batch kept_vocab",
    readout="norm | lm_head | cap final_logit_softcapping",
    passes="block.attention_input block.mlp_input block.k_input_layernorm block.v_input_layernorm"
    " block.post_attention_convolution block.post_mlp_convolution block.*_message_gate base.final_input base.message_input",
)

INKLING2_KINDS = (
    kind(
        "first of a stretch",
        "block.is_block_boundary",
        identity="attention_output + mlp_output = layer_output",
    ),
)

INKLING2_NOTES = {
    "layer_input": "the sum of this stretch of blocks; earlier sums are handed to the block beside it",
    "layer_mid": "the sum of this stretch; in its first block it starts anew with the attention's part",
    "layer_output": "the sum of this stretch",
    "attention_norm_output": "of a learned mixture of all sums so far; in full blocks the queries' one of three",
    "mlp_norm_output": "of a learned mixture of all sums so far",
    "attention_output": "after a short convolution over the sequence",
    "mlp_output": "after a short convolution over the sequence",
    "attention_scores": "with the sink's score as one more column at the end",
    "attention_probabilities": "rows sum to less than 1: the sink takes the rest",
}

INKLING2_BREAKS = {
    "head": _READ_ALONE,
    "chain final_norm_output": _READ_ALONE,
    "chain lm_head_output": _READ_ALONE,
    "chain attention_norm_output": _MIXED,
    "chain mlp_norm_output": _MIXED,
    "chain attention_scores": "a relative position bias that depends on the tokens is added to them",
    "chain self_attn.attention_output": "a short convolution over the sequence comes between",
    "chain mlp.mlp_output": "a short convolution over the sequence comes between",
}
