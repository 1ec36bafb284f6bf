"""Qwen3-Next and Qwen 3.5: gated delta rule in three blocks of four, gated attention in the fourth."""

from nnatlas.families._mixers import CARRIED, DELTA, DELTA_NOTES, NO_ATTENTION
from nnatlas.families._shapes import LLAMA, absent, kind

FAMILY = LLAMA.but(
    covers="qwen3_next qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text minicpm_ocr minicpmv4_6 minicpmv4_7",
    attention_gate="q_proj > out : batch seq (num_heads 2 head_dim) -> 1 as batch seq num_heads head_dim",
    kinds=(
        kind(
            "recurrent", "has linear_attn", self_attn=absent(NO_ATTENTION), linear_attn={"path": "linear_attn", **DELTA}
        ),
        kind(
            "one projection for all",
            "has linear_attn.in_proj_qkvz",
            linear_attn={"conv_output": "linear_attn ~ split[2] > in[0] as batch seq conv_channels"},
        ),
        kind(
            "gated shared expert",
            "has mlp.shared_expert_gate",
            shared_expert_output="beyond(routed_output, mlp_output)",
        ),
    ),
    passes="root.model.merger",
    breaks=CARRIED,
    notes=DELTA_NOTES
    | {"self_attn.attention_gate": "before its sigmoid; the second half of each head's query projection"},
)
