"""What the fields of a transformers config mean, told from their names, and how large each is in a tiny model.

Tables of `(value, pattern)`; the first pattern that matches the whole name of a field decides.  No model type is named here:
`num_key_value_heads` counts key-value heads whoever uses it.  The values are chosen so that a mix-up shows: heads are wider
than `hidden_size / num_heads`, the MLP is not as wide as all heads together, and every group count is 2 or more.
"""

from __future__ import annotations

import re
from typing import Any
from zlib import crc32

HIDDEN, HEADS, KV_HEADS, HEAD_DIM = 64, 4, 2, 24
VOCAB = 320  # 256 bytes, padding, begin and end, and room for the image and audio tokens of multimodal types
WINDOW = 8  # shorter than most prompts, so that a sliding block differs from a full one

Table = tuple[tuple[int, str], ...]

# A field larger than this is set to it; a smaller one stays.
AT_MOST: Table = (
    (8, r"hidden_size_per_layer_input|pronunciation_embed_dim|shape_embed_dim|qk_rope_head_dim"),
    (16, r"qk_nope_head_dim|index(er)?_head_dim|linear_(key_|value_)?head_dim|o_lora_rank|hc_lowrank|router_hidden_size"),
    (16, r"mamba_(d_head|head_?dim|d_state)|(ssm_)?state_size"),
    (24, r"qk_head_dim|kv_lora_rank"),
    (8, r"num_filters"),
    (32, r"q_lora_rank|dim_model_base|patch_dim|latent_channels|base_channels|output_channels|codebook_dim"),
    (32, r"hidden_sizes|downsample_channels|\w+_out_channel|nemo_conv_channels"),
    (HIDDEN, r"(\w+_)?hidden_(size|dim)|d_model|dim|n_embd|emb_dim|(\w+_)?embed(ding)?_(dim|size)|hidden_size_global"),
    (HIDDEN, r"word_embed_proj_dim|lru_width|projection_dim|(\w+_)?output_dim|adapter_(in|out)_dim|projector_input_dim"),
    (112, r"(\w+_)?(intermediate|ffn_hidden|feed_forward)_size(_mlp)?|(\w+_)?(ffn|mlp|ff)_dim|d_ff|dff|dim_ff|[nd]_inner"),
    (128, r"mamba_d_ssm"),
    (64, r"original_max_position_embeddings|num_(position_)?embeddings|position_embedding_size|codebook_size|rel_extent"),
    (256, r"(\w+_)?max_position_embeddings|n_positions|n_ctx|max_(target|source)_positions|max_seq_len|context_length"),
    (VOCAB, r"(\w+_)?vocab_size(_\w+)?|encoder_hash_byte_group_vocab"),
    (WINDOW, r"(\w+_)?(sliding_window|window_size|window_len)(_size)?|local_attention|attention_chunk_size"),
    (8, r"(mamba_)?chunk_size|block_size|\w*chunk_length|num_(latents|query_tokens|image_tokens)|latent_query_num"),
    (8, r"rotary_dim|laurel_rank|adapter_rank|gated_norm_rank|loop_gate_rank|d_rel|time_step_rank|mamba_dt_rank|(mamba_)?n_heads"),
    (8, r"mamba_(num|n)_heads"),
    (4, r"(moe_)?num_(local_)?experts|n_routed_experts|index_topk|index_block_size|mm_tokens_per_image|log_scaling_n_floor|floor_scale"),
    (2, r"zero_expert_num|index_topk_blocks|o_groups|index_n_heads|(moe_)?num_shared_experts|n_shared_experts"),
    (1, r"first_k_dense_replace|num_dense_layers"),
    (0, r"num_nextn_predict_layers"),
)

# A field of a language model that is set to exactly this, larger or smaller.
EXACTLY: Table = (
    (48, r"moe_(intermediate|hidden)_size|\w*shared_experts?_intermediate_size|expert_ffn_hidden_size|share_expert_dim"),
    (HEADS, r"num_attention_heads(_per_layer)?|num_heads|n_heads?|attention_heads|swa_num_attention_heads|linear_num_(value_)?heads"),
    (KV_HEADS, r"(swa_)?num_key_value_heads|num_kv_heads|kv_n_heads|linear_num_key_heads|num_query_groups"),
    (HEAD_DIM, r"(swa_)?head_dim|attention_head_(dim|size)|d_head|d_kv|dim_head|kv_channels"),
    (40, r"query_pre_attn_scalar"),  # as the square of the score scale, so not the head width
    (2, r"(mamba_)?n_?groups|n_group|num_expert_group|decoder_sparse_step"),
    (1, r"topk_group"),
    (2, r"num_experts_per_tok(en)?|moe_top_?k|moe_k|top_k_experts"),
)

