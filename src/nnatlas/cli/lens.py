"""`nnatlas lens`: what every layer would say next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nnatlas.cli import models
from nnatlas.cli.output import Html, Json, Png, Prompt, console, print_json, progress
from nnatlas.errors import InputError

if TYPE_CHECKING:
    from nnatlas.readouts import LogitLens

SHOWN = 5

TopK = Annotated[
    int | None,
    typer.Option("--top", metavar="K", min=1, help="Also list every layer's K best tokens at the last position."),
]
Target = Annotated[
    list[str] | None,
    typer.Option("--target", metavar="TOKEN", help="Also this token's rank and probability by layer; may be repeated."),
]
Last = Annotated[int | None, typer.Option("--last", metavar="N", min=1, help="Show the last N positions only.")]
Value = Annotated[
    list[str] | None,
    typer.Option("--value", metavar="NAME", help='Read this instead of "layers.*.layer_output"; may be repeated.'),
]
Tuned = Annotated[
    Path | None, typer.Option("--tuned", metavar="FOLDER", help="Read through a tuned lens: config.json and params.pt.")
]
Chat = Annotated[
    bool, typer.Option("--chat", help="Put the prompt into the model's chat template, as the user's turn.")
]


@models.takes_model
def lens(
    of: models.Loaded,
    prompt: Prompt,
    top: TopK = None,
    target: Target = None,
    last: Last = None,
    value: Value = None,
    tuned: Tuned = None,
    chat: Chat = False,
    json: Json = False,
    html: Html = None,
    png: Png = None,
) -> None:
    """Show what each layer would say next: the logit lens.

    The table has each layer's best token at each position.  Layers run from top to bottom, positions from left to
    right; the bar and the shade of a cell are its probability.  In tokens a space is shown as "·", a new line as "↵".
    """
    if tuned is not None and value:
        raise InputError("--tuned reads the streams it was trained on: leave --value out")
    loaded = of.model
    with progress("reading every layer"):
        from nnatlas.readouts import load_tuned_lens, logit_lens

        asked: Any = [{"role": "user", "content": prompt}] if chat else prompt
        plain = lambda: logit_lens(loaded, asked, value or "layers.*.layer_output")
        found = plain() if tuned is None else load_tuned_lens(loaded, tuned)(asked)
        view = LensView(found, top or min(SHOWN, loaded.vocab_size), target or [], last)
    written = view.write(html, png, of.name)
    if json:
        print_json({"model": of.name, "prompt": prompt, **view.data()})
    elif written:
        print(*written, sep="\n")
    else:
        view.print(in_full=bool(top or target))


class LensView:
    """A lens of one prompt as a command shows it: `k` best tokens, chosen `targets`, the `last` positions."""

    def __init__(self, lens: LogitLens, k: int, targets: list[str], last: int | None) -> None:
        from nnatlas.readouts.tokens import token_ids

        self.lens, self.k, self.targets, self.last = lens, k, targets, last
        self.best = lens.top(self.k)
        self.target_ids = token_ids(lens.model.tokenizer, targets)
        self.ranks = lens.rank(self.target_ids) if targets else None
        self.chances = lens.probability(self.target_ids) if targets else None

    # -- as JSON ---------------------------------------------------------------------------------------------------

    def data(self) -> dict[str, Any]:
        """Positions, then for every layer its predictions at them."""
        ids = [] if self.lens.input_ids is None else self.lens.input_ids[0].tolist()
        shown = range(len(ids))[-(self.last or 0) :]
        return {
            "note": self.lens.note,
            "tokens": [{"position": at, "id": ids[at], "text": self.lens.tokens[0][at]} for at in shown],
            "layers": [
                {"value": value, "positions": [self._cell(i, at) for at in shown]}
                for i, value in enumerate(self.lens.values)
            ],
        }

    def _cell(self, layer: int, at: int) -> dict[str, Any]:
        return {
            "position": at,
            "top": [dict(zip(("id", "token", "probability"), one, strict=True)) for one in self._best(layer, at)],
            "entropy": float(self.lens.entropy[layer, 0, at]),
            "kl_to_final": float(self.lens.kl_to_final[layer, 0, at]),
            "targets": [
                {"token": target, "id": token, "rank": rank, "probability": chance}
                for target, token, (rank, chance) in zip(
                    self.targets, self.target_ids, self._targets(layer, at), strict=True
                )
            ],
        }

    def _best(self, layer: int, at: int) -> list[tuple[int, str, float]]:
        """Id, text and probability of the best tokens at a position."""
        ids, chances = self.best.ids[layer, 0, at].tolist(), self.best.probabilities[layer, 0, at].tolist()
        return list(zip(ids, self.best.tokens[layer][0][at], chances, strict=True))

    def _targets(self, layer: int, at: int) -> list[tuple[int, float]]:
        """Rank and probability of each target at a position."""
        if self.ranks is None or self.chances is None:
            return []
        return list(zip(self.ranks[layer, 0, at].tolist(), self.chances[layer, 0, at].tolist(), strict=True))

    # -- in a terminal ---------------------------------------------------------------------------------------------

    def print(self, in_full: bool) -> None:
        """The table of best tokens; `in_full` adds the last position's list for every layer."""
        from rich.text import Text

        from nnatlas.readouts.lens_view import tables

        out = console()
        for band in tables(self.lens, out.width, self.last):
            out.print(band, soft_wrap=True)
        if in_full:
            out.print(self._last_position(), soft_wrap=True)
        said = ", ".join(f"{self._shown(token)} {chance:.3f}" for _, token, chance in self._best(-1, -1)[:SHOWN])
        out.print(Text.assemble(("next  ", "bold"), said), soft_wrap=True)

    def _last_position(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        from nnatlas.readouts.lens_view import layer_labels

        heads = ["layer", *map(str, range(1, self.k + 1)), *map(self._shown, self.targets)]
        made = Table(title="at the last position", title_justify="left", box=None, header_style="bold", pad_edge=False)
        for head in heads:
            made.add_column(Text(head), justify="right" if head == "layer" else "left", no_wrap=True)
        for i, label in enumerate(layer_labels(self.lens)):
            best = [f"{self._shown(token)} {chance:.3f}" for _, token, chance in self._best(i, -1)]
            chosen = [f"rank {rank}, {chance:.2g}" for rank, chance in self._targets(i, -1)]
            made.add_row(*map(Text, [label, *best, *chosen]))
        return made

    def _shown(self, token: str) -> str:
        from nnatlas.show import visible

        return visible(token)

    # -- as files --------------------------------------------------------------------------------------------------

    def write(self, html: Path | None, png: Path | None, title: str) -> list[Path]:
        """An interactive page and a picture, those that are asked for."""
        from nnatlas.readouts.lens_view import grid

        shown = grid(self.lens, f"{title}: logit lens", self.last)
        return [write(path) for path, write in ((html, shown.html), (png, shown.png)) if path is not None]
