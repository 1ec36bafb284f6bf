"""GPT-NeoX (Pythia): two norms, attention and MLP in parallel or in turn, and queries, keys and values fused per head."""

from nnatlas.families._shapes import LLAMA, PARALLEL, absent, kind

_FUSED = "self_attn.query_key_value > out : batch seq (num_heads 3 qk_head_dim)"

FAMILY = LLAMA.but(
    base="gpt_neox",
    embed_tokens="base.embed_in",
    norm="base.final_layer_norm",
    lm_head=("embed_out", "lm_head"),
    self_attn="attention",
    o_proj="dense",
    up_proj="dense_h_to_4h",
    down_proj="dense_4h_to_h",
    act_fn="act",
    unrotated_queries=f"{_FUSED} -> 0",
    unrotated_keys="self_attn.query_key_value > out : batch seq (num_kv_heads 3 qk_head_dim) -> 1",
    kinds=(kind("parallel", "config.use_parallel_residual", layer_mid=absent(PARALLEL)),),
)
