"""Gemma 4, Gemma 4 Unified and Fuyu: patches with their columns and rows, one scatter; the last two without a tower."""

from nnatlas.families._wrapper import USUAL, absent, scattered

_TOWER = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "head_dim": 16,
    "num_key_value_heads": 4, "patch_size": 14, "pooling_kernel_size": 2, "position_embedding_size": 64,
}  # fmt: skip
_EMBEDDER = {"patch_size": 7, "pooling_kernel_size": 2, "mm_embed_dim": 64, "mm_posemb_size": 64, "output_proj_dims": 64}

WRAPPERS = (
    USUAL.but(
        "gemma4",
        projector="model.embed_vision",
        pictures="positioned",
        tiny={"vision_config": {"model_type": "gemma4_vision", **_TOWER}},
    ),
    USUAL.but(
        "diffusion_gemma",
        vision="model.encoder.vision_tower",
        projector="model.encoder.embed_vision",
        cells=scattered("root.model.encoder"),
        pictures="positioned",
        tiny={"vision_config": {"model_type": "gemma4_vision", **_TOWER}},
        notes={"image_features": "written into the prompt, which the encoder reads; the blocks here read its cache"},
        breaks=dict.fromkeys(("scatter", "zeroed"), "the encoder reads prompt and image; the blocks here refine a canvas"),
    ),
    USUAL.but(
        "gemma4_unified",
        vision="model.embed_vision",
        projector="model.embed_vision.multimodal_embedder",
        pictures="positioned",
        tiny={"vision_config": {"model_type": "gemma4_unified_vision", **_EMBEDDER}},
    ),
    USUAL.but(
        "fuyu",
        vision="model.vision_embed_tokens",
        projector=absent("patches are projected straight into the stream: the tower is the projector"),
        config="",
        pictures="positioned",
    ),
)
