"""Pixtral: images of any size end to end in one row, kept apart by the mask; Llama's blocks with a rotary over rows and columns."""

from nnatlas.families._shapes import AS_CALLED
from nnatlas.families.towers._shapes import VIT

TOWERS = (
    VIT.but(
        name="pixtral",
        covers="pixtral",
        axes={"batch": "one", "seq": "packed_patches"},
        unrotated_queries=AS_CALLED["unrotated_queries"],
        unrotated_keys=AS_CALLED["unrotated_keys"],
        notes={"patch_embeddings": "padding of smaller images included: it is cut away before the first block"},
    ),
)
