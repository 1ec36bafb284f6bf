"""A processor for tiny wrappers that needs no files: pictures to pixels, and a place in the text for each of their tokens.

It is called like a processor of transformers.  How many tokens a picture becomes is asked of the model itself, once for each
size, by running its tower: a tiny one is done in a few milliseconds.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import BatchFeature

from nnatlas.errors import InputError

from .pictures import ANY_SIZE, FORMS, Pixels, side_of
from .tokenizer import byte_tokenizer

IMAGE = "<image>"
BYTES = 256
LONGEST = 3
"""Squares that a picture is at most long or high."""


class TinyProcessor:
    """Texts with `<image>` in them and pictures (Pillow) to ids and pixels.

    >>> processor = nnatlas.load("tiny:llava").processor
    >>> processor(text=["<image> What is this?"], images=[picture]).data.keys()
    dict_keys(['input_ids', 'attention_mask', 'pixel_values'])
    """

    image_token = IMAGE

    def __init__(self, model: Any, vision: Any, form: str, image_token_id: int, tokens: int | None = None) -> None:
        self.model, self.vision, self.form, self.image_token_id = model, vision, form, image_token_id
        self.tokens = tokens
        self.tokenizer = byte_tokenizer(max(259, image_token_id + 1), {image_token_id: IMAGE})
        self._counts: dict[tuple[int, ...], int] = {}
        self._takes = {name for one in (model, self._reader) for name in _parameters(one)}

    @property
    def _reader(self) -> Any:
        """The outermost module that makes features of images."""
        return next((one for one in self.model.modules() if hasattr(one, "get_image_features")), self.model)

    def __call__(
        self,
        text: str | Sequence[str],
        images: Sequence[Any] | None = None,
        *,
        return_tensors: str = "pt",
        **keywords: Any,
    ) -> BatchFeature:
        """One text with all of its pictures, in the order of their places in it."""
        texts = [text] if isinstance(text, str) else list(text)
        pictures = [self.picture(one) for one in images or ()]
        if len(texts) != 1 or texts[0].count(IMAGE) != len(pictures):
            raise InputError(f"one text with {len(pictures)} times {IMAGE}, please, not {texts!r}")
        pixels = self.pixels(pictures) if pictures else {}
        ids = self.tokenizer(self._spelled(texts[0], pictures), **keywords)["input_ids"]
        given = {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.long)}
        return BatchFeature(given | self._marks(given["input_ids"], pixels) | pixels)

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], **keywords: Any) -> Any:
        """Messages as text; a piece of content of type `image` becomes `<image>`."""
        plain = [{**message, "content": _as_text(message["content"])} for message in messages]
        return self.tokenizer.apply_chat_template(plain, **{"tokenize": False, **keywords})

    def picture(self, given: Any) -> Tensor:
        """A picture `[3, height, width]` between -1 and 1."""
        wide, high = self._size(*given.size)
        small = given.convert("RGB").resize((wide, high))
        flat = torch.frombuffer(bytearray(small.tobytes()), dtype=torch.uint8)
        return flat.reshape(high, wide, 3).permute(2, 0, 1).float() / 127.5 - 1

    def _size(self, wide: int, high: int) -> tuple[int, int]:
        """What a picture is resized to: a square, or as many side by side as it is about as long as, where any size is taken."""
        side = side_of(self.vision)
        longer = min(LONGEST, round(max(wide, high) / min(wide, high))) if self.form in ANY_SIZE else 1
        return (side * longer, side) if wide > high else (side, side * longer)

    def pixels(self, pictures: Sequence[Tensor]) -> Pixels:
        """What the forward takes of these pictures."""
        made = FORMS[self.form](self.vision, pictures)
        if (second := getattr(self.model.config, "high_res_vision_config", None)) is not None:
            finer = (side_of(second), side_of(second))
            made["high_res_pixel_values"] = torch.nn.functional.interpolate(made["pixel_values"], finer)
        return {name: value for name, value in made.items() if name in self._takes}

    def count(self, picture: Tensor) -> int:
        """How many tokens a picture becomes."""
        if self.tokens is not None:
            return self.tokens
        size = tuple(picture.shape)
        if size not in self._counts:
            with torch.no_grad():
                features = self._reader.get_image_features(**self.pixels([picture]), return_dict=True)
            pooled = getattr(features, "pooler_output", None)
            self._counts[size] = _rows(features.last_hidden_state if pooled is None else pooled)
        return self._counts[size]

    def _spelled(self, text: str, pictures: Sequence[Tensor]) -> str:
        pieces = text.split(IMAGE)
        places = (IMAGE * self.count(one) for one in pictures)
        return pieces[0] + "".join(place + piece for place, piece in zip(places, pieces[1:], strict=True))

    def _marks(self, ids: Tensor, pixels: Pixels) -> dict[str, Tensor]:
        """Which tokens are the image's and which may look at it, under the names that forwards ask for it."""
        stands = (ids == self.image_token_id).long()
        made = dict.fromkeys(("mm_token_type_ids", "token_type_ids", "image_embeds_position_mask"), stands)
        if canvas := getattr(self.model.config, "canvas_length", 0):  # else it is drawn at random
            made["decoder_input_ids"] = torch.arange(canvas)[None]
        if pixels:
            count = next(iter(pixels.values())).shape[1]
            made["image_attention_mask"] = torch.ones(*ids.shape, count, dtype=torch.long)
            tiles = pixels.get("aspect_ratio_mask", torch.ones(1, count, 1, dtype=torch.long))
            made["qformer_input_ids"] = ids[ids < BYTES][None, :6]
            made["qformer_attention_mask"] = torch.ones_like(made["qformer_input_ids"])
            made["cross_attention_mask"] = tiles[:, None].expand(-1, ids.shape[1], -1, -1).clone()
        return {name: value for name, value in made.items() if name in self._takes}


def _parameters(module: Any) -> Iterable[str]:
    return inspect.signature(inspect.unwrap(type(module).forward)).parameters


def _rows(features: Any) -> int:
    """Tokens in what a model calls its image features: a tensor, or one for each image."""
    if isinstance(features, Tensor):
        return features.numel() // features.shape[-1]
    return sum(map(_rows, features))


def _as_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(IMAGE if piece["type"] == "image" else piece["text"] for piece in content)
