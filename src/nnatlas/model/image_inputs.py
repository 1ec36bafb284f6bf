"""Prompts with images: texts, pictures and chat messages through the wrapper's processor, one row of a batch at a time.

Processors disagree on how pictures of several prompts are handed in, and some take no prompt without one.  So each row goes
through the processor alone, exactly as it would by itself, and the rows are joined: ids padded on the left, pictures end to
end (or, where the wrapper keeps them by row, filled up to the same number).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nnatlas.bind.paths import above
from nnatlas.bind.tower import BoundTower
from nnatlas.engine.inputs import Batch, Preparer, _is_chat
from nnatlas.errors import InputError
from nnatlas.model.pictures import listed, opened, pictures_in, with_places

_BY_TOKEN = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids", "image_embeds_position_mask")
_BY_TOKEN_AND_IMAGE = ("image_attention_mask", "cross_attention_mask")
_BY_ROW = ("by_row", "by_row_masked", "in_tiles")
"""Forms in which pixels have an axis for the rows of the batch."""
POOLING = "image_token_pooling"
"""Which patches become a token, by number among all patches of the call; -1 for none."""
_SIDE_BY_SIDE = ("strip",)
"""Forms in which the patches of all pictures stand side by side."""


class ImagePreparer(Preparer):
    """Prepares text as any model's preparer does, and prompts with `images=` through the processor."""

    def __init__(self, module: nn.Module, tower: BoundTower, processor: Any, tokenizer: Any, positions: bool) -> None:
        super().__init__(module, tokenizer, positions)
        self.tower, self.processor = tower, processor
        if "pixel_values" not in self._forward:  # it hands on whatever else it is called with
            self._forward |= _parameters(above(module, tower.root.path)[-1])

    def __call__(self, inputs: Any, keywords: Mapping[str, Any], also: Iterable[str] = ()) -> Batch:
        """As for text where no image is given; else every row goes through the processor by itself, and the rows are joined.

        Row by row, since processors pad on the right and place images by themselves; so a row is what it is alone.
        """
        images = keywords.get("images")
        rest = {name: value for name, value in keywords.items() if name != "images"}
        if images is None and not (_is_chat(inputs) and pictures_in(inputs)):
            self._refuse_places(inputs)
            return super().__call__(inputs, rest, also)
        for_processor, for_call = self._known(tuple(also)).sort(rest)
        batch = self._joined([self._row(text, own, for_processor) for text, own in self._rows(inputs, images)])
        batch = {name: self._own(value) for name, value in (batch | for_call).items()}
        self._check(batch)
        return batch if also or self.tower.counts_positions else self._with_positions(batch)

    # -- rows --------------------------------------------------------------------------------------------------------

    def _rows(self, inputs: Any, images: Any) -> list[tuple[str, list[Any]]]:
        """Each prompt with its own pictures."""
        if self.processor is None:
            raise InputError(
                f"this model was loaded without a processor{_without_torchvision()}: load(..., processor=...)"
            )
        if _is_chat(inputs):
            talks = [inputs] if isinstance(inputs[0], Mapping) else inputs
            shared = [None] * len(talks) if images is None else _shared_out(images, talks)
            return [self._from_chat(talk, own) for talk, own in zip(talks, shared, strict=True)]
        texts = [inputs] if isinstance(inputs, str) else inputs
        if not isinstance(texts, Sequence) or not texts or not all(isinstance(text, str) for text in texts):
            raise InputError("with images= the prompt is a string, a list of strings, or chat messages")
        return list(zip(texts, _shared_out(images, texts), strict=True))

    def _from_chat(self, talk: Sequence[Mapping[str, Any]], images: list[Any] | None) -> tuple[str, list[Any]]:
        """Messages as the processor's template writes them; places without a picture take theirs from `images`, in order."""
        own = pictures_in(talk)
        lacking = own.count(None)
        if own and not lacking and images:
            raise InputError("the messages carry their images already; leave images= away")
        if own and lacking != len(images or ()):
            raise InputError(f"the messages have {lacking} places without a picture; images= has {len(images or ())}")
        text = self.processor.apply_chat_template(with_places(talk), tokenize=False, add_generation_prompt=True)
        more = iter(images or ())
        filled = [next(more) if one is None else opened(one) for one in own]
        return text, [*filled, *more]

    def _refuse_places(self, inputs: Any) -> None:
        """A text with places for pictures, of which none was handed in, would be read with noughts in them, or worse."""
        sign = getattr(self.processor, "image_token", None)
        texts = [inputs] if isinstance(inputs, str) else inputs if isinstance(inputs, list | tuple) else []
        for text in texts if isinstance(sign, str) else ():
            if isinstance(text, str) and (places := text.count(str(sign))):
                raise InputError(f"the prompt has {places} places {sign!r} for no images: trace(prompt, images=[...])")

    def _row(self, text: str, pictures: list[Any], for_processor: Batch) -> Batch:
        """One prompt through the processor; pictures without a place in the text stand in front of it, a line each."""
        sign = getattr(self.processor, "image_token", None)
        places = text.count(sign) if isinstance(sign, str) else len(pictures)
        if places == 0 and pictures:
            text, places = f"{sign}\n" * len(pictures) + text, len(pictures)
        if places != len(pictures):
            raise InputError(f"the prompt has {places} places {sign!r} for {len(pictures)} images: {text!r}")
        if self.tower.wrapper.in_front and len(pictures) != 1:
            raise InputError(
                f"this model takes one picture with each prompt, which stands in front of it; got {len(pictures)}"
            )
        begin = getattr(self.tokenizer, "bos_token", None)
        if begin and text.startswith(begin):  # a template has written it already, as transformers itself looks after
            for_processor = {"add_special_tokens": False, **for_processor}
        given = {"text": [text], "return_tensors": "pt", **for_processor}
        return dict(self.processor(**given, images=pictures) if pictures else self.processor(**given))

    # -- joining -----------------------------------------------------------------------------------------------------

    def _joined(self, rows: list[Batch]) -> Batch:
        """Rows of a batch side by side, each key as its kind asks: ids and masks padded on the left to the longest row, masks of
        tokens by images widened to the most images, pictures one behind another or with an axis for the row.
        """
        width = max(row["input_ids"].shape[1] for row in rows)
        names = dict.fromkeys(name for row in rows for name in row)
        found: Batch = {}
        form = self.tower.wrapper.pictures
        for name in names:
            if name in _BY_TOKEN:
                found[name] = torch.cat([self._padded_left(row, name, width) for row in rows])
            elif name in _BY_TOKEN_AND_IMAGE:
                found[name] = self._looks(rows, name, width)
            elif name == POOLING:
                found[name] = _renumbered(rows)
            elif name == "pixel_values" and form in _SIDE_BY_SIDE:
                found[name] = torch.cat([row[name] for row in rows if name in row], -1)
            else:
                found[name] = _laid_together([row.get(name) for row in rows], form in _BY_ROW)
        return found

    def _looks(self, rows: list[Batch], name: str, width: int) -> Tensor:
        """Which tokens may look at which of their row's pictures, `[rows, tokens, pictures, ...]`; none where there are none."""
        there = [row[name] for row in rows if name in row]
        sizes = [max(lengths) for lengths in zip(*(value.shape[2:] for value in there), strict=True)]
        made = there[0].new_zeros(len(rows), width, *sizes)
        for at, row in enumerate(rows):
            if name in row:
                value = row[name][0]
                made[(at, slice(width - len(value), None), *(slice(0, length) for length in value.shape[1:]))] = value
        return made

    def _padded_left(self, row: Batch, name: str, width: int) -> Tensor:
        ids = row["input_ids"]
        value = row.get(name, torch.zeros_like(ids))
        fill = self._pad_id() if name == "input_ids" else 0
        return nn.functional.pad(value, (width - ids.shape[1], 0), value=fill)


