"""GLM 4 (0414): sandwich norms around fused gate and up projections, and a rotary of neighbouring pairs."""

from nnatlas.families._shapes import GLM4_NORMS, SANDWICH

FAMILY = SANDWICH.but(
    **GLM4_NORMS,
)
