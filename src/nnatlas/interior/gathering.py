"""Attention that is called once for each image or window: all of its calls together, as one place.

Towers that lay all patches end to end attend within each image, or within each window of one, by a call of their own for
each, and then lay the outputs end to end again.  While something inside such an attention is wanted, every call is put off
and answered with a stand-in.  The first use of a stand-in by the forward shows that all calls have been made.  Then the
body is stopped once for all of them, the calls are done, and the stand-ins give way to what came of them.

Queries, keys, values and outputs lie as the patches of the stream do.  A pattern has a row for each group of patches that
attend among themselves, filled up to the longest: the least number in scores, nought in probabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._pytree import tree_map_only

from nnatlas.interior.masks import additive

Function = Callable[..., Any]
Filter = Callable[[Tensor], Tensor]
FLASH_ENDS = "cu_seq_lens_q"
"""The keyword with which a flash implementation is told, in one call, where each group begins and the last one ends."""


class Inside(Protocol):
    """What is done inside the calls: see `attention.Looks`."""

    def wants(self, *steps: str) -> bool: ...

    def stop(self, step: str, *tensors: Any) -> list[Any]: ...

    def watched(self, eager: Function, *args: Any, before: Filter, after: Filter, **kwargs: Any) -> Any: ...


class Pending(Tensor):
    """Stands for the output of one attention call until the forward first computes with it."""

    gathering: Gathering
    number: int

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map_only(Pending, lambda one: one.gathering.outputs[one.number], (args, kwargs or {}))
        return function(*args, **kwargs)


class Called(NamedTuple):
    """One call that was put off: queries, keys and values `[1, heads, length, width]`, its mask and whatever else."""

    inputs: tuple[Tensor, ...]
    mask: Any
    rest: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def length(self) -> int:
        return self.inputs[0].shape[2]


class Gathering:
    """The attention calls of one forward of a module; `over` is called once no more can come.

    `configured` is the implementation that would have run, `eager` finds a module's step-by-step one.
    """

    def __init__(self, looks: Inside, configured: Function, eager: Function, module: nn.Module, over: Function) -> None:
        self.looks, self.configured, self.eager, self.module, self.over = looks, configured, eager, module, over
        self.calls: list[Called] = []
        self._outputs: Sequence[Tensor] = ()

    def put_off(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Any = None, *rest: Any, **kwargs: Any
    ) -> tuple[Pending, None]:
        """Take a call in, and give what stands for its output; no weights come with it."""
        mask = kwargs.pop("attention_mask", mask)
        self.calls.append(Called((query, key, value), mask, rest, kwargs))
        stands: Any = torch.empty(0).as_subclass(Pending)
        stands.gathering, stands.number = self, len(self.calls) - 1
        return stands, None

    @property
    def outputs(self) -> Sequence[Tensor]:
        """What the calls give, each `[1, length, heads, width]`."""
        if not self._outputs:
            self.over()
            self._outputs = self._run().split([call.length for call in self.calls], 1)
        return self._outputs

    @property
    def lengths(self) -> list[int]:
        """How many patches attend among themselves, group after group."""
        ends = self.calls[0].kwargs.get(FLASH_ENDS)
        return [call.length for call in self.calls] if ends is None else ends.diff().tolist()

    def _run(self) -> Tensor:
        joined = [_joined([call.inputs[at] for call in self.calls], 2) for at in range(3)]
        lengths = torch.tensor(self.lengths, device=joined[0].device)
        groups = torch.repeat_interleave(torch.arange(len(lengths), device=lengths.device), lengths)
        inputs = self.looks.stop("inputs", *joined, groups)[:3]
        way = self._step_by_step if self.looks.wants("scores", "probabilities") else self._as_configured
        output: Tensor = self.looks.stop("out", way(inputs))[0]
        return output

    def _as_configured(self, inputs: list[Tensor]) -> Tensor:
        """Each call as it was made."""
        parts = zip(*(packed.split([call.length for call in self.calls], 2) for packed in inputs), strict=True)
        calls = zip(self.calls, parts, strict=True)
        return _joined([self.configured(self.module, *own, c.mask, *c.rest, **c.kwargs)[0] for c, own in calls], 1)

    def _step_by_step(self, inputs: list[Tensor]) -> Tensor:
        """All groups as the rows of one batch, which one step-by-step call attends in."""
        lengths, first = self.lengths, self.calls[0]
        query, key, value = (_in_rows(packed, lengths) for packed in inputs)
        filling = (
            torch.arange(query.shape[2], device=query.device) >= torch.tensor(lengths, device=query.device)[:, None]
        )
        filled = lambda number: lambda found: found.masked_fill(filling[:, None, :, None], number(found))
        output, _ = self.looks.watched(
            self.eager(self.module), self.module, query, key, value, self._mask(inputs), *first.rest,
            before=filled(lambda scores: torch.finfo(scores.dtype).min), after=filled(lambda _: 0), **first.kwargs,
        )  # fmt: skip
        return torch.cat([row[None, :length] for row, length in zip(output, lengths, strict=True)], 1)

    def _mask(self, inputs: list[Tensor]) -> Tensor:
        """What each group may attend to, `[groups, 1, longest, longest]`: itself, less what its own mask leaves out."""
        lengths, causal = self.lengths, self.calls[0].kwargs.get("is_causal")
        own = [call.mask for call in self.calls] if len(self.calls) == len(lengths) else [None] * len(lengths)
        queries, keys = (packed.split(lengths, 2) for packed in inputs[:2])
        groups = zip(own, queries, keys, strict=True)
        masks = [additive(self.module, mask, query, key, causal) for mask, query, key in groups]
        least, longest = torch.finfo(masks[0].dtype).min, max(lengths)
        return torch.cat(
            [F.pad(one, (0, longest - one.shape[3], 0, longest - one.shape[2]), value=least) for one in masks]
        )


def _joined(parts: list[Tensor], axis: int) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, axis)


def _in_rows(packed: Tensor, lengths: list[int]) -> Tensor:
    """`[1, heads, patches, width]` as `[groups, heads, longest, width]`, filled up with zeros."""
    longest = max(lengths)
    return torch.cat([F.pad(one, (0, 0, 0, longest - one.shape[2])) for one in packed.split(lengths, 2)])
