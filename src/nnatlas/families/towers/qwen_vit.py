"""The Qwen ViTs and towers built after them: packed patches, a rotary over rows and columns, and no class token."""

from nnatlas.families._shapes import NO_ROTARY, absent
from nnatlas.families.towers._shapes import IN_ONE_ROW, PACKED_VIT

WINDOWED = {"seq": "windowed_patches"}
_NO_NORM = absent("the last block's stream goes to the merger as it is, which norms it itself")
_FLAT = "{0} : patches {1} as patches {1}"
_ROW = "self_attn calls apply_rotary_pos_emb_vision > in.{} : one patches {} qk_head_dim as one {} patches qk_head_dim"

TOWERS = (
    PACKED_VIT.but(
        name="qwen_vit",
        covers="qwen2_vl_vision qwen3_vl_vision qwen3_vl_moe_vision qwen3_5_vision qwen3_5_moe_vision qwen4_exp_vision"
        " qwen3_omni_moe_vision_encoder cohere_compass_vision",
        norm=_NO_NORM,
    ),
    PACKED_VIT.but(
        name="qwen2_5_vit",
        covers="qwen2_5_vl_vision qwen2_5_omni_vision_encoder exaone4_5_vision",
        axes=WINDOWED,
        norm=_NO_NORM,
        notes={"layer_output": "in window order: all but a few blocks attend within a window; the order is undone after the merger"},
    ),
    PACKED_VIT.but(name="glm4v", covers="glm4v_vision glm4v_moe_vision glm_ocr_vision glm5_next_vision"),
    PACKED_VIT.but(name="dots", covers="dots3_note_vision_encoder", norm="norm"),
    PACKED_VIT.but(name="ernie", covers="ernie4_5_vl_moe_vision", norm="ln"),
    PACKED_VIT.but(
        name="hunyuan",
        covers="hunyuan_vl_vision hy_v4_vl_vision",
        axes=IN_ONE_ROW,
        patch_embed="embeddings.patch_embedding",
        patch_embeddings="patch_embed > out as packed_patches hidden_size rows columns",
        norm=absent("the last block's stream goes to the merger as it is"),
        **NO_ROTARY,
    ),
    PACKED_VIT.but(name="cosmos", covers="cosmos3_edge_vision", **NO_ROTARY),
    PACKED_VIT.but(
        name="minimax",
        covers="minimax_m3_vl_vision",
        axes=IN_ONE_ROW,
        norm=absent("no norm follows the last block"),
        unrotated_queries=_FLAT.format("self_attn calls apply_rotary_pos_emb_vision > in.q", "num_heads qk_head_dim"),
        unrotated_keys=_FLAT.format("self_attn calls apply_rotary_pos_emb_vision > in.k", "num_kv_heads qk_head_dim"),
        attention_premix="o_proj > in : patches (num_heads head_dim) as patches num_heads head_dim",
        attention_head_contributions="head_contributions(attention_premix) as patches num_heads hidden_size",
        attention_output="self_attn > out as patches hidden_size",
    ),
    PACKED_VIT.but(
        name="muse",
        covers="muse_glimmer_vision muse_spark_vision",
        axes=WINDOWED,
        norm="ln_post",
        unrotated_queries=_ROW.format("q", "num_heads", "num_heads"),
        unrotated_keys=_ROW.format("k", "num_kv_heads", "num_kv_heads"),
        notes={"tower_output": "here the window order is undone already"},
    ),
    PACKED_VIT.but(
        name="lfm3",
        covers="lfm3_vl_vision",
        self_attn=("self_attn", absent("this block mixes patches by a convolution over rows and columns: see linear_attn")),
        linear_attn={
            "path": ("conv", absent("this block mixes patches by attention: see self_attn")),
            "conv_output": "linear_attn.spatial_conv > out as frames hidden_size rows columns",
            "attention_premix": "linear_attn.out_proj > in as packed_patches hidden_size",
            "attention_output": "linear_attn > out",
        },
        attention_norm="operator_norm",
        up_proj="w3",
        down_proj="w2",
        pre_norm="embedding_norm",
        norm=absent("no norm follows the last block"),
    ),
    PACKED_VIT.but(
        name="radio",
        covers="radio",
        axes=IN_ONE_ROW,
        attention_output="block.layer_scale1 > out",
        mlp_output="block.layer_scale2 > out",
        patch_embed="embeddings.patch_projection",
        notes={"layer_output": "each image's summary tokens stand in front of its patches"},
        **NO_ROTARY,
    ),
    PACKED_VIT.but(
        name="kimi",
        covers="kimi_k25_vision",
        norm="final_layernorm",
        unrotated_queries=_ROW.format("q", "num_heads", "num_heads"),
        unrotated_keys=_ROW.format("k", "num_kv_heads", "num_kv_heads"),
    ),
    PACKED_VIT.but(
        name="inkling2",
        covers="inkling2_vision",
        pre_norm="pre_layernorm",
        attention_output="self_attn > out * block.lambda_1",
        mlp_output="mlp > out * block.lambda_2",
        notes={"layer_output": "a class token stands in front of each image's patches"},
    ),
)
