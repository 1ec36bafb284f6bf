"""Chameleon, Emu3 and Apertus 1.5: pictures become codes of a VQ-VAE, which are looked up in the text model's own embedding."""

from nnatlas.families._wrapper import USUAL, absent

_IN_VOCABULARY = {"<image>": 300, "<|extra_200|>": 301}
_CODED = USUAL.but(
    "",
    config="vq_config",
    vision="model.vqmodel",
    tower="codes",
    reads=(),
    projector=absent("codes are looked up in the text model's own embedding"),
    image_token="vocabulary_map.<image>",
    notes={"image_features": "the embeddings of the codes: a write into the tower reaches them where it changes a code"},
)

WRAPPERS = (
    _CODED.but(
        "chameleon",
        tiny={"vocabulary_map": {**_IN_VOCABULARY, **{f"IMGIMG{chr(65 + code // 10)}{chr(65 + code % 10)}Z": code for code in range(64)}}},
    ),
    _CODED.but(
        "emu3",
        tower="codes_in_time",
        pictures="sized",
        tiny={"vq_config.hidden_size": 128, "vocabulary_map": {**_IN_VOCABULARY, **{f"<|visual token {code:06d}|>": code for code in range(64)}}},
    ),
    _CODED.but(
        "apertus1p5",
        config="vision_config",
        vision="model.vision_tokenizer",
        tower="codes_one_by_one",
        image_token="image_token_id",
        pictures="sized",
        tiny={"image_token_offset": 0},
    ),
)
