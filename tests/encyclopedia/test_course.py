"""The course of the stream: what reads what, found on small blocks whose arithmetic is known, and on tiny models of the types."""

from __future__ import annotations

import pytest
import torch

from nnatlas.encyclopedia.course import (
    ANEW,
    CHANNELS,
    MIXED,
    PLUS,
    SCALED,
    NoCourse,
    Seen,
    course,
    from_data,
    loose,
    to_data,
)
from nnatlas.encyclopedia.wiring import explained

PARTS = frozenset({"attn", "attn2", "mlp"})


def seen(**reads):
    """Modules in the order of calls, each with the one sum, or the sums, that it reads."""
    return [Seen(path, path.title(), tuple(one) if isinstance(one, list) else (one,)) for path, one in reads.items()]


def chains(steps):
    return [[add.chain for add in step.adds] for step in steps]


def numbers(*rows):
    return torch.tensor(rows, dtype=torch.double)


class TestExplained:
    torch.manual_seed(0)
    x, y = torch.randn(24, 8, dtype=torch.double), torch.randn(24, 8, dtype=torch.double)

    def test_a_sum_with_its_factors(self):
        assert explained(self.x - 0.22 * self.y, {"x": self.x, "y": self.y}) == {"x": 1, "y": -0.22}

    def test_what_takes_no_part_is_left_out(self):
        assert explained(2 * self.y, {"x": self.x, "y": self.y}) == {"y": 2}

    def test_a_factor_by_channel(self):
        gain = torch.arange(1, 9, dtype=torch.double)
        assert explained(gain * self.x + self.y, {"x": self.x, "y": self.y}) == {"x": CHANNELS, "y": 1}

    def test_no_sum_is_none(self):
        assert explained(self.x * self.y, {"x": self.x, "y": self.y}) is None
        assert explained(self.x.relu(), {"x": self.x, "y": self.y}) is None

    def test_another_size_is_none(self):
        assert explained(self.x[:, :4], {"x": self.x}) is None

    def test_too_few_tokens_tell_no_factor_by_channel(self):
        few, other = self.x[:5], self.y[:5]
        assert explained(torch.arange(8) * few + other.relu(), {"x": few, "y": other}) is None


X = {"layer_input": 1}


class TestCourse:
    def test_one_after_the_other(self):
        nodes = seen(norm=X, attn={"norm": 1}, norm2=X | {"attn": 1}, mlp={"norm2": 1})
        steps = course(nodes, X | {"attn": 1, "mlp": 1}, PARTS)
        assert chains(steps) == [[["norm", "attn"]], [["norm2", "mlp"]]]
        assert not any(step.join or step.stream or step.whole or step.stands for step in steps)

    def test_side_by_side_under_one_norm(self):
        nodes = seen(norm=X, attn={"norm": 1}, mlp={"norm": 1})
        assert chains(course(nodes, X | {"attn": 1, "mlp": 1}, PARTS)) == [[["norm", "attn"], ["norm", "mlp"]]]

    def test_a_shortcut_waits_for_two_sums(self):
        after = X | {"attn": 1}
        nodes = seen(norm=X, attn={"norm": 1}, norm2=after, mlp={"norm2": 1}, dense={"norm2": 1},
                     norm3=after | {"dense": 1}, attn2={"norm3": 1})  # fmt: skip
        steps = course(nodes, after | {"dense": 1, "mlp": 1, "attn2": 1}, PARTS)
        assert chains(steps) == [[["norm", "attn"]], [["norm2", "dense"]], [["norm2", "mlp"], ["norm3", "attn2"]]]
        assert [add.waits for add in steps[-1].adds] == [1, 0]

    def test_a_norm_that_stands_on_the_stream(self):
        nodes = seen(attn=X, norm=X | {"attn": 1}, mlp={"norm": 1})
        steps = course(nodes, {"norm": 1, "mlp": 1}, PARTS)
        assert chains(steps) == [[["attn"]], [["mlp"]]]
        assert [step.stands for step in steps] == [["norm"], []]

    def test_scales_of_a_branch_the_stream_and_the_whole(self):
        nodes = seen(attn=X, mlp=X | {"attn": 0.5})
        branch, both = course(nodes, {"layer_input": 2, "attn": 1, "mlp": 1}, PARTS)
        assert (branch.adds[0].scale, both.stream, both.whole) == (SCALED, SCALED, "")
        _, whole = course(nodes[:1] + seen(mlp=X | {"attn": 1}), {"layer_input": 3, "attn": 3, "mlp": 3}, PARTS)
        assert (whole.whole, whole.stream, whole.adds[0].scale) == (SCALED, "", "")

    def test_a_module_that_joins(self):
        nodes = seen(norm=X, attn={"norm": 1}, gate=[X, {"attn": 1}], mlp={"gate": 1})
        first, second = course(nodes, {"gate": 1, "mlp": 1}, PARTS)
        assert (first.join, chains([first])) == ("gate", [[["norm", "attn"]]])
        assert (second.join, chains([second])) == ("", [[["mlp"]]])

    def test_a_branch_that_takes_the_streams_place(self):
        nodes = seen(norm=X, attn={"norm": 1}, mlp={"attn": 1})
        first, second = course(nodes, {"attn": 1, "mlp": 1}, PARTS)
        assert (first.join, chains([first, second])) == (ANEW, [[["norm", "attn"]], [["mlp"]]])

    def test_what_is_added_for_one_reader_alone(self):
        nodes = seen(shared=[None], norm=X | {"shared": 1}, attn={"norm": 1})
        assert chains(course(nodes, X | {"attn": 1}, PARTS)) == [[["shared", PLUS, "norm", "attn"]]]

    def test_no_sum_is_no_course(self):
        with pytest.raises(NoCourse, match="no sum"):
            course(seen(attn=X), None, PARTS)

    def test_it_is_read_as_it_was_written(self):
        nodes = seen(norm=X, attn={"norm": 1}, gate=[X, {"attn": 1}], mlp={"gate": 1})
        steps = course(nodes, {"gate": 1, "mlp": 0.5}, PARTS)
        assert from_data(to_data(steps)) == steps


def test_without_a_course_branches_begin_where_the_stream_is_read_again():
    nodes = seen(hc=X, norm=None, attn={"norm": 1}, hc2=None, norm2=None, mlp={"norm2": 1})
    steps = loose(nodes, PARTS)
    assert chains(steps) == [[["hc", "norm", "attn"]], [["hc2", "norm2", "mlp"]]]
    assert {step.join for step in steps} == {MIXED}


def test_without_a_course_readers_of_one_norm_stand_side_by_side():
    steps = loose(seen(norm=None, low={"norm": 1}, attn={"norm": 1}), PARTS)
    assert chains(steps) == [[["norm", "low"], ["norm", "attn"]]]
