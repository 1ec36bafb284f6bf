"""Idefics, SmolVLM and others: pictures by row of the batch, a connector behind the normed end of a SigLIP tower."""

from nnatlas.families._wrapper import USUAL, multiplied

_CONNECTED = USUAL.but("", vision="model.vision_model", projector="model.connector", pictures="by_row")

WRAPPERS = (
    _CONNECTED.but("idefics2 idefics3 smolvlm"),
    _CONNECTED.but(
        "granite_docling",
        projector="model.vision_model.connector",
        pictures="by_row_masked",
        cells=multiplied("root.model", "root.model.text_model.embedding_multiplier"),
        adds="base calls _deepstack_process[{}] > in.visual_embeds",
        added_after="vision_config.deepstack_visual_indexes",
    ),
)
