"""The nodes of a tower and its projector: as any other, but a run without images has nothing to show in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nnatlas.bind.cells import name_of
from nnatlas.bind.points import Computed, Point
from nnatlas.bind.tree import Host
from nnatlas.engine import Run
from nnatlas.errors import AlreadyRan, Unavailable
from nnatlas.interior.images import begin, forget_order

NO_IMAGES = "this run was given no images; hand them in: model.trace(prompt, images=[...])"
AT_PROMPT = "images are read with the prompt, at step 0 of a generation; this step reads one token"


_IN_THE_FORWARD = ("image_features", "image_token_mask", "attended_features")


class OfTower:
    """Mixed into the nodes of tower hosts."""

    _host: Any

    def _open_run(self, name: str) -> Run:
        run: Run = super()._open_run(name)  # type: ignore[misc]
        refuse_blind(run, self._host, name)
        if run.images_first and run.calls and name not in _IN_THE_FORWARD:
            raise AlreadyRan(
                f"{name_of(self._host, name)} has already been computed: transformers reads the images of a generation before "
                "its first step. Read it in the `with`, before the loop over run.steps()."
            )
        return run


def refuse_blind(run: Run, host: Host, name: str) -> None:
    """`Unavailable`, with the reason, for a value that a run has only with images, where it has none."""
    if (reason := absence(run)) is not None:
        raise Unavailable(f"{name_of(host, name)} is absent in this run: {reason}.", reason)


def absence(run: Run) -> str | None:
    """Why a run has no values of the tower, or None if it has them."""
    if not run.images:
        return NO_IMAGES
    return AT_PROMPT if run.calls > 1 else None


def takes_images(batch: Mapping[str, Any]) -> bool:
    """Whether a batch holds pixels, in whatever form a wrapper takes them."""
    return any(value is not None and name.startswith(_PIXELS) for name, value in batch.items())


_PIXELS = ("pixel_values", "flattened_patches", "image_patches", "high_res_pixel_values")


def seeing(run: Run, batch: Mapping[str, Any]) -> Run:
    """A run of a model that takes images, told whether this batch has any."""
    if takes_images(batch):
        run.images = True
        forget_order(run.model)
        run.begin_with(lambda: begin(run))
    return run


def refuse_without_images(points: Iterable[Point | Computed], batch: Mapping[str, Any]) -> None:
    """`Unavailable`, with the reason, if one of the points lies in a tower that this batch does not use."""
    for point in points if not takes_images(batch) else ():
        if point.in_tower:
            raise Unavailable(f"{point.name} is absent in this run: {NO_IMAGES}.", NO_IMAGES)
