"""Wrappers of the Qwen build: packed patches with a grid for each picture, positions of three kinds, a merger in the tower."""

from nnatlas.families._wrapper import USUAL, absent, multiplied, scattered

_PACKED = USUAL.but(
    "",
    vision=("model.visual", "model.vision_tower", "model.vision_model"),
    projector=("model.visual.merger", "model.vision_tower.merger", "model.vision_tower.patch_merger"),
    pictures="packed",
)
_DEEPSTACK = _PACKED.but(
    "",
    adds="base calls _deepstack_process[{}] > in.visual_embeds",
    added_after="vision_config.deepstack_visual_indexes",
)
_WINDOWS = {"*.window_size": 28, "*.fullatt_block_indexes": [1]}

WRAPPERS = (
    _PACKED.but("qwen2_vl qwen3_5 qwen3_5_moe qwen4_exp"),
    _PACKED.but("qwen2_5_vl qwen2_5_omni_thinker exaone4_5", tiny=_WINDOWS),
    _DEEPSTACK.but("qwen3_vl qwen3_vl_moe cosmos3_omni qwen3_omni_moe_thinker cohere_compass"),
    _PACKED.but("glm4v glm46v glmga glm4v_moe glm_ocr glm5_next"),
    _PACKED.but("hunyuan_vl", breaks={"rows": "images are numbered through the whole batch, in transformers itself"}),
    _PACKED.but("hy_v4_vl"),
    _PACKED.but("dots3_note", tiny={"vision_config.per_layer_config": {"1": {"num_local_experts": 4, "num_experts_per_tok": 2}}}),
    _PACKED.but("ernie4_5_vl_moe", projector="model.resampler_model"),
    _PACKED.but("cosmos3_edge video_llama_3", projector="model.projector"),
    _PACKED.but("paddleocr_vl", projector="model.projector", pictures="squares"),
    _PACKED.but(
        "hyperclovax_vision_v2",
        projector="model.projector",
        tiny=_WINDOWS,
        cells=multiplied("root.model", "root.model.language_model.embedding_multiplier"),
    ),
    _PACKED.but("minimax_m3_vl lfm3_vl", projector="model.multi_modal_projector"),
    _PACKED.but("muse_glimmer muse_spark", projector="model.vision_adapter", tiny={"out_hidden_size": 256}),
    _PACKED.but(
        "minicpm_ocr minicpmv4_6 minicpmv4_7",
        projector="model.merger",
        pictures="strip",
        tiny={"image_token_id": 300, "*.insert_layer_id": 0},
    ),
    _PACKED.but(
        "nemotron_h_omni",
        vision="vision_model",
        projector="multi_modal_projector",
        cells=scattered("root"),
        pictures="flat_squares",
        tiny={"image_token_id": 300},
    ),
    _PACKED.but("kimi_k25", projector="model.mm_projector", pictures="squares"),
    _PACKED.but("inkling2 inkling2_loop", pictures="cells"),
    USUAL.but(
        "inkling_mm_model",
        projector=absent("the tower's last layer makes each patch a token itself"),
        pictures="cubes",
    ),
)
