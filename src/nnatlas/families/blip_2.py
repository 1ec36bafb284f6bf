"""BLIP-2 and InstructBLIP: query tokens read from an image stand in front of the prompt of an OPT."""

from nnatlas.families.opt import FAMILY as OPT

FAMILY = OPT.twin(
    covers="blip-2 instructblip instructblipvideo",
    tiny={"image_token_index": 300, "video_token_index": 300},
)
