"""MODEL on the command line: loading it with progress shown, and telling in one line why it cannot be loaded."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, wraps
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
LOADING: dict[str, tuple[Any, Any]] = {
    "dtype": (Dtype, None),
    "device": (Device, None),
    "attn": (Attention, None),
    "revision": (Revision, None),
    "trust_remote_code": (TrustRemoteCode, False),
}
"""The options of loading, each with its default."""


@dataclass(frozen=True)
class Loaded:
    """The model of a command, as it was named; it is loaded when it is first asked for, once all options were checked."""

    name: str
    options: dict[str, Any]

    @cached_property
    def model(self) -> StandardizedTransformer:
        return load(self.name, **self.options)


def takes_model(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command MODEL and the options of loading in place of its first parameter, which receives a `Loaded`.

    >>> @takes_model
    ... def tokens(of: Loaded, prompt: str) -> None:
    ...     print(of.model.collect(prompt, "input_ids"))
    """

    @wraps(command)
    def run(model: str, **given: Any) -> None:
        options = {name: given.pop(name) for name in LOADING}
        command(Loaded(model, options), **given)

    _, *own = inspect.signature(command, eval_str=True).parameters.values()
    named = lambda name, kind, default: inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default
    )
    loading = [named(name, *about) for name, about in LOADING.items()]
    every = [
        named("model", Model, inspect.Parameter.empty),
        *(one.replace(kind=one.KEYWORD_ONLY) for one in own),
        *loading,
    ]
    run.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in every}
    del run.__wrapped__
    return run


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
    _check_name(name, revision)
    if dtype is not None:
        options["dtype"] = _dtype(dtype)
    if device not in (None, "auto"):
        _check_device(str(device))
    _fetch(name)
    with _loading(name):
        from nnatlas.model.load import load as load_model

        model = load_model(name, **options)
        if device not in (None, "auto"):
            model._module.to(device)
    return model


def outline(name: str, revision: str | None = None, trust_remote_code: bool = False) -> StandardizedTransformer:
    """A model without its weights, for commands that only look at its structure: a Hub id costs its config alone."""
    if name.startswith("tiny:"):
        return load(name, revision=revision, trust_remote_code=trust_remote_code)
    _check_name(name, revision)
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


def _check_name(name: str, revision: str | None) -> None:
    """What can be said of a name before anything is loaded.

    Raises:
        InputError: it is empty, a tiny model of a type that there is not, or has a revision and is not on the Hub.
    """
    from nnatlas import families
    from nnatlas.model.load import TINY

    if not name.strip():
        raise InputError(f"MODEL is empty: {HERE}")
    kind = name.removeprefix(TINY)
    if kind != name and kind not in families.rows() and not _known_to_transformers(kind):
        near = ", ".join(f"{TINY}{one}" for one in difflib.get_close_matches(kind, families.rows(), 3))
        raise InputError(f"no model type {kind!r}{f'; near: {near}' if near else ''}; nnatlas families lists them")
    if revision is not None and (_is_here(name) or not revision.strip()):
        raise InputError(f"--revision {revision!r}: {name!r} has no revisions, it is not fetched from the Hub")


def _known_to_transformers(kind: str) -> bool:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return kind in CONFIG_MAPPING_NAMES


def _dtype(name: str) -> str:
    """A dtype's name, if models compute in it."""
    import torch

    found = getattr(torch, name, None)
    if name != "auto" and not (isinstance(found, torch.dtype) and found.is_floating_point and found.itemsize > 1):
        raise InputError(
            f"--dtype {name!r}: models compute in float32, bfloat16, float16 or float64, or as saved: auto"
        )
    return name


def _check_device(name: str) -> None:
    """`InputError` unless a tensor can be put there."""
    import torch

    if name.startswith("meta"):
        raise InputError(f"--device {name!r}: there are no numbers to compute with; nnatlas support MODEL runs nothing")
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError, NotImplementedError) as wrong:
        first = str(wrong).split("\n")[0]
        raise InputError(f"--device {name!r}: {first}") from None


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
