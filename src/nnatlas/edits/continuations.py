"""What a model writes under several edits, side by side, with the same sampling and the likeliest next tokens of each."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from nnatlas.edits.edit import Edit
from nnatlas.errors import InputError
from nnatlas.model.tokens import token_text
from nnatlas.show import readable, text_of, visible

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer

ASSETS = Path(__file__).parent / "assets"
NEXT = 5


@dataclass(frozen=True)
class Continuation:
    """What follows the prompt under one edit; `next` are the likeliest first tokens with their probabilities."""

    label: str
    does: str
    text: str
    ids: list[int]
    next: list[tuple[str, float]]


@dataclass(frozen=True)
class Continuations:
    """Continuations of one prompt, side by side: a table in a terminal, `page()` as HTML, `data()` for JSON."""

    prompt: str
    rows: list[Continuation] = field(repr=False)

    def __getitem__(self, label: str) -> Continuation:
        found = next((row for row in self.rows if row.label == label), None)
        if found is None:
            raise InputError(f"no continuation {label!r}; there are {', '.join(row.label for row in self.rows)}")
        return found

    def data(self) -> dict[str, Any]:
        """As plain data."""
        named = ("token", "probability")
        rows = [asdict(row) | {"next": [dict(zip(named, one, strict=True)) for one in row.next]} for row in self.rows]
        return {"prompt": self.prompt, "continuations": rows}

    def page(self, title: str) -> str:
        """A web page that needs nothing else."""
        return str(_templates().get_template("page.html.j2").render(shown=self, title=title))

    def _repr_html_(self) -> str:
        return str(_templates().get_template("continuations.html.j2").render(shown=self))

    def __rich__(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        made = Table(show_lines=True, header_style="bold")
        for row in self.rows:
            made.add_column(Text(readable(row.label)), overflow="fold", ratio=1)
        made.add_row(*(Text(readable(row.text)) for row in self.rows))
        nexts = ("\n".join(f"{visible(token)} {chance:.3f}" for token, chance in row.next) for row in self.rows)
        made.add_row(*map(Text, nexts))
        return made

    def __repr__(self) -> str:
        return text_of(self.__rich__())


def continuations(
    model: StandardizedTransformer, prompt: Any, edits: Mapping[str, Edit | None], seed: int = 0, **keywords: Any
) -> Continuations:
    """Let the model continue one prompt under each of some edits (None: as it is), by `model.generate`.

    Keywords are those of `generate`; sampling starts from the same `seed` under every edit.

    Raises:
        InputError: several prompts at once.

    >>> ways = {"plain": None, "steered": edits.steer(model, vector, layers=9)}
    >>> print(edits.continuations(model, "I think", ways, max_new_tokens=5))
    """
    named = (
        isinstance(edits, Mapping)
        and edits
        and all(hasattr(edit or nullcontext(), "__enter__") for edit in edits.values())
    )
    if not named:
        raise InputError('name what is compared: continuations(model, prompt, {"plain": None, "steered": edit})')
    shown = prompt if isinstance(prompt, str) else str(prompt)
    rows = [_continue(model, prompt, label, edit, seed, keywords) for label, edit in edits.items()]
    return Continuations(shown, rows)


def _continue(
    model: StandardizedTransformer, prompt: Any, label: str, edit: Edit | None, seed: int, keywords: Mapping[str, Any]
) -> Continuation:
    with edit or nullcontext(), torch.random.fork_rng():
        torch.manual_seed(seed)
        with model.generate(prompt, **keywords) as run:
            start = model.input_ids.shape
            probabilities = model.next_token_probs[0]
    if start[0] != 1:
        raise InputError(f"{start[0]} prompts: continuations are of one prompt at a time")
    ids = getattr(run.output, "sequences", run.output)[0, start[1] :].tolist()
    best = probabilities.topk(min(NEXT, len(probabilities)))
    tokens = [token_text(model.tokenizer, token) for token in best.indices.tolist()]
    text = run.text if isinstance(run.text, str) else str(ids)
    does = edit.describe() if isinstance(edit, Edit) else "as it is" if edit is None else repr(edit)
    return Continuation(label, does, text, ids, list(zip(tokens, best.values.tolist(), strict=True)))


def _templates() -> Any:
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError:
        raise InputError("jinja2 is not installed: pip install 'nnatlas[experiments]'") from None
    made = Environment(loader=FileSystemLoader(ASSETS), autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    made.globals.update(visible=visible, readable=readable)
    return made
