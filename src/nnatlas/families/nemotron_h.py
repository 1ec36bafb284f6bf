"""Nemotron-H: one norm and one mixer a block, which is a Mamba-2 mixer, an attention, an MLP or a mixture."""

from typing import Any

from nnatlas.families._mixers import CARRIED, CLAMPED, MAMBA2, MAMBA_NOTES, NO_ATTENTION, PADDED, SINGLE
from nnatlas.families._shapes import absent, kind

_NO_MIXER = "this block is an MLP: it mixes no tokens"
_MLP: dict[str, Any] = dict(
    self_attn=absent(_NO_MIXER),
    linear_attn=absent(_NO_MIXER),
    attention_norm=absent(_NO_MIXER),
    attention_norm_output=absent(_NO_MIXER),
    mlp="mixer",
    mlp_norm="norm",
    mlp_norm_output="mlp_norm > out",
    mlp_input="mlp > in",
)

FAMILY = SINGLE.but(
    covers="nemotron_h nemotron_h_omni",
    base=("language_model.model", "model"),
    lm_head=("language_model.lm_head", "lm_head"),
    self_attn="mixer",
    unrotated_queries="same as attention_queries",
    unrotated_keys="same as attention_keys",
    kinds=(
        kind("attention", "has mixer.q_proj"),
        kind("recurrent", "has mixer.conv1d", self_attn=absent(NO_ATTENTION), linear_attn={"path": "mixer", **MAMBA2}),
        kind(
            "dense",
            "has mixer.up_proj and lacks mixer.q_proj",
            identity="layer_input + mlp_output = layer_output",
            **_MLP,
        ),
        kind("mixture", "has mixer.experts", identity="layer_input + mlp_output = layer_output", **_MLP),
        kind("sparse", "has mixer.experts", routed_output="mlp.fc2_latent_proj > out : (batch seq) hidden_size"),
    ),
    breaks=CARRIED | PADDED | CLAMPED,
    notes=MAMBA_NOTES
    | {
        "unrotated_queries": "no rotary is applied",
        "unrotated_keys": "no rotary is applied",
    },
)
