"""What the fields of a transformers config mean, told from their names, and how large each is in a tiny model.

Tables of values and the names they hold for, where `*` stands for anything; the first row that has the name decides.
No model type is named here: `num_key_value_heads` counts key-value heads whoever uses it.  The values are chosen so
that a mix-up shows: heads are wider than `hidden_size / num_heads`, the MLP is not as wide as all heads together, every
group count is 2 or more, no two factors of a type are equal and none is near 1.
"""

from __future__ import annotations

import re
from fnmatch import translate
from functools import cache
from typing import Any
from zlib import crc32

HIDDEN, HEADS, KV_HEADS, HEAD_DIM = 64, 4, 2, 24
VOCAB = 320  # 256 bytes, padding, begin and end, and room for the image and audio tokens of multimodal types
WINDOW = 8  # shorter than most prompts, so that a sliding block differs from a full one

Table = tuple[tuple[float, str], ...]

# A field larger than this is set to it; a smaller one stays.
AT_MOST: Table = (
    (6, "linear_head_dim"),  # its reference recurrence holds every pair of positions in every dimension
    (8, "hidden_size_per_layer_input pronunciation_embed_dim shape_embed_dim qk_rope_head_dim rotary_dim num_filters"),
    (12, "v_head_dim *_v_head_dim"),
    (16, "qk_nope_head_dim index_head_dim indexer_head_dim linear_key_head_dim linear_value_head_dim"),
    (16, "mamba_d_head mamba_head_dim mamba_headdim mamba_d_state state_size ssm_state_size"),
    (16, "o_lora_rank hc_lowrank router_hidden_size"),
    (24, "qk_head_dim kv_lora_rank"),
    (32, "q_lora_rank dim_model_base latent_channels base_channels output_channels codebook_dim"),
    (32, "hidden_sizes downsample_channels *_out_channel nemo_conv_channels"),
    (112, "*intermediate_size intermediate_size_mlp *ffn_hidden_size feed_forward_size"),
    (112, "*ffn_dim *mlp_dim *ff_dim d_ff dff dim_ff n_inner d_inner"),
    (128, "mamba_d_ssm"),
    (HIDDEN, "*hidden_size *hidden_dim hidden_size_global d_model dim n_embd emb_dim"),
    (HIDDEN, "*embed_dim *embed_size *embedding_dim *embedding_size word_embed_proj_dim lru_width"),
    (HIDDEN, "projection_dim *output_dim adapter_in_dim adapter_out_dim projector_input_dim"),
    (64, "original_max_position_embeddings num_embeddings num_position_embeddings codebook_size rel_extent"),
    (256, "*max_position_embeddings n_positions n_ctx max_target_positions max_source_positions"),
    (256, "max_seq_len context_length"),
    (VOCAB, "*vocab_size vocab_size_* ngram_vocab_size_base encoder_hash_byte_group_vocab"),
    (WINDOW, "*sliding_window *window_size *window_len local_attention attention_chunk_size"),
    (8, "chunk_size mamba_chunk_size block_size *chunk_length"),
    (8, "num_latents num_query_tokens num_image_tokens latent_query_num"),
    (8, "laurel_rank adapter_rank gated_norm_rank loop_gate_rank d_rel time_step_rank mamba_dt_rank"),
    (8, "mamba_num_heads mamba_n_heads"),
    (4, "num_experts num_local_experts moe_num_experts n_routed_experts"),
    (4, "index_topk index_block_size mm_tokens_per_image log_scaling_n_floor floor_scale"),
    (2, "n_shared_experts num_shared_experts moe_num_shared_experts zero_expert_num"),
    (2, "index_n_heads index_topk_blocks index_kpool o_groups"),
    (1, "first_k_dense_replace num_dense_layers"),
    (0, "num_nextn_predict_layers"),
)

# A field of a language model that is set to exactly this, larger or smaller.
EXACTLY: Table = (
    (48, "moe_intermediate_size moe_hidden_size *shared_expert_intermediate_size *shared_experts_intermediate_size"),
    (48, "expert_ffn_hidden_size share_expert_dim"),
    (HEADS, "num_attention_heads num_attention_heads_per_layer swa_num_attention_heads attention_heads"),
    (HEADS, "num_heads n_head n_heads linear_num_value_heads"),
    (HEADS - 1, "linear_num_heads"),
    (KV_HEADS, "num_key_value_heads swa_num_key_value_heads num_kv_heads kv_n_heads linear_num_key_heads"),
    (KV_HEADS, "num_query_groups"),
    (HEAD_DIM, "head_dim swa_head_dim attention_head_dim attention_head_size d_head d_kv dim_head kv_channels"),
    (40, "query_pre_attn_scalar"),  # scores are divided by its root, so it is not the head's width
    (2, "num_experts_per_tok num_experts_per_token moe_topk moe_top_k moe_k top_k_experts"),
    (2, "n_group n_groups num_expert_group mamba_n_groups mamba_ngroups decoder_sparse_step"),
    (1, "topk_group"),
)

