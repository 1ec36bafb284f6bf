"""LLaVA and its kin: an image tower and a projector in front of a text model of its own type, a Llama by default."""

from nnatlas.families._shapes import LLAMA

FAMILY = LLAMA.but(
    covers="llava llava_next llava_next_video video_llava vipllava idefics3 smolvlm deepseek_vl deepseek_vl_hybrid janus",
)
