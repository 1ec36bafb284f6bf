"""Idefics, SmolVLM and others: pictures by row of the batch, a connector behind the normed end of a SigLIP tower."""

from nnatlas.families._wrapper import USUAL

_CONNECTED = USUAL.but("", vision="model.vision_model", projector="model.connector", pictures="by_row")

WRAPPERS = (_CONNECTED.but("idefics2 idefics3 smolvlm"),)
