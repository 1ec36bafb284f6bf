"""Step 3: one sigmoid gate per attention head, partial rotaries that differ by block, and scaled experts with a shared one."""

from nnatlas.families._shapes import LLAMA, kind

FAMILY = LLAMA.but(
    attention_gate="self_attn.g_proj > out through sigmoid as batch seq num_heads",
    kinds=(
        kind(
            "sparse",
            "has mlp.experts",
            routed_output="experts > out : (batch seq) hidden_size * mlp.routed_scaling_factor",
        ),
    ),
)
