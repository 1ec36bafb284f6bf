"""OLMo 2, OLMo 3 and FlexOlmo: norms sit on what attention and MLP write; queries and keys are normed across all heads at once."""

from nnatlas.families._shapes import ALL_HEADS, POST_NORM

FAMILY = POST_NORM.but(
    covers="olmo2 olmo3 flex_olmo",
    **ALL_HEADS,
)
