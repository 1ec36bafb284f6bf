"""BLIP-2, InstructBLIP, Aria and OCR models: learned queries, or convolutions, stand between tower and text."""

from nnatlas.families._wrapper import USUAL, scattered

_QUERIED = USUAL.but(
    "",
    vision="vision_model",
    projector="language_projection",
    cells=scattered("root"),
    tiny={"num_query_tokens": 4},
    notes={"image_features": "the text model adds learned positions to them before its first block"},
    breaks={"scatter": "the text model adds learned positions to all that enters, and then calls its first block"},
)
_MARKED = {
    "image_features": "root.text_model.model > in.image_embeds : image_tokens+ hidden_size",
    "image_token_mask": "marked(root > in.image_embeds_position_mask)",
}
_MARKED_NOTES = {
    "image_features": "written over the embeddings, which are then scaled and given their positions",
    "image_token_mask": "a mask in the call says it: to be read before the forward has begun",
}
_MARKED_BREAKS = {"scatter": "what is written in is then scaled and given its position, as all embeddings are"}
_SAM = {"vision_config.sam_config.downsample_channels": [32, 64]}

WRAPPERS = (
    _QUERIED.but("blip-2"),
    _QUERIED.but(
        "instructblip",
        tokens=4,
        notes={"projector_input": "the queries; they have read the prompt too"},
        breaks={"rows": "one picture a prompt: with each picture goes the prompt that its queries read"},
    ),
    _QUERIED.but(
        "instructblipvideo",
        tokens=4,
        pictures="films",
        image_token="video_token_id",
        notes={
            "projector_input": "the queries; they have read the prompt too",
            "image_features": "of films: a picture is a film of one frame. The text model adds learned positions to them",
        },
        breaks={"rows": "one film a prompt: with each film goes the prompt that its queries read"},
    ),
    USUAL.but(
        "kosmos-2",
        vision="vision_model",
        projector="image_to_text_projection",
        tokens=4,
        marks=True,
        tiny={"latent_query_num": 4},
        cells=_MARKED,
        notes={**_MARKED_NOTES, "projector_input": "the patches, normed twice; learned queries read them"},
        breaks=_MARKED_BREAKS,
    ),
    USUAL.but(
        "kosmos-2.5",
        vision="vision_model",
        projector="image_to_text_projection",
        pictures="flattened",
        tokens=4,
        marks=True,
        tiny={"latent_query_num": 4, "vision_config.patch_embed_hidden_size": 588},
        cells=_MARKED,
        notes={**_MARKED_NOTES, "projector_input": "the patches, each made a vector of length one; learned queries read them"},
        breaks=_MARKED_BREAKS,
    ),
    USUAL.but(
        "aria",
        reads=("config.vision_feature_layer",),
        tiny={"projector_patch_to_query_dict": {16: 4}},
        notes={"projector_input": "the patches; learned queries read them"},
    ),
    USUAL.but(
        "unlimited_ocr",
        config="vision_config.sam_config",
        tower="behind_sam",
        tiny=_SAM,
        notes={"projector_input": "the last block's patches and, beside each, what the SAM in front of the tower made of it"},
    ),
    USUAL.but("deepseek_ocr2", config="vision_config.sam_config", tower="asking_sam", tiny=_SAM),
    USUAL.but("got_ocr2 pp_chart2table step3p7"),
    USUAL.but(
        "ovis2",
        projector="model.visual_embeddings_table",
        notes={"projector_input": "each patch as a choice among visual words; the projector holds a vector for each word"},
    ),
    USUAL.but(
        "llama4",
        vision="vision_model",
        projector="multi_modal_projector",
        cells=scattered("root"),
        tiny={"vision_config.intermediate_size": 256},
        unrun="its image class in transformers 5.24 raises at its end: it asks the text model's output for image_outputs",
        notes={"projector_input": "the tower's patches, shuffled together by its adapter"},
    ),
)
