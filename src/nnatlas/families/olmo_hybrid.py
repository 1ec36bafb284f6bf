"""OLMo hybrid: pre-norm blocks with the gated delta rule, and post-norm blocks with attention between them."""

from nnatlas.families._mixers import CARRIED, DELTA, DELTA_NOTES, NO_ATTENTION
from nnatlas.families._shapes import POST_NORM, absent, kind

FAMILY = POST_NORM.but(
    unrotated_queries="q_norm > out : batch seq (num_heads qk_head_dim)",
    unrotated_keys="k_norm > out : batch seq (num_kv_heads qk_head_dim)",
    kinds=(
        kind(
            "recurrent",
            "has linear_attn",
            self_attn=absent(NO_ATTENTION),
            linear_attn={"path": "linear_attn", **DELTA},
            attention_norm="input_layernorm",
            mlp_norm="post_attention_layernorm",
            attention_post_norm=absent("nothing norms what the mixer writes"),
            mlp_post_norm=absent("nothing norms what the MLP writes"),
            attention_norm_output="attention_norm > out",
            mlp_norm_output="mlp_norm > out",
            layer_mid="mlp_norm > in shared",
            mlp_input="mlp > in",
            mlp_output="mlp > out",
        ),
    ),
    breaks=CARRIED,
    notes=DELTA_NOTES
    | {"linear_attn.betas": "a sigmoid, doubled where the config allows negative eigenvalues, so up to 2"},
)