def _renumbered(rows: list[Batch]) -> Tensor:
    """Numbers of patches among those of the row's own pictures, as numbers among those of all rows."""
    there = [row for row in rows if POOLING in row]
    counts = [math.prod(row["pixel_values"].shape[:-1]) for row in there]
    before = [sum(counts[:at]) for at in range(len(there))]
    own = [row[POOLING] for row in there]
    return torch.cat([torch.where(one < 0, one, one + past) for one, past in zip(own, before, strict=True)])


def _laid_together(values: list[Tensor | None], by_row: bool) -> Tensor:
    """Pictures of all rows end to end, smaller ones filled up with zeros; or a row of pictures for each row."""
    there = [value for value in values if value is not None]
    largest = [max(sizes) for sizes in zip(*(value.shape[1:] for value in there), strict=True)]
    if by_row:
        empty = there[0].new_zeros(1, *largest)
        return torch.cat([empty if value is None else _filled(value, largest) for value in values])
    return torch.cat([_filled(value, largest) for value in there])


def _filled(value: Tensor, sizes: list[int]) -> Tensor:
    """A tensor grown to these sizes behind its first axis."""
    if list(value.shape[1:]) == sizes:
        return value
    grown = value.new_zeros(len(value), *sizes)
    grown[tuple(slice(0, length) for length in value.shape)] = value
    return grown


def _shared_out(images: Any, prompts: Sequence[Any]) -> list[list[Any]]:
    """The pictures of each prompt: a list of lists, or for one prompt simply its pictures."""
    given = listed(images)
    nested = [one for one in given if isinstance(one, list | tuple)]
    if not nested and len(prompts) == 1:
        return [_all_opened(given)]
    if len(given) != len(prompts) or (nested and len(nested) != len(given)):
        raise InputError(
            f"{len(prompts)} prompts need {len(prompts)} lists of images, such as images=[[first], [], [second, third]]; "
            f"got {len(given)} entries, {len(nested)} of them lists"
        )
    return [_all_opened(listed(own)) for own in given]


def _all_opened(pictures: list[Any]) -> list[Any]:
    """Each picture opened; an error says which one it was."""
    found = []
    for at, one in enumerate(pictures):
        try:
            found.append(opened(one))
        except InputError as fault:
            raise InputError(f"picture {at} of {len(pictures)}: {fault}") from None
    return found


def _parameters(module: nn.Module) -> set[str]:
    return set(inspect.signature(inspect.unwrap(type(module).forward)).parameters) - {"self", "kwargs"}


def _without_torchvision() -> str:
    """What may have kept a processor from being made."""
    from transformers.utils import is_torchvision_available

    return "" if is_torchvision_available() else " (many need torchvision, which is not installed)"
