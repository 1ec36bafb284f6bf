"""Pictures as the pixels a small wrapper takes: resized to a few patches, normed, and laid out in its form.

Each form is a function from pictures `[3, height, width]` to keyword arguments of the forward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from .config import PATCHES

Pixels = dict[str, Tensor]
Form = Callable[[Any, Sequence[Tensor]], Pixels]


def side_of(config: Any) -> int:
    """The side in pixels that a picture is resized to: the tower's own, or a few patches where it takes any size."""
    fixed, patch = _one(getattr(config, "image_size", None)), patch_of(config)
    whole = PATCHES * patch * _merge(config) // min(2, _merge(config))
    return fixed if fixed is not None and fixed <= 4 * whole else whole


def patch_of(config: Any) -> int:
    """The side of one patch in pixels."""
    return _one(getattr(config, "patch_size", None)) or 14


def _one(size: Any) -> int | None:
    size = size[0] if isinstance(size, list | tuple) and size else size
    return size if isinstance(size, int) else None


def _merge(config: Any) -> int:
    """Patches on the side of a square that become one token, where the tower says so."""
    return _one(getattr(config, "spatial_merge_size", None) or getattr(config, "merge_kernel_size", None)) or 1


def images(config: Any, pictures: Sequence[Tensor]) -> Pixels:
    """`pixel_values [images, 3, side, side]`."""
    return {"pixel_values": torch.stack(list(pictures))}


def sized(config: Any, pictures: Sequence[Tensor]) -> Pixels:
    """The same with each picture's height and width."""
    return {**images(config, pictures), "image_sizes": torch.tensor([list(one.shape[-2:]) for one in pictures])}


def tiled(config: Any, pictures: Sequence[Tensor]) -> Pixels:
    """`pixel_values [images, tiles, 3, side, side]`: the whole picture and one tile, which is all of it again."""
    stacked = torch.stack([torch.stack((one, one.flip(-1))) for one in pictures])
    return {"pixel_values": stacked, "image_sizes": torch.tensor([list(one.shape[-2:]) for one in pictures])}


def by_row(config: Any, pictures: Sequence[Tensor]) -> Pixels:
    """`pixel_values [1, images, 3, side, side]`: one row of the batch with all of its pictures."""
    return {"pixel_values": torch.stack(list(pictures))[None]}


def by_row_masked(config: Any, pictures: Sequence[Tensor]) -> Pixels:
    """The same with a mask of the row's pictures."""
    return {**by_row(config, pictures), "pixel_attention_mask": torch.ones(1, len(pictures), dtype=torch.bool)}


