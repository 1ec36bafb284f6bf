"""LLaVA and its kin: a CLIP or SigLIP tower, of which the projector reads an inner block, and one scatter."""

from nnatlas.families._wrapper import USUAL

_INNER = USUAL.but("", reads=("config.vision_feature_layer",))

WRAPPERS = (
    _INNER.but("llava vipllava"),
    _INNER.but("aya_vision"),
    USUAL.but("cohere2_vision gemma3 shieldgemma2 paligemma"),
)
