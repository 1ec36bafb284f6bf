"""The shape that tower rows start from: a ViT's block under the names that towers of transformers use.

Alternatives take the first that the live tower has, so one shape serves towers that differ in names only.
"""

from __future__ import annotations

from typing import Any

from nnatlas.families._shapes import LLAMA, NO_ROTARY, absent

NO_PRE_NORM = "the patches enter the first block as they are embedded"
NO_NORM = "no norm follows the last block"
IMAGES = {"batch": "images", "seq": "patches"}
WITH_CLASS = {"batch": "images", "seq": "class_and_patches"}
PACKED = {"batch": "", "seq": "packed_patches", "attention batch": "one", "pattern batch": "groups"}
"""All images end to end, without a batch axis; the attention is called once for each."""
IN_ONE_ROW = {**PACKED, "batch": "one"}
"""The same, with a batch axis of length 1."""
GATHERED: dict[str, Any] = {
    "attention_queries": "attentions > query",
    "attention_keys": "attentions > key",
    "attention_values": "attentions > value",
    "attention_scores": "attentions > scores",
    "attention_probabilities": "attentions > probabilities",
    "attention_head_outputs": "attentions > out",
    "attention_groups": "attentions > groups",
}
"""An attention that is called once for each image, or window of one: all of its calls."""
CONVOLVED = "patch_embed > out : images hidden_size rows columns as images rows columns hidden_size"
CUT_ALREADY = "patch_embed > out as images patches hidden_size"
"""Pictures come in as patches, and a linear map embeds each."""
ROTARY = "self_attn calls apply_rotary_pos_emb_vision|apply_rotary_pos_emb > in.{} : batch seq {} qk_head_dim"

VIT = LLAMA.but(
    name="vit",
    axes=IMAGES,
    kinds=(),
    layers=("encoder.layers", "encoder.layer", "vision_model.encoder.layers", "transformer.layers", "blocks", "layers"),
    patch_embed=(
        "embeddings.patch_embedding",
        "embeddings.patch_embeddings.projection",
        "vision_model.embeddings.patch_embedding",
        "patch_embed",
        "patch_embedding",
        "patch_conv",
        "patch_embedder",
        "embeddings.patch_embeddings",
        "embeddings",
    ),
    pre_norm=("pre_layrnorm", "layernorm_pre", "ln_pre", "post_conv_layernorm", absent(NO_PRE_NORM)),
    norm=("post_layernorm", "vision_model.post_layernorm", "layernorm_post", absent(NO_NORM)),
    embed_tokens=absent("a tower embeds patches, not tokens"),
    self_attn=("self_attn", "attn", "attention"),
    mlp=("mlp", "feed_forward", "ffn"),
    attention_norm=("layer_norm1", "norm1", "layernorm_before", "attention_norm", "input_layernorm"),
    mlp_norm=("layer_norm2", "norm2", "layernorm_after", "ffn_norm", "post_attention_layernorm"),
    o_proj=("out_proj", "o_proj", "proj", "projection_layer"),
    up_proj=("fc1", "up_proj", "linear_fc1", "lin1", absent("no separate up projection")),
    down_proj=("fc2", "down_proj", "linear_fc2", "lin2", absent("each expert has a down projection of its own")),
    act_fn=("activation_fn", "act_fn", "act", absent("the activation is a plain function call inside the MLP")),
    patch_embeddings=CONVOLVED,
    tower_output=("norm > out", "last > out"),
    logits=absent("a tower gives features, not logits"),
    **NO_ROTARY,
)

PACKED_VIT = VIT.but(
    name="packed_vit",
    axes=PACKED,
    patch_embeddings="patch_embed > out as packed_patches hidden_size",
    unrotated_queries=ROTARY.format("q", "num_heads"),
    unrotated_keys=ROTARY.format("k", "num_kv_heads"),
    **GATHERED,
)
"""Qwen2-VL's tower and those built after it: patches of all images in one row, rotated by row and column."""