def packed(config: Any, pictures: Sequence[Tensor]) -> Pixels:
    """`pixel_values [patches, channels * times * side * side]` of all pictures end to end, with each one's grid.

    The patches of one square that is merged into a token stand together (Qwen2-VL's order).
    """
    patch, merge = patch_of(config), _merge(config)
    times = _one(getattr(config, "temporal_patch_size", None) or getattr(config, "patch_temporal", None)) or 1
    flat, grids = [], []
    for one in pictures:
        rows, columns = (length // patch for length in one.shape[-2:])
        cut = one.reshape(3, rows // merge, merge, patch, columns // merge, merge, patch)
        cut = cut.permute(1, 4, 2, 5, 0, 3, 6)  # grid of squares, square, channels, patch
        cut = cut[..., None, :, :].expand(*cut.shape[:5], times, patch, patch)
        flat.append(cut.reshape(rows * columns, -1))
        grids.append([1, rows, columns])
    merges = torch.full((len(pictures),), merge)
    return {"pixel_values": torch.cat(flat), "image_grid_thw": torch.tensor(grids), "image_merge_sizes": merges}


def squares(config: Any, pictures: Sequence[Tensor]) -> Pixels:
    """`pixel_values [patches, 3, patch, patch]` of all pictures end to end, row by row, with each one's grid."""
    patch = patch_of(config)
    cut = [one.unfold(1, patch, patch).unfold(2, patch, patch) for one in pictures]  # 3, rows, columns, patch, patch
    flat = [one.permute(1, 2, 0, 3, 4).flatten(0, 1) for one in cut]
    return {"pixel_values": torch.cat(flat), "image_grid_thw": torch.tensor([[1, *one.shape[1:3]] for one in cut])}


def flat_squares(config: Any, pictures: Sequence[Tensor]) -> Pixels:
    """`pixel_values [patches, 3 * patch * patch]` of all pictures end to end, row by row, with rows and columns of each."""
    made = squares(config, pictures)
    return {"pixel_values": made["pixel_values"].flatten(1), "image_grid_hw": made["image_grid_thw"][:, 1:]}


def cells(config: Any, pictures: Sequence[Tensor]) -> Pixels:
    """`pixel_values [cells, side, side, 3]`: each cell as many pixels as become one token, with the grid of cells."""
    side = patch_of(config) * _merge(config)
    cut = [one.unfold(1, side, side).unfold(2, side, side) for one in pictures]
    flat = [one.permute(1, 2, 3, 4, 0).flatten(0, 1) for one in cut]
    return {"pixel_values": torch.cat(flat), "image_grid_thw": torch.tensor([[1, *one.shape[1:3]] for one in cut])}


def shaped(config: Any, pictures: Sequence[Tensor]) -> Pixels:
    """`pixel_values [images, patches, patch * patch * 3]` with each picture's rows and columns, and a mask of the patches."""
    patch = patch_of(config)
    cut = [one.unfold(1, patch, patch).unfold(2, patch, patch) for one in pictures]
    flat = torch.stack([one.permute(1, 2, 3, 4, 0).flatten(0, 1).flatten(1) for one in cut])
    shapes = torch.tensor([list(one.shape[1:3]) for one in cut])
    return {"pixel_values": flat, "spatial_shapes": shapes, "pixel_attention_mask": torch.ones(flat.shape[:2]).long()}


def strip(config: Any, pictures: Sequence[Tensor]) -> Pixels:
    """`pixel_values [1, 3, patch, patches * patch]`: the patches of all pictures side by side, with rows and columns of each."""
    patch = patch_of(config)
    cut = [one.unfold(1, patch, patch).unfold(2, patch, patch) for one in pictures]  # 3, rows, columns, patch, patch
    flat = torch.cat([one.permute(0, 3, 1, 2, 4).flatten(2) for one in cut], -1)
    return {"pixel_values": flat[None], "target_sizes": torch.tensor([list(one.shape[1:3]) for one in cut])}


def positioned(config: Any, pictures: Sequence[Tensor]) -> Pixels:
    """`pixel_values [images, patches, 3 * patch * patch]` and each patch's column and row (-1 where it is filling)."""
    patch = _one(getattr(config, "model_patch_size", None)) or patch_of(config)
    cut = [one.unfold(1, patch, patch).unfold(2, patch, patch).permute(1, 2, 3, 4, 0) for one in pictures]
    places = [torch.cartesian_prod(*(torch.arange(size) for size in one.shape[:2])).flip(-1) for one in cut]
    flat = torch.stack([one.flatten(0, 1).flatten(1) for one in cut]) / 2 + 0.5
    return {"pixel_values": flat, "image_position_ids": torch.stack(places)}


def films(config: Any, pictures: Sequence[Tensor]) -> Pixels:
    """`pixel_values [films, frames, 3, side, side]`: each picture is a film of one frame."""
    return {"pixel_values": torch.stack(list(pictures))[:, None]}


def cubes(config: Any, pictures: Sequence[Tensor]) -> Pixels:
    """`pixel_values [patches, times, patch, patch, 3]` of all pictures end to end, row by row."""
    patch = patch_of(config)
    cut = [one.unfold(1, patch, patch).unfold(2, patch, patch).permute(1, 2, 3, 4, 0) for one in pictures]
    flat = torch.cat([one.flatten(0, 1) for one in cut])[:, None]
    return {"pixel_values": flat.expand(-1, getattr(config, "temporal_patch_size", 1), -1, -1, -1).contiguous()}


def flattened(config: Any, pictures: Sequence[Tensor]) -> Pixels:
    """`flattened_patches [images, patches, 2 + 3 * patch * patch]`: row and column, from 1, in front of each one's pixels."""
    patch = patch_of(config)
    cut = [one.unfold(1, patch, patch).unfold(2, patch, patch).permute(1, 2, 3, 4, 0) for one in pictures]
    places = [torch.cartesian_prod(*(torch.arange(1, size + 1) for size in one.shape[:2])) for one in cut]
    flat = [torch.cat((at, one.flatten(0, 1).flatten(1)), 1) for at, one in zip(places, cut, strict=True)]
    return {"flattened_patches": torch.stack(flat)}


def pooled(config: Any, pictures: Sequence[Tensor]) -> Pixels:
    """`pixel_values [crops, patches, patch * patch * 3]`, the four patches that make each token, and the grid of tokens."""
    patch = patch_of(config)
    cut = [one.unfold(1, patch, patch).unfold(2, patch, patch).permute(1, 2, 3, 4, 0) for one in pictures]
    rows, columns = cut[0].shape[:2]
    numbers = torch.arange(len(cut) * rows * columns).reshape(len(cut), rows // 2, 2, columns // 2, 2)
    grids = torch.tensor([[rows // 2, columns // 2, 0, 0]] * len(cut))
    return {
        "pixel_values": torch.stack([one.flatten(0, 1).flatten(1) for one in cut]),
        "image_token_pooling": numbers.transpose(2, 3).reshape(-1, 4),
        "image_grids": grids,
        "image_num_crops": torch.ones(len(cut), dtype=torch.long),
    }


def in_tiles(config: Any, pictures: Sequence[Tensor]) -> Pixels:
    """`pixel_values [1, images, tiles, 3, side, side]` with the shape that the tiles make, and a mask of them."""
    tiles = getattr(config, "max_num_tiles", 1)
    stacked = torch.zeros(1, len(pictures), tiles, *pictures[0].shape) if pictures else torch.zeros(0)
    stacked[0, :, 0] = torch.stack(list(pictures))
    mask = torch.zeros(1, len(pictures), tiles, dtype=torch.long)
    mask[..., 0] = 1
    return {"pixel_values": stacked, "aspect_ratio_ids": torch.ones(1, len(pictures)).long(), "aspect_ratio_mask": mask}


FORMS: dict[str, Form] = {
    form.__name__: form
    for form in (
        images,
        sized,
        tiled,
        by_row,
        by_row_masked,
        packed,
        squares,
        flat_squares,
        cells,
        shaped,
        strip,
        positioned,
        films,
        cubes,
        flattened,
        pooled,
        in_tiles,
    )
}
ANY_SIZE = ("packed", "squares", "flat_squares")
"""Forms in which the pictures of a call may differ in size."""
