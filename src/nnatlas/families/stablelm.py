"""StableLM: LayerNorms, a partial rotary, in some sizes normed heads or attention and MLP in parallel."""

from nnatlas.families._shapes import LLAMA, PARALLEL, absent, kind

FAMILY = LLAMA.but(
    q_norm=("q_layernorm", absent("no query norm")),
    k_norm=("k_layernorm", absent("no key norm")),
    mlp_norm=("post_attention_layernorm", "input_layernorm"),
    unrotated_queries=("q_norm > out", "q_proj > out : batch seq (num_heads qk_head_dim)"),
    unrotated_keys=("k_norm > out", "k_proj > out : batch seq (num_kv_heads qk_head_dim)"),
    kinds=(kind("parallel", "config.use_parallel_residual", layer_mid=absent(PARALLEL)),),
)
