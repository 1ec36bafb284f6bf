"""Pictures in every form in which they are handed in, as Pillow images in RGB.

Processors disagree on what they take and on what they make of transparency, palettes and 16 bits; here each form has one
meaning: colours as they would be shown on screen, upright, with transparency left away.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nnatlas.errors import InputError

FORMS = "a Pillow image, a path, the bytes of a file, or an array [height, width, 3] of uint8, or of floats from 0 to 1"
_CHANNELS = (1, 3, 4)
_KEYS = ("image", "path", "url", "base64", "image_url")


def opened(picture: Any) -> Any:
    """One picture as a Pillow image in RGB.

    Takes a Pillow image of any mode, a path, a `data:` URL, the bytes of an image file, and arrays or tensors
    `[height, width]`, `[height, width, channels]` or `[channels, height, width]`, uint8 or floats from 0 to 1.
    Errors: `InputError` for anything else, for a file that is not there or no image, and for an address on the network.

    >>> opened(numpy.zeros((10, 2000), dtype="uint8")).size
    (2000, 10)
    """
    if hasattr(picture, "convert") and hasattr(picture, "getbands"):
        return _in_rgb(picture)
    if isinstance(picture, str) and picture.startswith("data:"):
        picture = _decoded(picture.partition(",")[2])
    if isinstance(picture, str) and "://" in picture[:16]:
        raise InputError(f"no picture is fetched from the network: download {picture!r} and hand in its path")
    if isinstance(picture, bytes | bytearray):
        return _read(io.BytesIO(picture), f"these {len(picture)} bytes are")
    if isinstance(picture, str) or hasattr(picture, "__fspath__"):
        return _from_file(Path(picture))
    if hasattr(picture, "__array__") and not isinstance(picture, int | float):
        return _from_array(picture)
    raise InputError(f"a picture is {FORMS}; this is a {type(picture).__name__}")


def listed(images: Any) -> list[Any]:
    """What was handed in as `images`, as a list; an array with four axes is as many pictures."""
    if isinstance(images, list | tuple) or getattr(images, "ndim", 0) == 4:
        return list(images)
    return [images]


def pictures_in(talk: Sequence[Any]) -> list[Any]:
    """The pictures that chat messages carry; None for a place whose picture comes by `images=`."""
    return [_carried(piece) for message in _messages(talk) for piece in _pieces(message) if _kind(piece) == "image"]


def with_places(talk: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages with `{"type": "image"}` for each picture, as chat templates know it."""
    return [
        {**message, "content": [{"type": "image"} if _kind(one) == "image" else one for one in message["content"]]}
        if isinstance(message["content"], list)
        else dict(message)
        for message in _messages(talk)
    ]


def _messages(talk: Sequence[Any]) -> list[Any]:
    return [one for part in talk for one in (part if isinstance(part, list | tuple) else [part])]


def _pieces(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    pieces = content if isinstance(content, list) else []
    for piece in pieces:
        if _kind(piece) not in ("image", "text"):
            raise InputError(f"a piece of a message is of type text or image here, not {piece.get('type')!r}")
    return pieces


def _kind(piece: Mapping[str, Any]) -> str:
    kind = str(piece.get("type"))
    return "image" if kind == "image_url" else kind


def _carried(piece: Mapping[str, Any]) -> Any:
    found = next((piece[key] for key in _KEYS if piece.get(key) is not None), None)
    found = found.get("url") if isinstance(found, Mapping) else found
    return _decoded(found) if "base64" in piece and isinstance(found, str) else found


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise InputError(f"this is no picture in base64: {text[:40]!r}") from None


def _from_file(path: Path) -> Any:
    if not path.is_file():
        raise InputError(f"there is no picture at {str(path)[:200]!r}")
    return _read(path, f"{str(path)!r} is")


def _read(source: Any, said: str) -> Any:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(source) as found:
            return _in_rgb(found)
    except UnidentifiedImageError:
        raise InputError(f"{said} no image that Pillow can read") from None
    except OSError as fault:
        raise InputError(f"{said} an image that Pillow cannot read to its end: {fault}") from None


def _in_rgb(picture: Any) -> Any:
    """Upright, in eight bits and three colours."""
    from PIL import ImageOps

    if picture.mode.startswith(("I", "F")):  # Pillow would cut off at 255
        import numpy

        numbers = numpy.asarray(picture)
        return _from_array(numbers / (1 if picture.mode == "F" else 65535))
    return ImageOps.exif_transpose(picture).convert("RGB")


def _from_array(numbers: Any) -> Any:
    import numpy
    from PIL import Image

    given = numpy.asarray(numbers.detach().cpu() if hasattr(numbers, "detach") else numbers)
    if given.ndim == 3 and given.shape[2] not in _CHANNELS and given.shape[0] in _CHANNELS:
        given = given.transpose(1, 2, 0)
    if given.ndim not in (2, 3) or not given.size or (given.ndim == 3 and given.shape[2] not in _CHANNELS):
        raise InputError(f"a picture is {FORMS}; this array is {list(given.shape)}")
    if given.dtype != numpy.uint8:
        given = _in_eight_bits(given)
    return Image.fromarray(given[:, :, 0] if given.ndim == 3 and given.shape[2] == 1 else given).convert("RGB")


def _in_eight_bits(given: Any) -> Any:
    import numpy

    least, most = float(given.min()), float(given.max())
    if given.dtype.kind == "f" and least >= 0 and most <= 1:
        return (given * 255).round().astype(numpy.uint8)
    if given.dtype.kind in "iu" and least >= 0 and most <= 255:
        return given.astype(numpy.uint8)
    raise InputError(
        f"a picture's numbers are uint8, or floats from 0 to 1; these are {given.dtype} from {least:.3g} to {most:.3g}. "
        "Pixels that are normed already go to the model in a batch dict: pixel_values and input_ids"
    )
