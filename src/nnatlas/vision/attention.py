"""How much a text token attends to each place of the picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from nnatlas.errors import InputError
from nnatlas.vision.overlay import Overlay
from nnatlas.vision.tokens import on_grid, only_picture, within

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer


def attention_to_image(
    model: StandardizedTransformer,
    prompt: Any,
    pictures: Any,
    *,
    layer: int = -1,
    head: int | None = None,
    position: int = -1,
    grid: tuple[int, int] | None = None,
) -> Overlay:
    """The weights with which one position attends to the image's tokens, over the picture.

    `layer` and `head` pick the block and the head of the text model (all heads: their mean), `position` the token that
    attends, by default the last; `grid` the rows and columns of tokens where they are no square.  One forward.
    Weights say what is read from where, not what it does: compare with `image_token_effects`.

    Errors: `InputError` for several pictures and for numbers that there are not, `Unavailable` where the block serves no
    pattern, `LayoutError` for `grid`.

    >>> attention_to_image(model, "<image> What is it?", picture, layer=2).amounts.shape
    torch.Size([4, 4])
    """
    picture, layer = only_picture(pictures), within(layer, model.num_layers, "layer")
    with torch.no_grad(), model.trace(prompt, images=[picture]) as run:
        mask = run.vision.image_token_mask[0]
        pattern = run.layers[layer].self_attn.attention_probabilities[0]
        run.stop()
    chosen = pattern.mean(0) if head is None else pattern[within(head, len(pattern), "head")]
    weights = chosen[within(position, len(chosen), "position")].float()
    if not mask[: len(weights)].any():
        raise InputError("no token of this prompt stands for the picture, so there is nothing to lay over it")
    who = "all heads" if head is None else f"head {head}"
    return Overlay(picture, on_grid(weights[mask], grid), f"attention of position {position} in block {layer}, {who}")