# The same for towers, where every width follows from the hidden size.
TOWER_EXACTLY: Table = (
    (HEADS, "*num_heads *num_attention_heads *n_heads n_head *attention_heads num_key_value_heads"),
    (HIDDEN // HEADS, "head_dim"),
)

# Fields that a type may leave open and that have a value in every tiny model.
OPEN = "head_dim num_key_value_heads num_experts_per_tok clip_qkv final_logit_softcapping"

# Switches that add an offset or a scale; all of them are on.
SWITCHES = (
    "bias use_bias attention_bias attn_bias attention_out_bias o_bias qkv_bias use_qkv_bias mlp_bias lm_head_bias"
    " *proj_bias *conv_bias *norm_bias add_bias_linear mup_enabled"
)

# Numbers that multiply what flows through the model, and those that multiply attention scores.
FACTORS = (
    "embedding_multiplier embedding_scale scale_emb residual_multiplier scale_depth attention_value_scale attn_scale"
    " attention_in_multiplier attention_out_multiplier key_multiplier qk_scale_factor log_scaling_alpha *_alpha_factor"
    " *_beta_factor mlp_multipliers ssm_*multiplier ssm_multipliers time_step_scale *routed_scaling_factor"
    " *router_scaling_factor route_scale lm_head_multiplier output_multiplier logits_mup_width_multiplier logit_scale"
    " logits_scaling"
)
SCORE_FACTORS, SCORE_FACTOR = "attention_multiplier softmax_scale", 0.3  # 1 / sqrt(head width) would be 0.2

# Bounds that cut off: low enough to bite.
BOUNDS: Table = (
    (3.0, "*softcap *softcapping *soft_cap *_clip_threshold"),
    (1.5, "clip_qkv swiglu_limit"),
)

SPECIAL_IDS = "*token_id *token_ids *token_index im_*_id image_*_id slice_*_id newline_id"
BLOCK_COUNTS = "num_hidden_layers n_layer n_layers num_layers num_blocks *decoder_layers decoder_num_layers layers"
TOWER_BLOCK_COUNTS = BLOCK_COUNTS + " depth *encoder_layers conf_num_hidden_layers resampler_depth"
BLOCK_INDICES = "*_layers *_indexes *_indices *_idxs *layer_ids"


def small(name: str, value: Any, exactly: Table) -> Any:
    """What `value` of the field `name` becomes in a tiny model; itself where no row speaks of it."""
    if isinstance(value, list | tuple) and value and len({type(item) for item in value}) == 1:
        if named(name, FACTORS):
            return type(value)(factor(f"{name}.{index}") for index in range(len(value)))
        return type(value)(small(name, item, exactly) for item in value)
    if isinstance(value, bool):
        return value or named(name, SWITCHES)
    if not isinstance(value, int | float) and not (value is None and named(name, OPEN)):
        return value
    if named(name, FACTORS):
        return factor(name)
    if named(name, SCORE_FACTORS):
        return SCORE_FACTOR
    bound = lookup(name, BOUNDS)
    return _size(name, value, exactly) if bound is None else bound


def _size(name: str, value: float | None, exactly: Table) -> float | None:
    if value is not None and not is_count(value):
        return value
    if (fixed := lookup(name, exactly)) is not None:
        return fixed
    most = lookup(name, AT_MOST)
    return value if most is None or value is None else min(value, most)


def factor(name: str) -> float:
    """A multiplier for the field `name`: 0.6 to 0.85 or 1.2 to 1.45, and seldom the same for two fields."""
    number = crc32(name.encode())
    return round((0.6 if number % 2 else 1.2) + number % 1009 / 4036, 3)


def lookup(name: str, table: Table) -> Any:
    """The value of the first row of `table` that has `name`, or None."""
    return next((value for value, names in table if named(name, names)), None)


def named(name: str, names: str) -> bool:
    """Whether `name` is one of `names`, which stand in one string and may have stars."""
    return _pattern(names).match(name) is not None


def is_count(value: object) -> bool:
    """Whether `value` is a whole number above 0; True and False are not."""
    return type(value) is int and value > 0


@cache
def _pattern(names: str) -> re.Pattern[str]:
    return re.compile("|".join(translate(name) for name in names.split()))
