"""Pictures in every form have one meaning; what is none is refused in words."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from PIL import Image

from nnatlas.errors import InputError
from nnatlas.model.pictures import listed, opened, pictures_in, with_places

COLOURS = numpy.arange(4 * 5 * 3, dtype="uint8").reshape(4, 5, 3) * 4


def colours(picture: Any) -> Any:
    assert picture.mode == "RGB"
    return numpy.asarray(picture)


def as_png(picture: Any) -> bytes:
    held = io.BytesIO()
    picture.save(held, format="PNG")
    return held.getvalue()


def test_one_picture_in_every_form_has_the_same_colours(tmp_path: Path) -> None:
    picture = Image.fromarray(COLOURS)
    picture.save(tmp_path / "a.png")
    png = as_png(picture)
    forms = [
        picture, picture.convert("RGBA"), tmp_path / "a.png", str(tmp_path / "a.png"), png, bytearray(png),
        "data:image/png;base64," + base64.b64encode(png).decode(), COLOURS, COLOURS.astype("int64"),
        COLOURS.astype("float32") / 255, COLOURS.transpose(2, 0, 1), torch.from_numpy(COLOURS),
        torch.from_numpy(COLOURS).permute(2, 0, 1).float() / 255,
        numpy.concatenate([COLOURS, numpy.full((4, 5, 1), 255, "uint8")], 2),
    ]  # fmt: skip
    for given in forms:
        assert (colours(opened(given)) == COLOURS).all()


def test_grey_pictures_and_sixteen_bits_keep_their_tones() -> None:
    grey = COLOURS[:, :, 0]
    for given in (grey, grey[:, :, None], grey[None], Image.fromarray(grey), grey / 255.0):
        assert (colours(opened(given)) == grey[:, :, None]).all()
    deep = Image.fromarray(grey.astype("uint16") * 257)
    assert deep.mode.startswith("I;16") and (colours(opened(deep)) == grey[:, :, None]).all()
    assert colours(opened(Image.fromarray(grey / numpy.float32(255)))).tolist() == colours(opened(grey)).tolist()


def test_a_photograph_is_put_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter
    held = io.BytesIO()
    Image.fromarray(COLOURS).save(held, format="PNG", exif=exif)
    assert opened(held.getvalue()).size == (4, 5)
    assert Image.fromarray(COLOURS).size == (5, 4)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("https://example.org/a.png", "no picture is fetched from the network: download 'https://example.org/a.png'"),
        ("/nowhere/a.png", "there is no picture at '/nowhere/a.png'"),
        (b"GIF", "these 3 bytes are no image that Pillow can read"),
        (as_png(Image.fromarray(COLOURS))[:-30], "cannot read to its end"),
        ("data:image/png;base64,?", "no picture in base64"),
        (None, "this is a NoneType"),
        (3, "this is a int"),
        ({}, "this is a dict"),
        (numpy.zeros(4), r"this array is \[4\]"),
        (numpy.zeros((2, 7, 7, 7)), r"this array is \[2, 7, 7, 7\]"),
        (numpy.zeros((0, 3, 3), "uint8"), r"this array is \[0, 3, 3\]"),
        (numpy.linspace(-2, 2, 27).reshape(3, 3, 3), "these are float64 from -2 to 2.*pixel_values and input_ids"),
        (numpy.full((3, 3), 300), "these are int64 from 300 to 300"),
    ],
)  # fmt: skip
def test_what_is_no_picture_is_refused_in_words(given: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        opened(given)


def test_a_file_that_is_no_image_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("no image")
    with pytest.raises(InputError, match=r"a\.txt' is no image"):
        opened(tmp_path / "a.txt")


def test_messages_carry_pictures_under_the_names_that_transformers_knows() -> None:
    picture = Image.fromarray(COLOURS)
    encoded = base64.b64encode(as_png(picture)).decode()
    pieces = [
        {"type": "image", "image": picture}, {"type": "text", "text": "and"}, {"type": "image", "path": "a.png"},
        {"type": "image"}, {"type": "image_url", "image_url": {"url": "b.png"}}, {"type": "image", "base64": encoded},
    ]  # fmt: skip
    talk = [{"role": "system", "content": "be brief"}, {"role": "user", "content": pieces}]
    assert pictures_in(talk) == [picture, "a.png", None, "b.png", as_png(picture)]
    written = with_places(talk)
    assert [piece["type"] for piece in written[1]["content"]] == ["image", "text"] + ["image"] * 4
    assert written[1]["content"][0] == {"type": "image"} and written[0] == talk[0]
    with pytest.raises(InputError, match="not 'video'"):
        pictures_in([{"role": "user", "content": [{"type": "video"}]}])


def test_an_array_of_four_axes_is_as_many_pictures() -> None:
    assert len(listed(numpy.stack([COLOURS] * 3))) == 3
    assert len(listed(COLOURS)) == 1 and listed((1, 2)) == [1, 2]
