"""What each image token is worth to the answer: the change when its features are replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nnatlas.errors import LayoutError
from nnatlas.model.tokens import token_ids, token_text
from nnatlas.vision.overlay import Overlay
from nnatlas.vision.tokens import on_grid, only_picture

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer


def image_token_effects(
    model: StandardizedTransformer,
    prompt: Any,
    pictures: Any,
    *,
    answer: str | int | None = None,
    instead: Any = None,
    grid: tuple[int, int] | None = None,
) -> Overlay:
    """How much less likely the answer is without each image token, over the picture: log probability before less after.

    Each token's features are replaced, one at a time, by the mean of all, or by those that the picture `instead` has at
    that place.  `answer` is the answer's token, as text or by its id, by default the likeliest one.  One forward for each
    token.

    This is activation patching (Vig et al. 2020; Meng et al. 2022) at the place where the image enters the text model.

    Errors: `InputError` for several pictures or an answer that is no token, `LayoutError` where the two pictures differ in
    tokens or for `grid`.

    >>> image_token_effects(model, "<image> What is it?", picture).amounts.shape
    torch.Size([4, 4])
    """
    picture = only_picture(pictures)
    features, before = _features(model, prompt, picture)
    wanted = int(before.argmax()) if answer is None else token_ids(model.tokenizer, answer, len(before))[0]
    other = features.mean(0).expand_as(features) if instead is None else _other(model, prompt, instead, features)
    after = [_without(model, prompt, picture, at, other[at])[wanted] for at in range(len(features))]
    effects = before[wanted] - torch.stack(after)
    named = token_text(model.tokenizer, wanted)
    said = "their mean" if instead is None else "another picture's"
    return Overlay(picture, on_grid(effects, grid), f"loss of log probability of {named!r} for {said} at one place")


def _features(model: StandardizedTransformer, prompt: Any, picture: Any) -> tuple[Tensor, Tensor]:
    """The image's features and the log probabilities after the prompt."""
    with torch.no_grad(), model.trace(prompt, images=[picture]) as run:
        features = run.vision.image_features.clone()
        probabilities = run.next_token_probs[0]
    return features, probabilities.log()


def _other(model: StandardizedTransformer, prompt: Any, instead: Any, features: Tensor) -> Tensor:
    """Another picture's features, which must be as many."""
    found = _features(model, prompt, only_picture(instead))[0]
    if found.shape != features.shape:
        raise LayoutError(
            f"the picture became {len(features)} tokens and the other one {len(found)}: give both the same size"
        )
    return found


def _without(model: StandardizedTransformer, prompt: Any, picture: Any, at: int, instead: Tensor) -> Tensor:
    """The log probabilities with the features of one token replaced."""
    with torch.no_grad(), model.trace(prompt, images=[picture]) as run:
        run.vision.image_features[at] = instead
        probabilities = run.next_token_probs[0]
    return probabilities.log()
