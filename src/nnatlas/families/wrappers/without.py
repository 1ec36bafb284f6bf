"""Wrapper types without a tower that is served, each with its reason."""

from nnatlas.families._wrapper import Without

_CODES = "pictures become codes of a convolutional VQ-VAE, ids like those of text: it has no blocks of a transformer"


def _without(reason: str, covers: str) -> Without:
    return Without(tuple(covers.split()), reason)


WRAPPERS = (
    _without(_CODES, "apertus1p5 chameleon emu3"),
    _without("it reads proteins, not images", "evolla"),
    _without("transformers brings it without a tower: text alone", "mistral4"),
    _without("pictures are put in front of the text as tokens without ids: no row yet", "git"),
    _without("it takes films, not pictures: no row yet", "instructblipvideo"),
    _without("its own tower comes from timm, which builds it outside transformers", "fast_vlm gemma3n"),
    _without("its tower is four layers of merging patches, without attention", "inkling_mm_model"),
    _without("an encoder reads the image, a decoder the canvas: no row yet", "diffusion_gemma"),
    _without("pictures come as flattened patches with their row and column written in: no row yet", "kosmos-2.5"),
    _without("features of several blocks are added to the stream in front of others, by no call of their own: no row yet",
             "granite4_vision"),
    _without("its forward asks for more than pictures and text (queries in words, pooling maps, grids): no row yet",
             "molmo2"),
)  # fmt: skip
