"""Positions: counted among real tokens on either side of any padding, and the same with a cache as without."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some

from nnatlas.edits import Where
from nnatlas.engine.model_call import ModelCall
from nnatlas.errors import InputError

LEFT = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
RIGHT = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
CPU = torch.device("cpu")


def prompt(mask):
    """The call that reads a whole prompt."""
    return ModelCall([2, mask.shape[1]], mask, 0, None, CPU)


def chosen(where, call):
    found = where.chosen(call)
    return [row.nonzero().flatten().tolist() for row in found]


@pytest.mark.parametrize(
    "positions, left, right",
    [
        (-1, [[4], [4]], [[2], [4]]),
        (0, [[2], [0]], [[0], [0]]),
        (1, [[3], [1]], [[1], [1]]),
        (-3, [[2], [2]], [[0], [2]]),
        ([0, -1], [[2, 4], [0, 4]], [[0, 2], [0, 4]]),
        ([], [[], []], [[], []]),
        ([[0], [-1, -2]], [[2], [3, 4]], [[0], [3, 4]]),
        (slice(1, None), [[3, 4], [1, 2, 3, 4]], [[1, 2], [1, 2, 3, 4]]),
        (slice(-2, None), [[3, 4], [3, 4]], [[1, 2], [3, 4]]),
        (slice(None, -1), [[2, 3], [0, 1, 2, 3]], [[0, 1], [0, 1, 2, 3]]),
        (slice(None, None, 2), [[2, 4], [0, 2, 4]], [[0, 2], [0, 2, 4]]),
        (slice(-3, None, 2), [[2, 4], [2, 4]], [[0, 2], [2, 4]]),
    ],
)
def test_padding_does_not_count(positions, left, right):
    for on in ("prompt", "both"):
        assert chosen(Where(positions, on), prompt(LEFT)) == left
        assert chosen(Where(positions, on), prompt(RIGHT)) == right
    assert chosen(Where(positions, "new"), prompt(LEFT)) == [[], []]


def test_everywhere_is_everywhere_and_prompt_only_is_without_padding():
    assert Where().chosen(prompt(LEFT)) is None
    assert chosen(Where(on="prompt"), prompt(LEFT)) == [[2, 3, 4], [0, 1, 2, 3, 4]]
    assert chosen(Where(slice(None)), prompt(RIGHT)) == [[0, 1, 2], [0, 1, 2, 3, 4]]


POSITIONS = some.one_of(
    some.none(),
    some.integers(-3, 9),
    some.lists(some.integers(-3, 9), max_size=3),
    some.builds(slice, *[some.none() | some.integers(-4, 9)] * 2, some.none() | some.integers(1, 3)),
)


@given(positions=POSITIONS, on=some.sampled_from(["prompt", "new", "both"]), padding=some.integers(0, 2),
       steps=some.integers(1, 4))  # fmt: skip
@settings(max_examples=200)
def test_a_cache_changes_nothing(positions, on, padding, steps):
    """What each position was given when it was read, in cached steps, is what a call without a cache gives it."""
    mask = torch.tensor([[0] * padding + [1] * (5 - padding), [1] * 5])
    where = Where(positions, on)
    try:
        found = where.columns(prompt(mask))
    except InputError:
        return  # a prompt too short for the position is refused either way
    for step in range(1, steps + 1):
        longer = torch.cat([mask, torch.ones(2, step, dtype=mask.dtype)], 1)
        cached = ModelCall([2, 1], longer, 0, 5, CPU)
        assert cached.past == 4 + step and cached.width == 5 + step
        found = torch.cat([found, cached.here(where.columns(cached))], 1)
        whole = ModelCall([2, 5 + step], longer, 0, 5, CPU)
        assert torch.equal(where.columns(whole), found)


def test_without_a_mask_every_position_is_a_token():
    call = ModelCall([2, 1], None, 7, 5, CPU)
    assert call.width == 8 and call.numbers[:, -1].tolist() == [7, 7] and bool(call.here(call.new))
    assert chosen(Where(-1), call) == chosen(Where(7), call) == [[0], [0]]
    assert chosen(Where(-1, "prompt"), call) == chosen(Where(6), call) == [[], []]


@pytest.mark.parametrize(
    "positions, on, words",
    [
        (0, "end", 'on="prompt"'),
        ("-1", "both", "whole number, a slice"),
        (True, "both", "whole number, a slice"),
        ([0, "a"], "both", "whole number, a slice"),
        ([[0], 1], "both", "whole number, a slice"),
        (slice(None, None, -1), "both", "goes forward"),
        (slice(None, None, 0), "both", "goes forward"),
        (slice("a", None), "both", "whole number, a slice"),
        (slice(0, 1.5), "both", "whole number, a slice"),
    ],
)
def test_what_means_no_position_is_refused(positions, on, words):
    with pytest.raises(InputError, match=words):
        Where(positions, on)


@pytest.mark.parametrize("positions, on", [(-4, "both"), (3, "prompt"), ([0, -4], "prompt")])
def test_a_prompt_that_is_too_short_is_an_error_not_an_edit_of_padding(positions, on):
    with pytest.raises(InputError, match=r"of row 0, which has 3 tokens"):
        Where(positions, on).chosen(prompt(LEFT))


def test_rows_must_be_as_many_as_positions():
    with pytest.raises(InputError, match="positions for 3 rows, but this call has 2"):
        Where([[0], [1], [2]]).chosen(prompt(LEFT))
