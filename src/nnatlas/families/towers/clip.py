"""CLIP and what is built like it: a class token in front of the patches, a norm before the first block; the norm after the last reads the class token alone."""

from nnatlas.families._shapes import absent
from nnatlas.families.towers._shapes import VIT, WITH_CLASS

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
        name="kosmos_2",
        covers="kosmos_2_vision_model",
        axes=WITH_CLASS,
        layers="model.encoder.layers",
        patch_embed="model.embeddings.patch_embedding",
        pre_norm="model.pre_layrnorm",
        norm=absent("the tower's last norm is called for the class token first, and then for all patches"),
    ),
)
