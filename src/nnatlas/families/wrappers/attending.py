"""Llama 3.2 Vision and IDEFICS: the image is never written into the stream; some blocks of the text model attend to it."""

from nnatlas.families._wrapper import NOTHING_READ, USUAL, absent

_ATTENDS = absent("the image does not enter the token stream: blocks with cross-attention read attended_features")

WRAPPERS = (
    USUAL.but(
        "mllama",
        vision="model.vision_model",
        pictures="in_tiles",
        tokens=1,
        tiny={"vision_config.vision_output_dim": 128},
        breaks={"rows": "on text alone the blocks that attend to the image are skipped"},
        cells={
            "image_features": _ATTENDS,
            "attended_features": "root.model.language_model > in.cross_attention_states as images image_tokens hidden_size",
        },
    ),
    USUAL.but(
        "idefics",
        vision="model.vision_model",
        projector=NOTHING_READ,
        pictures="by_row",
        tokens=0,
        image_token="additional_vocab_size",
        cells={
            "image_features": _ATTENDS,
            "image_token_mask": absent("no token stands for an image: image_attention_mask says which tokens look at which"),
            "attended_features": ("root.model.perceiver_resampler > out", "last > out as images class_and_patches hidden_size"),
        },
    ),
)
