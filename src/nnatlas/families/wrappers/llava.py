"""LLaVA and its kin: a CLIP or SigLIP tower, of which the projector reads an inner block or the normed end, and one scatter."""

from nnatlas.families._wrapper import USUAL

_INNER = USUAL.but("", reads=("config.vision_feature_layer",))
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
)
