"""Cohere Compass: a parallel Cohere 2 block behind an image tower; image features are added to the stream between early blocks."""

from nnatlas.families.cohere_compass_text import FAMILY as COHERE_COMPASS_TEXT

FAMILY = COHERE_COMPASS_TEXT.twin(
    tiny={f"text_config.{field}": value for field, value in COHERE_COMPASS_TEXT.tiny.items()}
)
