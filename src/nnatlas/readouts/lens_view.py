"""How a logit lens looks: bands of columns for a terminal, a grid for notebooks and pages, rows for a DataFrame.

A cell is a token and a bar for its probability, so it also reads without colour.  The forward runs from top to bottom,
so the last layer, which is what the model says, stands at the foot.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from nnatlas.grid import Axis, Grid, Pages
from nnatlas.grid.shown import needed
from nnatlas.show import visible

if TYPE_CHECKING:
    from nnatlas.readouts.logit_lens import LogitLens, Top

BARS = "▁▂▃▄▅▆▇█"
NARROWEST, WIDEST = 7, 14  # columns of a cell, its bar and the gap after it included
UNLIKELY, LIKELY = (40, 44, 52), (22, 128, 88)  # the shades of probability 0 and 1; both carry light text
TEXT, BAR = "rgb(245,245,245)", "rgb(120,190,150)"


def tables(lens: LogitLens, width: int, last: int | None = None) -> Iterator[Text]:
    """The tables of every prompt for a terminal; `last` keeps that many positions at the end."""
    for row in range(len(lens.mask)):
        yield from _bands(lens, row, width, last)
    if lens.note:
        yield Text(f"not the model's own prediction: {lens.note}", style="yellow")
    yield Text(f"bars: {BARS[0]} under 1/8 ... {BARS[-1]} over 7/8 of the probability", style="dim")


def layer_labels(lens: LogitLens) -> list[str]:
    """What tells the streams apart: block numbers, and the value's name where there are several."""
    parts = [name.removeprefix("layers.").rpartition(".") for name in lens.values]
    several = len({value for _, _, value in parts}) > 1
    return [f"{block} {value}" if several else block or value for block, _, value in parts]


def _bands(lens: LogitLens, row: int, width: int, last: int | None) -> Iterator[Text]:
    """One prompt's positions in bands as wide as the terminal, like lines of a long text."""
    positions = _real(lens, row)[-(last or 0) :]
    best = lens.top(1)
    labels = layer_labels(lens)
    texts = [[visible(best.tokens[i][row][at][0]) for at in positions] for i in range(len(labels))]
    heads = [visible(lens.tokens[row][at]) for at in positions]
    margin = max(map(cell_len, [*labels, "layer"])) + 1
    cell, count = _columns([*heads, *(text for line in texts for text in line)], len(positions), width - margin)
    for start in range(0, len(positions), count):
        here = slice(start, start + count)
        yield _heads(heads[here], margin, cell)
        for i, label in enumerate(labels):
            chances = best.probabilities[i, row, positions[here], 0].tolist()
            yield _line(label, texts[i][here], chances, margin, cell)
        yield Text()


def _columns(texts: list[str], positions: int, width: int) -> tuple[int, int]:
    """Width of a cell and number of cells in a band, bands being about equally long."""
    most = max(1, width // NARROWEST)
    bands = -(-positions // most)
    count = -(-positions // bands)
    longest = max(map(cell_len, texts)) + 2
    return max(NARROWEST, min(WIDEST, longest, width // count)), count


def _heads(tokens: list[str], margin: int, cell: int) -> Text:
    made = Text(set_cell_size("layer", margin), style="dim", no_wrap=True)
    for token in tokens:
        made.append(_fit(token, cell - 1) + " ", Style(bold=True))
    return made


def _line(label: str, tokens: list[str], chances: list[float], margin: int, cell: int) -> Text:
    made = Text(f"{label:>{margin - 1}} ", style="dim", no_wrap=True)
    for token, chance in zip(tokens, chances, strict=True):
        ground = f"rgb{shade(chance)}".replace(" ", "")
        made.append(_fit(token, cell - 2), Style(color=TEXT, bgcolor=ground, dim=False))
        made.append(bar(chance), Style(color=BAR, bgcolor=ground, dim=False))
        made.append(" ")
    return made


def _fit(text: str, width: int) -> str:
    """Cut or filled to a number of columns; East Asian letters take two."""
    if cell_len(text) > width:
        text = set_cell_size(text, width - 1).rstrip() + "…"
    return set_cell_size(text, width)


def bar(chance: float) -> str:
    """One letter for a probability."""
    return BARS[min(int(chance * len(BARS)), len(BARS) - 1)]


def shade(chance: float) -> tuple[int, ...]:
    """The colour of a probability, as red, green and blue."""
    return tuple(round(low + (high - low) * chance) for low, high in zip(UNLIKELY, LIKELY, strict=True))


def grid(lens: LogitLens, title: str = "", last: int | None = None) -> Grid | Pages:
    """Each prompt as a grid of layers and positions; a cell's hover lists its five best tokens."""
    best = lens.top(min(5, lens.model.vocab_size))
    sheets = [_sheet(lens, best, row, last, title or "logit lens") for row in range(len(lens.mask))]
    if len(sheets) == 1:
        return sheets[0]
    return Pages("prompt", dict(zip(map(str, range(len(sheets))), sheets, strict=True)), title or "logit lens")


def _sheet(lens: LogitLens, best: Top, row: int, last: int | None, title: str) -> Grid:
    positions = _real(lens, row)[-(last or 0) :]
    layers = range(len(lens.values))
    return Grid(
        best.probabilities[:, row, positions, 0],
        Axis("layer", layer_labels(lens)),
        Axis("position", [lens.tokens[row][at] for at in positions], numbered=True),
        title=title,
        units="probability",
        text=[[best.tokens[i][row][at][0] for at in positions] for i in layers],
        hover=[[_hover(lens, best, i, row, at) for at in positions] for i in layers],
        limits=(0, 1),
        note=f"not the model's own prediction: {lens.note}" if lens.note else "",
    )


def _hover(lens: LogitLens, best: Top, layer: int, row: int, at: int) -> str:
    chances = best.probabilities[layer, row, at].tolist()
    said = [
        f"{chance:.4f} {visible(token)}" for token, chance in zip(best.tokens[layer][row][at], chances, strict=True)
    ]
    entropy, kl = float(lens.entropy[layer, row, at]), float(lens.kl_to_final[layer, row, at])
    return "\n".join([*said, f"entropy {entropy:.3g} nats, KL to the final layer {kl:.3g} nats"])


def frame(lens: LogitLens) -> Any:
    """The lens as a DataFrame (see `LogitLens.frame`)."""
    pandas = needed("pandas")
    best, rows = lens.top(1), range(len(lens.mask))
    records = [
        {
            "value": value,
            "row": row,
            "position": at,
            "token": lens.tokens[row][at],
            "top": best.tokens[i][row][at][0],
            "probability": float(best.probabilities[i, row, at, 0]),
            "entropy": float(lens.entropy[i, row, at]),
            "kl_to_final": float(lens.kl_to_final[i, row, at]),
        }
        for i, value in enumerate(lens.values)
        for row in rows
        for at in _real(lens, row)
    ]
    return pandas.DataFrame(records)


def _real(lens: LogitLens, row: int) -> list[int]:
    """The positions of a prompt that are not padding."""
    return [int(at) for at in lens.mask[row].nonzero()]
