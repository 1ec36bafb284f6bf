"""Drawings of all families: nothing overlaps, nothing leaves the paper, every wire ends somewhere."""

from __future__ import annotations

from itertools import combinations

import pytest

from nnatlas import families
from nnatlas.encyclopedia import measurements
from nnatlas.encyclopedia.drawing import WIDTH, Box
from nnatlas.encyclopedia.outline import kept
from nnatlas.encyclopedia.page import pictures, row_of


def drawings(model_type: str):
    outline = kept(model_type)
    found = measurements.measured(model_type)
    return [one.drawing for one in pictures(outline, row_of(outline, families.rows()[model_type]), found)]


def overlap(one: Box, other: Box) -> bool:
    beside = one.x + one.width <= other.x or other.x + other.width <= one.x
    return not (beside or one.y + one.height <= other.y or other.y + other.height <= one.y)


@pytest.mark.parametrize("model_type", measurements.types())
def test_boxes_lie_apart_and_on_the_paper(model_type):
    for drawn in drawings(model_type):
        assert [(a.chip.text, b.chip.text) for a, b in combinations(drawn.boxes, 2) if overlap(a, b)] == []
        assert [
            box.chip.text
            for box in drawn.boxes
            if box.x < 0 or box.x + box.width > WIDTH or box.y + box.height > drawn.height
        ] == []


@pytest.mark.parametrize("model_type", measurements.types())
def test_contributions_of_the_identity_are_drawn_once(model_type):
    outline = kept(model_type)
    for picture in pictures(outline, row_of(outline, families.rows()[model_type]), measurements.measured(model_type)):
        named = [box.chip.key for box in picture.drawing.boxes if box.chip.key]
        assert len(named) == len(set(named)), f"{model_type}: a value is drawn twice"
        for term in ("attention_output", "mlp_output"):
            if f"+ {term}" in picture.identity:
                assert sum(key.endswith(f".{term}") for key in named) == 1


def test_every_block_is_drawn_by_one_picture():
    for model_type in measurements.types():
        outline = kept(model_type)
        shown = [
            n for one in pictures(outline, row_of(outline, families.rows()[model_type]), None) for n in one.numbers
        ]
        assert sorted(shown) == list(range(outline.blocks)), model_type
