"""ERNIE 4.5-VL: each sparse block has a mixture for text and one for images; a text-only run goes through the first."""

from nnatlas.families._shapes import LLAMA, kind

FAMILY = LLAMA.but(
    kinds=(
        kind(
            "sparse",
            "has mlp.text_moe",
            router="text_moe.gate",
            experts="text_moe.experts",
        ),
    ),
    tiny={"text_config.rope_parameters.mrope_section": [3, 3, 2]},
)
