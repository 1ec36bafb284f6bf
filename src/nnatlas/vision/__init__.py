"""Where in a picture an answer comes from: attention from text to patches, and what each image token is worth.

    shown = attention_to_image(model, prompt, picture)     # an Overlay: the picture, and a heat map of its tokens on it
    shown.save("attention.html")

Both use only `model.trace` and the values under `model.vision`, as a method of your own would.
"""

from nnatlas.vision.attention import attention_to_image
from nnatlas.vision.effects import image_token_effects
from nnatlas.vision.overlay import Overlay

__all__ = ["Overlay", "attention_to_image", "image_token_effects"]
