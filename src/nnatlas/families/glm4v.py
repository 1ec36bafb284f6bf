"""GLM 4.1V and 4.6V, GLM-OCR and kin: GLM 4 behind an image tower, with a rotary of three sections."""

from nnatlas.families._shapes import GLM4_NORMS, SANDWICH

FAMILY = SANDWICH.but(
    covers="glm4v glm46v glm_ocr glmga",
    **GLM4_NORMS,
    tiny={"text_config.rope_parameters.mrope_section": [2, 3, 3]},
)
