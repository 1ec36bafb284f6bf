"""Made-up images for models that refuse text alone, so that their text model can be put on trial like any other.

What such a forward asks for is told by the names of its arguments and by the config; every row gets the same noise as its
image, and the ids that stand for it are put in front of the text.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from nnatlas.bind.paths import lookup
from nnatlas.bind.sizes import setting

FRAMES = 4
"""Pictures of a made-up film."""
_PLACEHOLDERS = ("image_token_index", "image_token_id", "video_token_index", "video_token_id")
_COUNTS = ("num_query_tokens", "latent_query_num")


class Images:
    """Prepares a batch as the model's own preparer does, and adds what the forward asks for besides text."""

    def __init__(self, module: nn.Module, prepare: Callable[..., dict[str, Any]], film: bool) -> None:
        self.config, self.prepare, self.film = module.config, prepare, film
        self.asked = set(inspect.signature(inspect.unwrap(type(module).forward)).parameters)
        named = setting(self.config, *_PLACEHOLDERS)
        self.placeholder = named if named is not None else setting(_text(self.config), "vocab_size") - 1
        self.count = (setting(self.config, *_COUNTS) or 0) * (FRAMES if self.film else 1)

    def in_front(self, ids: Tensor) -> Tensor:
        """Ids `[rows, seq]` with those that stand for the image before them."""
        return torch.cat((ids.new_full((len(ids), self.count), self.placeholder), ids), 1)

    def __call__(self, inputs: Any, keywords: Mapping[str, Any], also: Iterable[str] = ()) -> dict[str, Any]:
        batch = self.prepare(inputs, keywords, also)
        made = self._made(batch["input_ids"])
        return batch | {name: value for name, value in made.items() if name in self.asked}

    def _made(self, ids: Tensor) -> dict[str, Tensor]:
        rows, stands = len(ids), ids == self.placeholder
        text = torch.arange(1, 7, device=ids.device).expand(rows, -1)
        return {
            "pixel_values": self._noise().expand(rows, *self._noise().shape).to(ids.device),
            "image_attention_mask": torch.ones_like(ids)[..., None],
            "image_embeds_position_mask": stands.long(),
            "qformer_input_ids": text,
            "qformer_attention_mask": torch.ones_like(text),
        }

    def _noise(self) -> Tensor:
        """One image `[3, side, side]`, or several where the forward takes several a row."""
        side = lookup(self.config, "vision_config.image_size")
        side = side if isinstance(side, int) else side[0]
        several = [FRAMES] if self.film else [1] if "image_attention_mask" in self.asked else []
        return torch.randn(*several, 3, side, side, generator=torch.Generator().manual_seed(0))


def needed(module: nn.Module, prepare: Callable[..., dict[str, Any]], ids: Tensor) -> Images | None:
    """What makes up images, or a film, for a model that refuses these ids alone; None if it takes them."""
    if lookup(module, "config.vision_config.image_size") is None:
        return None
    if _runs(module, prepare, ids):
        return None
    made = [Images(module, prepare, film) for film in (False, True)]
    return next((one for one in made if _runs(module, one, one.in_front(ids))), None)


def _runs(module: nn.Module, prepare: Callable[..., dict[str, Any]], ids: Tensor) -> bool:
    with torch.no_grad():
        try:
            module(**prepare(ids, {}))
        except (TypeError, ValueError):
            return False
    return True


def _text(config: Any) -> Any:
    return config.get_text_config() if hasattr(config, "get_text_config") else config
