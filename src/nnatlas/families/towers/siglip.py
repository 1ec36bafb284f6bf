"""SigLIP and towers of its build: no class token, learned positions, a norm after the last block."""

from nnatlas.families._shapes import absent
from nnatlas.families.towers._shapes import CUT_ALREADY, GATHERED, IN_ONE_ROW, PACKED, VIT

TOWERS = (
    VIT.but(name="siglip", covers="siglip_vision_model"),
    VIT.but(name="idefics", covers="idefics2_vision idefics3_vision smolvlm_vision granite_docling_vision"),
    VIT.but(
        name="ovis2",
        covers="ovis2_vision",
        layers="transformer.encoder.layers",
        patch_embed="transformer.embeddings.patch_embedding",
        norm="transformer.rms_norm",
        attention_norm="rms_norm1",
        mlp_norm="rms_norm2",
        notes={"tower_output": "before patches are put together and told apart as visual words"},
    ),
    VIT.but(name="janus", covers="janus_vision_model"),
    VIT.but(
        name="molmo2",
        covers="molmo2_vision",
        patch_embeddings=CUT_ALREADY,
        norm=absent("the projector reads inner blocks, and no norm follows the last"),
        notes={"layer_output": "of every crop of every picture"},
    ),
    VIT.but(
        name="siglip2",
        covers="siglip2_vision_model",
        patch_embeddings=CUT_ALREADY,
        notes={"layer_output": "images of fewer patches are filled up to the most; masked attention keeps the filling out"},
    ),
    VIT.but(
        name="minicpm",
        covers="minicpm_ocr_vision minicpmv4_6_vision minicpmv4_7_vision",
        axes=IN_ONE_ROW,
        notes={"layer_output": "a merger between two of the blocks makes one patch of every four"},
        patch_embeddings="patch_embed > out : one hidden_size rows columns as one rows columns hidden_size",
        **GATHERED,
    ),
    VIT.but(
        name="video_llama_3",
        covers="video_llama_3_vision",
        axes=PACKED,
        patch_embeddings="patch_embed > out as packed_patches hidden_size rows columns",
        **GATHERED,
    ),
    VIT.but(
        name="paddleocr_vl",
        covers="paddleocr_vl_vision",
        axes=PACKED,
        layers="vision_model.encoder.layers",
        patch_embed="vision_model.embeddings.patch_embedding",
        norm="vision_model.post_layernorm",
        patch_embeddings="patch_embed > out as packed_patches hidden_size rows columns",
        **GATHERED,
    ),
)

