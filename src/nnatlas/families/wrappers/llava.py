"""LLaVA and its kin: a CLIP or SigLIP tower, of which the projector reads an inner block or the normed end, and one scatter."""

from nnatlas.families._wrapper import USUAL, absent

_INNER = USUAL.but("", reads=("config.vision_feature_layer",))
_ENTERS = "root.model.language_model ~ masked_scatter[{}] > in[2] : (image_tokens hidden_size)"
_GRANITE = {
    "deepstack_layer_map": [[-1, 0], [-2, 1]],
    "spatial_target_layers": [2, 3, 2, 3],
    "image_grid_pinpoints": [[128, 128], [128, 256]],
}
_STANDS_IN = {"model_type": "resnet", "hidden_size": 64, "embedding_size": 16, "hidden_sizes": [32, 64], "depths": [1, 1], "layer_type": "basic"}
_INTERN = "the whole of it, reshaped to a square and shuffled, goes to the projector"

WRAPPERS = (
    _INNER.but("llava aya_vision"),
    _INNER.but("vipllava", tiny={"vision_feature_layer": [-2, 1]}),
    _INNER.but("llava_next llava_next_video", pictures="tiled", tiny={"image_grid_pinpoints": [[56, 56], [56, 112]]}),
    _INNER.but("llava_onevision", pictures="tiled", tiny={"image_grid_pinpoints": [[56, 56], [56, 112]]}),
    USUAL.but("cohere2_vision gemma3 shieldgemma2 paligemma"),
    _INNER.but("video_llava", vision="model.image_tower"),
    USUAL.but("perception_lm", pictures="tiled"),
    USUAL.but("deepseek_vl janus", projector="model.aligner"),
    USUAL.but(
        "deepseek_vl_hybrid",
        projector="model.aligner",
        notes={"projector_input": "of two towers; the other, a SAM at a higher resolution, keeps its native names"},
    ),
    USUAL.but("internvl qianfan_ocr", notes={"tower_output": _INTERN}),
    USUAL.but("lfm2_vl", pictures="shaped"),
    USUAL.but(
        "granite4_vision",
        pictures="tiled",
        reads=("config.deepstack_layer_map", "config.spatial_vision_layer"),
        projector=absent("a projector for each block before which the image enters: they keep their native names"),
        enters=_ENTERS,
        enters_before=("deepstack_layer_map", "spatial_target_layers"),
        cells={"image_features": _ENTERS.format(0)},
        tokens=10,
        tiny=_GRANITE,
    ),
    USUAL.but(
        "gemma3n",
        projector="model.embed_vision",
        tower="convolutions",
        cells={
            "projector_input": "root.model.embed_vision.soft_embedding_norm > in",
            "projector_output": absent("the projector embeds ids of its own first; what it makes of the map is image_features"),
        },
        tiny={"vision_config": {**_STANDS_IN, "rms_norm_eps": 1e-6, "vocab_size": 4, "vocab_offset": 310},
              "vision_soft_tokens_per_image": 49},
        breaks={"scatter": "what enters the first of several streams; the others start from projections of it"},
    ),
    USUAL.but(
        "fast_vlm",
        tower="convolutions",
        tiny={"vision_config": _STANDS_IN},
        notes={"projector_input": "every place of the tower's last map, row by row"},
    ),
    USUAL.but(
        "molmo2",
        reads=("blocks.adapter_config.vision_feature_layer",),
        pictures="pooled",
        tiny={"vision_config.num_position_embeddings": 16, "adapter_config.vision_feature_layer": [1, 0]},
        cells={
            "image_features": "root.model ~ masked_scatter[0] > in[2] : (image_tokens hidden_size)",
            "projector_output": "block > out.last_hidden_state",
        },
        notes={"image_features": "the projector's output added to the placeholder's own embedding"},
    ),
    USUAL.but(
        "git",
        vision="git.image_encoder",
        projector="git.visual_projection",
        tokens=0,
        in_front="git.encoder.layer.0.attention.self.image_patch_tokens",
        cells={
            "image_features": "root.git.visual_projection > out : image_tokens+ hidden_size",
            "image_token_mask": "in_front()",
        },
        notes={"image_token_mask": "of the stream, which is longer than input_ids: the image stands in front of each row"},
        breaks={"rows": "one picture for every prompt of a batch"},
    ),
)
