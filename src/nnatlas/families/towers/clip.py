"""CLIP and what is built like it: a class token in front of the patches, a norm before the first block; the norm after the last reads the class token alone."""

from nnatlas.families._shapes import absent
from nnatlas.families.towers._shapes import CUT_ALREADY, VIT, WITH_CLASS

_EAGER = "self_attn calls eager_attention_forward > {}"
"""KOSMOS-2.5's tower asks for its attention in a way that always ends in the step-by-step function."""

TOWERS = (
    VIT.but(
        name="clip",
        covers="clip_vision_model idefics_vision",
        axes=WITH_CLASS,
        norm=absent("the tower's last norm reads the class token alone, which no projector reads"),
    ),
    VIT.but(
        name="behind_sam",
        covers="unlimited_ocr_vision",
        axes=WITH_CLASS,
        layers="vision_encoder.encoder.layers",
        patch_embed="sam_encoder.proj",
        pre_norm="vision_encoder.pre_layrnorm",
        norm=absent("no norm follows the last block"),
        patch_embeddings="vision_encoder > in : images hidden_size rows columns as images rows columns hidden_size shared",
        notes={"patch_embeddings": "a SAM, which keeps its native names, embeds them"},
    ),
    VIT.but(
        name="asking_sam",
        covers="deepseek_ocr2_vision",
        axes={"batch": "images", "seq": "patches_and_queries"},
        layers="vision_encoder.layers",
        patch_embed="sam_encoder.proj",
        norm="vision_encoder.norm",
        unrotated_queries="q_proj > out : batch seq (num_heads qk_head_dim)",
        unrotated_keys="k_proj > out : batch seq (num_kv_heads qk_head_dim)",
        patch_embeddings="sam_encoder > out.last_hidden_state : images hidden_size rows columns"
        " as images rows columns hidden_size",
        notes={
            "patch_embeddings": "a SAM, which keeps its native names, embeds them",
            "layer_output": "patches see each other, queries all before them; the queries alone go to the projector",
        },
    ),
    VIT.but(
        name="git",
        covers="git_vision_model",
        axes=WITH_CLASS,
    ),
    VIT.but(
        name="kosmos_2",
        covers="kosmos_2_vision_model",
        axes=WITH_CLASS,
        layers="model.encoder.layers",
        patch_embed="model.embeddings.patch_embedding",
        pre_norm="model.pre_layrnorm",
        norm=absent("the tower's last norm is called for the class token first, and then for all patches"),
    ),
    VIT.but(
        name="kosmos_2_5",
        covers="kosmos_2_5_vision_model",
        patch_embed="embeddings.patch_projection",
        patch_embeddings=CUT_ALREADY,
        norm="layernorm",
        attention_norm="pre_attention_layer_norm",
        mlp_norm="pre_mlp_layer_norm",
        q_proj="query",
        k_proj="key",
        v_proj="value",
        o_proj="output",
        up_proj="wi_1",
        down_proj="wo",
        attention_queries=_EAGER.format("in.query"),
        attention_keys=_EAGER.format("in.key"),
        attention_values=_EAGER.format("in.value"),
        unrotated_queries="same as attention_queries",
        unrotated_keys="same as attention_keys",
        attention_scores="self_attn ~ softmax[0] > in",
        attention_probabilities="self_attn ~ dropout[0] > out",
        attention_head_outputs=_EAGER.format("out[0]"),
        notes={"layer_output": "smaller pictures are filled up; masked attention keeps the filling out"},
    ),
)
