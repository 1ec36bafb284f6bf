"""GPT-NeoX Japanese: sequential blocks, attention written out, and a bias that the last attention hands to its block to add."""

from nnatlas.families._shapes import LLAMA, kind

FAMILY = LLAMA.but(
    base="gpt_neox_japanese",
    embed_tokens="base.embed_in",
    norm="base.final_layer_norm",
    lm_head="embed_out",
    self_attn="attention",
    o_proj="dense",
    up_proj="dense_h_to_4h",
    down_proj="dense_4h_to_h",
    unrotated_queries="self_attn.query_key_value > out : batch seq (num_heads 3 qk_head_dim) -> 0",
    unrotated_keys="self_attn.query_key_value > out : batch seq (num_kv_heads 3 qk_head_dim) -> 1",
    attention_queries="self_attn ~ baddbmm[0] > in[1] : (batch num_heads) seq qk_head_dim",
    attention_keys="self_attn ~ baddbmm[0] > in[2] : (batch num_kv_heads) qk_head_dim seq",
    attention_values="self_attn ~ matmul[0] > in[1]",
    attention_scores="self_attn ~ softmax[0] > in",
    attention_probabilities="self_attn ~ dropout[0] > out",
    attention_head_outputs="self_attn ~ matmul[0] > out : batch num_heads seq head_dim",
    kinds=(kind("last", "has attention.dense_bias", attention_output="block ~ dropout[1] > out"),),
    breaks={
        "chain self_attn.attention_output": "the last block adds a bias that its attention hands out beside its output"
    },
)
