"""SigLIP and towers of its build: no class token, learned positions, a norm after the last block."""

from nnatlas.families.towers._shapes import VIT

TOWERS = (VIT.but(name="siglip", covers="siglip_vision_model idefics2_vision idefics3_vision smolvlm_vision"),)
