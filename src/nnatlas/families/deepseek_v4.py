"""DeepSeek 4: four residual streams, one key and value for all heads, compressed far context, sinks, and experts chosen by token id."""

from nnatlas.families._shapes import LLAMA, absent
from nnatlas.families._streams import HYPER, HYPER_BREAKS, HYPER_NOTES

_WINDOWS = "compressed windows stand behind the keys, and there are more of them once the whole prompt is known"

FAMILY = LLAMA.but(
    **HYPER,
    o_proj="o_b_proj",
    q_norm="q_b_norm",
    k_norm="kv_norm",
    attention_latent=absent("keys are one projected vector that all heads share, with no latent behind it"),
    unrotated_queries="self_attn.q_b_norm > out",
    unrotated_keys="self_attn calls apply_rotary_pos_emb[1] > in.x as batch one seq qk_head_dim",
    attention_keys="attention > key as batch one key_windows qk_head_dim",
    attention_values="attention > value as batch one key_windows head_dim",
    indexer_choice=(
        "self_attn.compressor.indexer > out as batch query chosen",
        absent("no indexer in this block: it sees its window, and compressed windows further back, or nothing there"),
    ),
    attention_scores="attention > scores as batch num_heads query key_windows_and_sink",
    attention_probabilities="attention > probabilities as batch num_heads query key_windows",
    attention_premix="self_attn.o_a_proj > in as batch seq o_groups group_width",
    attention_head_contributions="grouped_contributions(attention_premix)",
    notes=HYPER_NOTES
    | {
        "attention_keys": "the same tensor as attention_values; compressed windows of the far context come last",
        "attention_values": "the same tensor as attention_keys; compressed windows of the far context come last",
        "attention_scores": "less each row's maximum, with the sink's score as one more column at the end",
        "attention_probabilities": "rows sum to less than 1: the sink takes the rest",
        "attention_head_outputs": "before they are rotated back",
        "attention_premix": "rotated back, in the groups of the low-rank output projection",
    },
    breaks=HYPER_BREAKS
    | {
        "chain attention_probabilities": "the last columns are compressed windows, which later queries may all see",
        "chain attention_premix": "the heads' outputs are rotated back before they are projected",
        "batch padding": "the far context is cut into windows by position, the padding's included",
        "batch cache self_attn.attention_keys": _WINDOWS,
        "batch cache self_attn.attention_values": _WINDOWS,
        "batch cache self_attn.attention_scores": _WINDOWS,
        "batch cache self_attn.attention_probabilities": _WINDOWS,
    },
    tiny={"compress_rates": {"compressed_sparse_attention": 2, "heavily_compressed_attention": 4}},
)
