"""Named axes, and the layouts that values come in.

A layout is a tuple of axis names; its sizes are a model's (or, where blocks differ, a block's).  `fault` is the one
shape check of the library: it says in words what does not fit, or None.  Axes such as `batch`, `seq` or `tokens` belong to
a call rather than to a model, so they are free: they only have to agree with themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from nnatlas._record import Record

AXES: Final = {
    "batch": "rows of the batch",
    "seq": "positions of this call (with a cache: the new ones)",
    "query": "positions that attend",
    "key": "positions attended to, the cached ones included",
    "tokens": "the tokens that reached one expert, in order",
    "hidden_size": "width of the residual stream",
    "vocab_size": "entries of the vocabulary",
    "num_heads": "query heads",
    "num_kv_heads": "key/value heads, before they are repeated for their query heads",
    "qk_head_dim": "width of one query or key head",
    "head_dim": "width of one value head",
    "intermediate_size": "neurons of the MLP (of one expert, in a mixture)",
    "num_experts": "experts a router chooses among",
    "top_k": "experts each token goes to",
    "streams": "parallel residual streams",
    "num_key_heads": "heads (or groups of heads) that share keys and queries in a recurrent mixer",
    "key_head_dim": "width of one key or query of a recurrent mixer",
    "value_head_dim": "width of one value of a recurrent mixer",
    "state_size": "numbers that a state space model keeps for each of its channels",
    "channels": "channels of a recurrent mixer",
    "conv_channels": "channels of a mixer's short convolution",
    "parts": "pieces that a recurrent state is kept in",
    "conv_width": "positions that a short convolution sees, its own included",
    "images": "images of the call, those of all its rows in order",
    "tiles": "pieces that images were cut into, each seen as an image of its own",
    "patches": "patches of one image, row by row",
    "class_and_patches": "the class token, then the patches of one image",
    "patches_and_queries": "the patches of one image, then learned queries that read them",
    "patches_and_class": "the patches of one tile, then the class token",
    "tiles_and_patches": "tile after tile, the class token of each in front of its patches, rows of filling behind",
    "packed_patches": "the patches of all images, one image after the other, without padding",
    "windowed_patches": "the patches of all images, window after window",
    "groups": "images, or windows of them, whose patches attend among themselves: a row each, filled up to the longest",
    "image_tokens": "places of images in the token stream, in order",
    "frames": "frames of the first picture: the convolution over rows and columns is called once for each",
    "rows": "rows of patches",
    "columns": "patches of a row",
    "windows": "squares of patches that attend among themselves",
    "windows_and_heads": "head after head, window after window",
    "one": "an axis of length 1",
}


class Layout(Record):
    """A name for an ordered set of axes, such as Queries = `batch num_heads seq qk_head_dim`."""

    name: str
    axes: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name} [{' '.join(self.axes)}]" if self.axes else self.name


def _layout(name: str, axes: str) -> Layout:
    return Layout(name, tuple(axes.split()))


LAYOUTS: Final = {
    layout.name: layout
    for layout in (
        _layout("Tokens", "batch seq"),
        _layout("Residual", "batch seq hidden_size"),
        _layout("Logits", "batch seq vocab_size"),
        _layout("NextTokenProbs", "batch vocab_size"),
        _layout("Queries", "batch num_heads seq qk_head_dim"),
        _layout("Keys", "batch num_kv_heads seq qk_head_dim"),
        _layout("Values", "batch num_kv_heads seq head_dim"),
        _layout("Pattern", "batch num_heads query key"),
        _layout("HeadOutputs", "batch seq num_heads head_dim"),
        _layout("HeadResidual", "batch seq num_heads hidden_size"),
        _layout("Neurons", "batch seq intermediate_size"),
        _layout("Routing", "batch seq num_experts"),
        _layout("TopExperts", "batch seq top_k"),
        _layout("ExpertNeurons", "tokens intermediate_size"),
        _layout("ImageTokens", "image_tokens hidden_size"),
        _layout("Groups", "seq"),
        _layout("Scalar", ""),
        _layout("Own", ""),  # the family's own axes: its cell says which
    )
}


def custom(axes: Sequence[str]) -> Layout:
    """The named layout with these axes, or one of the family's own."""
    wanted = tuple(axes)
    return next((known for known in LAYOUTS.values() if known.axes == wanted and wanted), Layout("Own", wanted))


def fault(layout: Layout, shape: Sequence[int], sizes: Mapping[str, int]) -> str | None:
    """Why `shape` is not of this layout with these sizes, in words; None if it is.

    >>> fault(LAYOUTS["Tokens"], (1, 6, 64), {})
    'Tokens [batch seq] has 2 axes, the tensor has 3: [1, 6, 64]'
    """
    if not layout.axes:
        return None
    if len(shape) != len(layout.axes):
        return f"{layout} has {len(layout.axes)} axes, the tensor has {len(shape)}: {list(shape)}"
    for axis, size in zip(layout.axes, shape, strict=True):
        if axis in sizes and sizes[axis] != size:
            return f"{layout}: {axis} is {sizes[axis]} here, the tensor has {size}: {list(shape)}"
    return None
