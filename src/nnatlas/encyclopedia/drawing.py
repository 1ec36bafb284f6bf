"""From anatomy to coordinates: boxes, labels and wires on a grid 372 units wide, narrow enough for a phone.

The residual stream runs down the left side.  A branch leaves it to the right, goes down through its boxes and comes back to an
add on the stream; branches that read the same stream hang on one feeding line and are collected by another.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from nnatlas.encyclopedia.anatomy import Anatomy, Branch, Stage
from nnatlas.encyclopedia.chips import NOTE, OP, SCALE, Chip
from nnatlas.encyclopedia.cores import Core, Row

WIDTH = 372
STREAM, FEED, LEFT, RIGHT, COLLECT = 26, 58, 76, 344, 360
CHIP, GAP, PAD = 24, 8, 10
LETTER = 6.5
"""About the width of a letter of the labels."""


@dataclass(frozen=True, slots=True)
class Box:
    """A chip with its place."""

    chip: Chip
    x: float
    y: float
    width: float
    height: float = CHIP

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


@dataclass(frozen=True, slots=True)
class Frame:
    """The outline of a core with its name and size."""

    name: str
    aside: str
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Wire:
    """A line through points; `style` is stream, branch or arrow."""

    points: str
    style: str


@dataclass(slots=True)
class Drawing:
    """Everything to be drawn for one sort of block, in drawing order."""

    caption: str
    title: str
    height: float = 0
    frames: list[Frame] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)
    adds: list[tuple[float, float]] = field(default_factory=list)
    taps: list[tuple[float, float]] = field(default_factory=list)
    block: tuple[float, float] = (0, 0)
    streams: bool = False


def drawing(anatomy: Anatomy, title: str) -> Drawing:
    """Lay one sort of block out."""
    return _Pen(Drawing(anatomy.caption, title, streams=anatomy.streams)).draw(anatomy)


class _Pen:
    """Puts things under each other; `y` is where the next one goes."""

    def __init__(self, made: Drawing) -> None:
        self.made, self.y = made, 6.0

    def draw(self, anatomy: Anatomy) -> Drawing:
        self._ends(anatomy.embedding)
        top = self.y
        self.y += 26
        self._tap(anatomy.enters)
        for stage in anatomy.stages:
            self._stage(stage)
            if anatomy.middle is not None and stage is anatomy.stages[0] is not anatomy.stages[-1]:
                self._tap(anatomy.middle)
        self._tap(anatomy.leaves)
        self.y += 4
        self.made.block = (top, self.y - top)
        self.y += 14
        self._ends(anatomy.head)
        self.made.wires.insert(0, Wire(f"{STREAM},{6 + CHIP} {STREAM},{self.y - GAP - CHIP}", "stream"))
        self.made.height = self.y
        return self.made

    def _ends(self, chips: Iterable[Chip]) -> None:
        """Chips under each other on the stream, at its ends."""
        for chip in chips:
            wide = _width(chip)
            self.made.boxes.append(Box(chip, STREAM - 14, self.y, max(wide, 28)))
            self.y += CHIP + GAP

    def _tap(self, chip: Chip) -> None:
        """A name of the stream, at a dot on it."""
        self.made.taps.append((STREAM, self.y + CHIP / 2))
        self.made.boxes.append(Box(chip, STREAM + 14, self.y, _width(chip)))
        self.y += CHIP + GAP

    # -- stages ----------------------------------------------------------------------------------------------------

    def _stage(self, stage: Stage) -> None:
        leaves = self.y + 2
        if len(stage.branches) == 1 and not stage.shared:
            returns = self._alone(stage.branches[0], leaves)
        else:
            returns = self._together(stage, leaves)
        self.made.adds.append((STREAM, returns))
        for chip in stage.then:
            self.made.boxes.append(Box(chip, STREAM - 14, self.y, _width(chip)))
            self.y += CHIP + GAP

    def _alone(self, branch: Branch, leaves: float) -> float:
        """One branch: off the stream, down, and back; the height at which it comes back."""
        middle = (LEFT + RIGHT) / 2
        self.made.wires.append(Wire(f"{STREAM},{leaves} {middle},{leaves} {middle},{leaves + 16}", "arrow"))
        self.y = leaves + 18
        self._column(branch)
        return self._back(branch.adds, middle)

    def _back(self, adds: Chip, middle: float) -> float:
        """The way back to the stream, with the name of what is added."""
        at = self.y + CHIP / 2 + 2
        box = Box(adds, LEFT - 12, at - CHIP / 2, _width(adds))
        self.made.wires.append(Wire(f"{middle},{self.y - GAP} {middle},{at} {box.x + box.width},{at}", "branch"))
        self.made.wires.append(Wire(f"{box.x},{at} {STREAM + 9},{at}", "arrow"))
        self.made.boxes.append(box)
        self.y = at + CHIP / 2 + GAP
        return at

    def _together(self, stage: Stage, leaves: float) -> float:
        """Several branches that read the same: a feeding line on their left, a collecting one on their right."""
        self.y = leaves
        start = leaves
        if stage.shared:
            box = Box(stage.shared[0], LEFT - 18, leaves, _width(stage.shared[0]))
            self.made.boxes.append(box)
            self.made.wires.append(Wire(f"{STREAM},{leaves + CHIP / 2} {box.x - 2},{leaves + CHIP / 2}", "arrow"))
            self.y += CHIP + GAP
            start, feed = leaves + CHIP, FEED + 4
        else:
            feed = FEED - 8
            self.made.wires.append(Wire(f"{STREAM},{leaves} {feed},{leaves}", "branch"))
            self.y += 6
        return self._collected(stage.branches, start, feed)

    def _collected(self, branches: Sequence[Branch], start: float, feed: float) -> float:
        entries, exits = [], []
        for branch in branches:
            entries.append(self.y + CHIP / 2)
            self._column(branch)
            box = Box(branch.adds, RIGHT - _width(branch.adds) - 4, self.y, _width(branch.adds))
            middle = box.middle
            self.made.wires.append(Wire(f"{middle},{self.y - GAP} {middle},{self.y - 1}", "arrow"))
            self.made.boxes.append(box)
            exits.append(self.y + CHIP / 2)
            self.y += CHIP + GAP + 4
        at = self.y + 6
        self.made.wires.append(Wire(f"{feed},{start} {feed},{entries[-1]}", "branch"))
        self.made.wires += [Wire(f"{feed},{entry} {LEFT - 2},{entry}", "arrow") for entry in entries]
        self.made.wires += [Wire(f"{RIGHT - 4},{out} {COLLECT},{out}", "branch") for out in exits]
        self.made.wires.append(Wire(f"{COLLECT},{exits[0]} {COLLECT},{at} {STREAM + 9},{at}", "arrow"))
        self.y = at + 12 + GAP
        return at

    # -- columns ---------------------------------------------------------------------------------------------------

    def _column(self, branch: Branch) -> None:
        """Norms, core and what follows it, under each other with short arrows between."""
        parts: list[Chip | Core] = [*branch.before]
        if branch.core.rows or branch.core.name in ("self_attn", "mlp", "linear_attn"):
            parts.append(branch.core)
        parts += branch.after
        for at, part in enumerate(parts):
            if at:
                middle = (LEFT + RIGHT) / 2
                self.made.wires.append(Wire(f"{middle},{self.y - GAP} {middle},{self.y + 2}", "arrow"))
                self.y += 4
            self._core(part) if isinstance(part, Core) else self._wide(part)

    def _wide(self, chip: Chip) -> None:
        """A chip in the middle of the column."""
        wide = max(_width(chip), 120 if chip.tone != SCALE else 0)
        self.made.boxes.append(Box(chip, (LEFT + RIGHT - wide) / 2, self.y, wide))
        self.y += CHIP + GAP

    def _core(self, core: Core) -> None:
        top = self.y
        self.y += 26
        inside = self.y
        for row in core.rows:
            self._row(row)
        middle = (LEFT + RIGHT) / 2
        if core.rows:
            self.made.wires.append(Wire(f"{middle},{inside + 4} {middle},{self.y - PAD}", "inner"))
        self.y += PAD - 4
        self.made.frames.append(Frame(core.name, core.aside, LEFT, top, RIGHT - LEFT, self.y - top))
        self.y += GAP

    def _row(self, row: Row) -> None:
        """Chips side by side, centred; on more lines where they are too wide for one."""
        for line in _lines(row, RIGHT - LEFT - 2 * PAD):
            widths = [_width(chip) for chip in line]
            x = (LEFT + RIGHT - sum(widths) - 6 * (len(line) - 1)) / 2
            high = 19 if all(chip.tone in (OP, NOTE) for chip in line) else CHIP - 2
            for chip, wide in zip(line, widths, strict=True):
                self.made.boxes.append(Box(chip, x, self.y, wide, high))
                x += wide + 6
            self.y += high + 5


def _width(chip: Chip) -> float:
    return round(len(chip.text) * LETTER + 16, 1)


def _lines(row: Row, room: float) -> list[Row]:
    lines: list[list[Chip]] = [[]]
    for chip in row:
        if lines[-1] and sum(_width(one) + 6 for one in lines[-1]) + _width(chip) > room:
            lines.append([])
        lines[-1].append(chip)
    return [tuple(line) for line in lines]
