"""Mistral 3 and others behind a Pixtral tower: pictures of any size, each with its height and width."""

from nnatlas.families._wrapper import USUAL

WRAPPERS = (
    USUAL.but("mistral3 mistral_large4", pictures="sized", reads=("config.vision_feature_layer",)),
    USUAL.but("lighton_ocr", pictures="sized", vision="model.vision_encoder", projector="model.vision_projection"),
)
