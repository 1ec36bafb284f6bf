"""OLMo 2: norms sit on what attention and MLP write, none before them; queries and keys are normed across all heads at once."""

from nnatlas.families._shapes import POST_NORM

FAMILY = POST_NORM.but(
    unrotated_queries="q_norm > out : batch seq (num_heads qk_head_dim)",
    unrotated_keys="k_norm > out : batch seq (num_kv_heads qk_head_dim)",
)
