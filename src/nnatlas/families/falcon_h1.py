"""Falcon-H1: attention and a Mamba-2 mixer side by side in every block, both added to the stream, constants on every branch."""

from nnatlas.families._mixers import CARRIED, MAMBA2, MAMBA_NOTES, PADDED
from nnatlas.families._shapes import LLAMA, kind

_PARTS = "linear_attn.in_proj > out : batch seq (channels | conv_channels | num_heads)"

FAMILY = LLAMA.but(
    norm="base.final_layernorm",
    mlp="feed_forward",
    mlp_norm="pre_ff_layernorm",
    readout="norm | lm_head | * lm_head_multiplier",
    identity="layer_input + self_attn.attention_output + linear_attn.attention_output + mlp_output = layer_output",
    mlp_output="down_proj > out * mlp.down_multiplier",
    attention_output="self_attn > out * block.attn_out_multiplier",
    unrotated_keys="k_proj > out : batch seq (num_kv_heads qk_head_dim) * self_attn.key_multiplier",
    linear_attn={
        "path": "mamba",
        **MAMBA2,
        "time_steps": f"{_PARTS} -> 2 * config.ssm_multipliers.4 as batch seq num_heads",
        "attention_gate": f"{_PARTS} -> 0 * config.ssm_multipliers.0 as batch seq channels",
        "attention_output": "linear_attn > out * block.ssm_out_multiplier",
    },
    kinds=(
        kind(
            "gated in the scan",
            "not config.mamba_rms_norm",
            linear_attn={
                "attention_head_outputs": "scanned(state_input, attention_values, attention_queries, attention_keys, betas)"
                " as batch seq num_heads value_head_dim",
            },
        ),
    ),
    breaks=CARRIED | PADDED,
    notes=MAMBA_NOTES
    | {
        "attention_norm_output": "the mixer multiplies it by ssm_in_multiplier, the attention by attention_in_multiplier",
        "attention_output": "attention and mixer each add their own: self_attn.attention_output, linear_attn.attention_output",
    },
    tiny={"mamba_d_head": 16},
)
