"""BLIP-2, InstructBLIP, Aria and OCR models: learned queries, or convolutions, stand between tower and text."""

from nnatlas.families._wrapper import USUAL, scattered

WRAPPERS = (
    USUAL.but(
        "blip-2",
        vision="vision_model",
        projector="language_projection",
        cells=scattered("root"),
        tiny={"num_query_tokens": 4},
        notes={"image_features": "the text model adds learned positions to them before its first block"},
        breaks={"scatter": "the text model adds learned positions to all that enters, and then calls its first block"},
    ),
    USUAL.but(
        "aria",
        reads=("config.vision_feature_layer",),
        tiny={"projector_patch_to_query_dict": {16: 4}},
        notes={"projector_input": "the patches; learned queries read them"},
    ),
    USUAL.but("got_ocr2 pp_chart2table"),
)
