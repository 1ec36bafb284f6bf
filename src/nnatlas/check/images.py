"""What some forwards ask for besides text, made up, so that their text model can be put on trial like any other.

Images for models that refuse text alone or skip blocks on it: what they ask for is told by the names of their arguments and
by the config; every row gets the same noise as its image, and the ids that stand for it are put in front of the text.  A
canvas for models that refine one and draw it at random unless it is handed in.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nnatlas.bind.paths import lookup
from nnatlas.bind.sizes import setting
from nnatlas.bind.tree import BoundModel

FRAMES = 4
"""Pictures of a made-up film."""
_PLACEHOLDERS = ("image_token_index", "image_token_id", "video_token_index", "video_token_id")
_COUNTS = ("num_query_tokens", "latent_query_num")
CANVAS, STATES = "decoder_input_ids", "cross_attention_states"
POSITIONS = 5
"""Made-up positions of an image, as a text model without its tower takes them."""


class Besides:
    """Prepares a batch as the model's own preparer does, and adds to it what `made` makes of its ids."""

    def __init__(self, prepare: Callable[..., dict[str, Any]], made: Callable[[Tensor], dict[str, Tensor]]) -> None:
        self.prepare, self.made = prepare, made

    def in_front(self, ids: Tensor) -> Tensor:
        """Nothing stands before the prompt."""
        return ids

    def __call__(self, inputs: Any, keywords: Mapping[str, Any], also: Iterable[str] = ()) -> dict[str, Any]:
        batch = self.prepare(inputs, keywords, also)
        return self.made(batch["input_ids"]) | batch


def _canvas(ids: Tensor) -> dict[str, Tensor]:
    """The prompt backwards, as the canvas to be refined."""
    return {CANVAS: ids.flip(1)}


def _states(width: int, ids: Tensor) -> dict[str, Tensor]:
    """The same noise in every row, as the states of an image."""
    noise = torch.randn(1, POSITIONS, width, generator=torch.Generator().manual_seed(0))
    return {
        STATES: noise.expand(len(ids), -1, -1).to(ids.device),
        "cross_attention_mask": torch.zeros(len(ids), 1, 1, POSITIONS, device=ids.device),
    }


class Images:
    """Prepares a batch as the model's own preparer does, and adds what the forward asks for besides text."""

    def __init__(self, module: nn.Module, prepare: Callable[..., dict[str, Any]], film: bool) -> None:
        self.config, self.prepare, self.film = module.config, prepare, film
        self.asked = _asked(module)
        named = setting(self.config, *_PLACEHOLDERS)
        self.placeholder = named if named is not None else setting(_text(self.config), "vocab_size") - 1
        self.tiles = setting(_vision(self.config), "max_num_tiles") or 1
        self.count = (setting(self.config, *_COUNTS) or 0) * (FRAMES if self.film else 1)

    def in_front(self, ids: Tensor) -> Tensor:
        """Ids `[rows, seq]` with those that stand for the image before them."""
        return torch.cat((ids.new_full((len(ids), self.count), self.placeholder), ids), 1)

    def __call__(self, inputs: Any, keywords: Mapping[str, Any], also: Iterable[str] = ()) -> dict[str, Any]:
        batch = self.prepare(inputs, keywords, also)
        made = self._made(batch["input_ids"])
        return batch | {name: value for name, value in made.items() if name in self.asked}

    def _made(self, ids: Tensor) -> dict[str, Tensor]:
        """All inputs that some forward asks for beside ids, for noise in the images' places; it is given those it takes."""
        rows, stands = len(ids), ids == self.placeholder
        text = torch.arange(1, 7, device=ids.device).expand(rows, -1)
        return {
            "pixel_values": self._noise().expand(rows, *self._noise().shape).to(ids.device),
            "image_attention_mask": torch.ones_like(ids)[..., None],
            "image_embeds_position_mask": stands.long(),
            "qformer_input_ids": text,
            "qformer_attention_mask": torch.ones_like(text),
            "aspect_ratio_ids": torch.ones_like(ids[:, :1]),
            "aspect_ratio_mask": (torch.arange(self.tiles, device=ids.device) < 1).long().expand(rows, 1, -1),
            "cross_attention_mask": torch.ones_like(ids)[..., None, None].repeat(1, 1, 1, self.tiles),
        }

    def _noise(self) -> Tensor:
        """One image `[3, side, side]`, or several where the forward takes several a row."""
        side = lookup(self.config, "vision_config.image_size")
        side = side if isinstance(side, int) else side[0]
        several = [FRAMES] if self.film else [1] if "image_attention_mask" in self.asked else []
        several = [1, self.tiles] if "aspect_ratio_ids" in self.asked else several
        return torch.randn(*several, 3, side, side, generator=torch.Generator().manual_seed(0))


def needed(owner: BoundModel, prepare: Callable[..., dict[str, Any]], ids: Tensor) -> Images | Besides | None:
    """What makes up the rest of the input of a model that these ids alone do not run whole; None if they do."""
    module, asked = owner.module, _asked(owner.module)
    if CANVAS in asked and not getattr(module.config, "is_encoder_decoder", False):
        canvas = Besides(prepare, _canvas)
        if _runs(owner, canvas, ids):  # BLIP-2 takes the argument too, for an encoder-decoder that it may have
            return canvas
    sees = lookup(module, "config.vision_config.image_size") is not None
    if not (sees or STATES in asked) or _runs(owner, prepare, ids):
        return None
    if not sees:
        return Besides(prepare, partial(_states, owner.root.sizes["hidden_size"]))
    made = [Images(module, prepare, film) for film in (False, True)]
    return next((one for one in made if _runs(owner, one, one.in_front(ids))), None)


def _runs(owner: BoundModel, prepare: Callable[..., dict[str, Any]], ids: Tensor) -> bool:
    """Whether the forward takes this, and comes to every block."""
    reached: set[int] = set()
    hooks = [block.module.register_forward_hook(lambda module, *_: reached.add(id(module))) for block in owner.blocks]
    try:
        with torch.no_grad():
            owner.module(**prepare(ids, {}))
    except (TypeError, ValueError):
        return False
    finally:
        for hook in hooks:
            hook.remove()
    return len(reached) == len({id(block.module) for block in owner.blocks})


def _asked(module: nn.Module) -> set[str]:
    """The names of what a forward takes."""
    return set(inspect.signature(inspect.unwrap(type(module).forward)).parameters)


def _vision(config: Any) -> Any:
    return getattr(config, "vision_config", None)


def _text(config: Any) -> Any:
    return config.get_text_config() if hasattr(config, "get_text_config") else config
