"""dots 3 without its towers: latents with factors, sliding blocks of other head counts, and one gate per head."""

from nnatlas.families.dots3_note import FAMILY as DOTS3_NOTE

FAMILY = DOTS3_NOTE.twin(tiny={"head_dim": 32})
