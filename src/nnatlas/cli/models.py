"""MODEL on the command line: loading it with progress shown, and telling in one line why it cannot be loaded."""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnatlas.cli.failures import one_line
from nnatlas.cli.output import progress
from nnatlas.errors import InputError

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer

HERE = 'a folder, "smollm2", "apex-1" and "tiny:<model_type>" need no network'

Model = Annotated[
    str,
    typer.Argument(metavar="MODEL", help='A Hub id, a folder, "smollm2", "apex-1", or "tiny:TYPE" (small and random).'),
]
Dtype = Annotated[str | None, typer.Option(help="Load in this dtype, such as bfloat16.")]
Device = Annotated[str | None, typer.Option(help='Run on this device: "cpu", "cuda:1", or "auto" to spread the model.')]
Attention = Annotated[
    str | None, typer.Option("--attn", metavar="NAME", help="The attention implementation: eager, sdpa, ...")
]
Revision = Annotated[str | None, typer.Option(help="The Hub revision: a branch, tag or commit.")]
TrustRemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run Python code that comes with the model.")
]


def load(
    name: str,
    *,
    dtype: str | None = None,
    device: str | None = None,
    attn: str | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    task: str | None = None,
) -> StandardizedTransformer:
    """`nnatlas.load` for a command: with progress, and with every failure as one InputError."""
    given = {"attn_implementation": attn, "revision": revision, "task": task}
    options: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if trust_remote_code:
        options["trust_remote_code"] = True
    if device == "auto":
        options["device_map"] = "auto"
    _fetch(name)
    with _loading(name):
        from nnatlas.model.load import load as load_model

        if dtype is not None:
            options["dtype"] = _dtype(dtype)
        model = load_model(name, **options)
        if device not in (None, "auto"):
            model._module.to(device)
    return model


def outline(name: str, revision: str | None = None, trust_remote_code: bool = False) -> StandardizedTransformer:
    """A model without its weights, for commands that only look at its structure: a Hub id costs its config alone."""
    if name.startswith("tiny:"):
        return load(name)
    _fetch(name)
    with _loading(name):
        import torch
        from transformers import AutoConfig

        from nnatlas.model.load import _place
        from nnatlas.model.load import load as load_model

        options: dict[str, Any] = {"trust_remote_code": True} if trust_remote_code else {}
        config = AutoConfig.from_pretrained(_place(name), **options, **({"revision": revision} if revision else {}))
        with torch.device("meta"):
            return load_model(config, **options)


def _fetch(name: str) -> None:
    """Pull a model that nnatlas knows by name; it shows its own bars."""
    from nnatlas.pull import CHECKPOINTS, pull

    if name in CHECKPOINTS:
        pull(name)


@contextlib.contextmanager
def _loading(name: str) -> Iterator[None]:
    """Progress around a load, and transformers' errors in our words."""
    for name_of_level in ("TRANSFORMERS_VERBOSITY", "HF_HUB_VERBOSITY"):
        os.environ.setdefault(name_of_level, "error")  # read when those libraries are imported
    with progress(f"loading {name}"):
        from transformers.utils import logging

        if _is_here(name):
            logging.disable_progress_bar()  # our line says enough for what takes a second
        try:
            yield
        except (OSError, ValueError, ImportError, KeyError, RuntimeError, TypeError, AssertionError) as wrong:
            if isinstance(wrong, InputError):
                raise
            raise InputError(f"cannot load {name!r}: {_reason(name, wrong)}") from wrong


def _is_here(name: str) -> bool:
    """Whether loading a name needs no network."""
    from nnatlas.model.load import BUNDLED, TINY
    from nnatlas.pull import CHECKPOINTS

    return name.startswith(TINY) or name in (*CHECKPOINTS, BUNDLED) or Path(name).exists()


def _dtype(name: str) -> str:
    """A dtype's name, if it is one."""
    import torch

    if name != "auto" and not isinstance(getattr(torch, name, None), torch.dtype):
        raise InputError(f"{name!r} is no dtype; there are float32, bfloat16, float16, auto, ...")
    return name


def _reason(name: str, wrong: Exception) -> str:
    """Why a load failed, from what transformers says about it."""
    said = one_line(str(wrong))
    if isinstance(wrong, OSError):
        if "connect" in said or "offline" in said.lower():
            return f"it is not here and the Hub cannot be reached{_near(name)}; {HERE}"
        if "Repo id" in said or (os.sep in name and not Path(name).exists() and name.startswith((".", os.sep, "~"))):
            return f"there is no such folder, and it is no Hub id{_near(name)}"
        if "not a valid model identifier" in said or "404" in said:
            return f"the Hub has no such model, or it is private or gated{_near(name)}"
    return said if len(said) < 400 else said[:400].rstrip() + " ..."


def _near(name: str) -> str:
    from nnatlas.model.load import BUNDLED
    from nnatlas.pull import CHECKPOINTS

    close = difflib.get_close_matches(name, [*CHECKPOINTS, BUNDLED], 1)
    return f"; near: {close[0]}" if close else ""