# The same for towers, where every width follows from the hidden size.
TOWER_EXACTLY: Table = (
    (HEADS, r"(\w+_)?(num|n)_(attention_)?heads|\w*attention_heads|num_key_value_heads"),
    (HIDDEN // HEADS, r"head_dim"),
)

# Fields that a type leaves open and that have a size in every model.
OPEN = r"head_dim|num_key_value_heads|num_experts_per_tok|clip_qkv|final_logit_softcapping"

# Switches for offsets, which are all on.
OFFSET = (
    r"(attention|attn|mlp|attention_out|lm_head|qkv|o)_bias|(use_)?(qkv_)?bias|(\w+_)?(proj|conv|norm)_bias|add_bias_linear"
    r"|mup_enabled"
)

SPECIAL_ID = r"\w*token_ids?|\w*token_index|im(age)?_\w+_id|slice_\w+_id|newline_id"
BLOCK_COUNT = r"num_hidden_layers|n_layers?|num_layers|num_blocks|(num_)?decoder_layers|decoder_num_layers|layers"
TOWER_BLOCK_COUNT = BLOCK_COUNT + r"|depth|(\w+_)?(num_)?encoder_layers|conf_num_hidden_layers|resampler_depth"

# Numbers that multiply what flows through the model, those that multiply attention scores, and bounds that cut off.
FACTOR = (
    r"(?!channel|depthwise|block_ffn)\w*multipliers?|logit_scale|logits_scaling|\w*rout(ed|er|e)_scal(e|ing_factor)|route_scale"
    r"|\w+_(alpha|beta)_factor|attention_value_scale|embedding_scale|scale_(emb|depth)|time_step_scale|qk_scale_factor"
    r"|log_scaling_alpha|attn_scale"
)
SCORE_FACTOR, SCORE_SCALE = r"attention_multiplier|softmax_scale", 0.3  # 1 / sqrt(head width) would be 0.2
BOUNDS: tuple[tuple[float, str], ...] = (
    (3.0, r"(?!conf)\w*soft_?cap(ping)?|\w+_clip_threshold"),
    (1.5, r"clip_qkv|swiglu_limits?"),
)


def small(name: str, value: Any, exactly: Table) -> Any:
    """What `value` of the field `name` becomes in a tiny model; itself where no rule speaks of it."""
    if isinstance(value, list | tuple) and value and len({type(item) for item in value}) == 1:
        if isinstance(value[0], float) and re.fullmatch(FACTOR, name):
            return type(value)(factor(f"{name}{index}") for index in range(len(value)))
        return type(value)(small(name, item, exactly) for item in value)
    if value is False and re.fullmatch(OFFSET, name):
        return True
    if isinstance(value, bool) or (value is None and not re.fullmatch(OPEN, name)):
        return value
    if isinstance(value, float | int) and re.fullmatch(SCORE_FACTOR, name):
        return SCORE_SCALE
    if isinstance(value, float | int) and re.fullmatch(FACTOR, name):
        return factor(name)
    if (bound := meaning(name, BOUNDS)) is not None:
        return bound
    return _size(name, value, exactly)


def _size(name: str, value: Any, exactly: Table) -> Any:
    if value is not None and (type(value) is not int or value <= 0):
        return value
    if (fixed := meaning(name, exactly)) is not None:
        return fixed
    most = meaning(name, AT_MOST)
    return value if most is None or value is None else min(value, most)


def meaning(name: str, table: tuple[tuple[Any, str], ...]) -> Any:
    """The value of the first row whose pattern is the whole of `name`, or None."""
    return next((value for value, pattern in table if re.fullmatch(pattern, name)), None)


def factor(name: str) -> float:
    """A multiplier for the field `name`: 0.6 to 0.85 or 1.2 to 1.45, never near 1, and not the same for two fields."""
    number = crc32(name.encode())
    return round((0.6 if number % 2 else 1.2) + number % 1009 / 4036, 3)
