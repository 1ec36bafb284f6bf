"""From anatomy to coordinates: boxes, labels and wires on a grid 372 units wide, narrow enough for a phone.

The residual stream runs down the left side.  A branch leaves it to the right, goes down through its boxes and comes back to an
add on the stream; branches that read the same stream hang on one feeding line and are collected by another.

    STREAM  FEED  LEFT                     RIGHT  COLLECT  AROUND
      |                                      |
      o  layer_input                         |
      |------------.                         |
      |         [ norm ]                     |
      |     .---------------.                |
      |     |   self_attn   |                |
      |     '---------------'                |
      |            |                         |
      (+)<-- attention_output                |      a branch that lands at a later sum goes down on AROUND
      |

Heights are not planned: a pen puts one thing under the other and remembers where lines have to start and end.  All numbers are
in units of the drawing, of which a phone's width has 372.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from nnatlas.encyclopedia.anatomy import Anatomy
from nnatlas.encyclopedia.chips import NOTE, OP, SCALE, Chip
from nnatlas.encyclopedia.cores import Core, Row
from nnatlas.encyclopedia.stages import Branch, Stage

WIDTH = 372
STREAM, FEED, LEFT, RIGHT, COLLECT, AROUND = 26, 58, 76, 344, 353, 361
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
    """Everything to be drawn for one sort of block, in drawing order.

    `adds` are the sums on the stream, `cuts` where a branch takes its place, `taps` the dots at its names.  `block` is top and
    height of the dashed outline, `caption_at` where its caption starts: beside the title, or under it where both are long.
    """

    caption: str
    title: str
    height: float = 0
    frames: list[Frame] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    wires: list[Wire] = field(default_factory=list)
    adds: list[tuple[float, float]] = field(default_factory=list)
    cuts: list[tuple[float, float]] = field(default_factory=list)
    taps: list[tuple[float, float]] = field(default_factory=list)
    block: tuple[float, float] = (0, 0)
    caption_at: tuple[float, float] = (0, 0)
    streams: bool = False


def drawing(anatomy: Anatomy, title: str) -> Drawing:
    """Lay one sort of block out."""
    return _Pen(Drawing(anatomy.caption, title, streams=anatomy.streams)).draw(anatomy)


class _Pen:
    """Puts things under each other; `y` is where the next one goes."""

    def __init__(self, made: Drawing) -> None:
        self.made, self.y = made, 6.0
        self.waiting: list[
            tuple[Branch, float]
        ] = []  # branches that are added later, and the height at which they go out

    def draw(self, anatomy: Anatomy) -> Drawing:
        """The whole drawing, from the embedding down to the logits."""
        self._ends(anatomy.embedding)
        top = self.y
        # title on the left and caption on the right of one line, unless they would meet
        crowded = LETTER * (len(self.made.title) + len(self.made.caption)) > WIDTH - 80
        self.made.caption_at = (40, top + 34) if crowded else (356, top + 17)
        self.y += 44 if crowded else 26
        self._tap(anatomy.enters)
        for stage in anatomy.stages:
            self._stage(stage)
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
        """What happens between two states of the stream, in the order in which it happens to it."""
        for chip in stage.weighed:
            self._on_stream(chip)
        self._branches(stage)
        self._landings()
        if stage.summed is not None:
            self._tap(stage.summed)
        for chip in stage.then:
            self._on_stream(chip)
        if stage.named is not None:
            self._tap(stage.named)

    def _branches(self, stage: Stage) -> None:
        """The branches of a stage, and where they come back, if one of them does."""
        if not stage.branches:
            return
        leaves = self.y + 2
        if len(stage.branches) == 1 and not stage.shared and not stage.branches[0].lands:
            returns = self._alone(stage.branches[0], leaves, stage.sums)
        else:
            returns = self._together(stage, leaves)
        if returns:
            self._join(stage, returns)

    def _join(self, stage: Stage, returns: float) -> None:
        """How a branch and the stream become one: a sum, a module, or the branch in the stream's place."""
        if stage.join is not None:
            self.y += 4
            self._on_stream(stage.join)
        elif stage.anew:
            self.made.cuts.append((STREAM, returns))
        else:
            self.made.adds.append((STREAM, returns))

    def _on_stream(self, chip: Chip) -> None:
        """A chip that stands on the stream itself: a norm of it, a factor on it, a module that joins it."""
        self.made.boxes.append(Box(chip, STREAM - 14, self.y, _width(chip)))
        self.y += CHIP + GAP

    def _alone(self, branch: Branch, leaves: float, sums: bool) -> float:
        """One branch: off the stream, down, and back; the height at which it comes back."""
        middle = (LEFT + RIGHT) / 2
        self.made.wires.append(Wire(f"{STREAM},{leaves} {middle},{leaves} {middle},{leaves + 16}", "arrow"))
        self.y = leaves + 18
        self._column(branch)
        at = self.y + CHIP / 2 + 2
        self._back(branch, at, f"{middle},{self.y - GAP} {middle},{at}", STREAM + (9 if sums else 3))
        return at

    def _back(self, branch: Branch, at: float, way: str, end: float = STREAM + 9) -> None:
        """The way back to the stream, which it meets at `end`, with the name of what is added where it has one."""
        if branch.adds is None:
            self.made.wires.append(Wire(f"{way} {end},{at}", "arrow"))
        else:
            box = Box(branch.adds, LEFT - 12, at - CHIP / 2, _width(branch.adds))
            self.made.wires.append(Wire(f"{way} {box.x + box.width},{at}", "branch"))
            self.made.wires.append(Wire(f"{box.x},{at} {end},{at}", "arrow"))
            self.made.boxes.append(box)
        self.y = at + CHIP / 2 + GAP

    def _landings(self) -> None:
        """Branches of earlier stages that are added here, each at a sum of its own, by a line down the right side."""
        waiting, self.waiting = self.waiting, []
        for branch, out in waiting:
            if branch.lands > 1:
                self.waiting.append((replace(branch, lands=branch.lands - 1), out))
                continue
            at = self.y + CHIP / 2
            self._back(branch, at, f"{RIGHT - 4},{out} {AROUND},{out} {AROUND},{at}")
            self.made.adds.append((STREAM, at))

    def _together(self, stage: Stage, leaves: float) -> float:
        """Several branches that read the same: a feeding line on their left, a collecting one on their right."""
        self.y = start = leaves
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
        """The branches under each other; the height of their sum, or 0 where all of them are added later."""
        entries, exits = [], []
        for branch in branches:
            entry, out = self._fed(branch)
            entries.append(entry)
            if branch.lands:
                self.waiting.append((replace(branch, lands=branch.lands + 1), out))
            else:
                exits.append(out)
        self.made.wires.append(Wire(f"{feed},{start} {feed},{entries[-1][1]}", "branch"))
        self.made.wires += [Wire(f"{feed},{y} {x - 2},{y}", "arrow") for x, y in entries]
        if not exits:
            return 0
        at = self.y + 6
        self.made.wires += [Wire(f"{RIGHT - 4},{out} {COLLECT},{out}", "branch") for out in exits]
        self.made.wires.append(Wire(f"{COLLECT},{exits[0]} {COLLECT},{at} {STREAM + 9},{at}", "arrow"))
        self.y = at + 12 + GAP
        return at

    def _fed(self, branch: Branch) -> tuple[tuple[float, float], float]:
        """A branch beside others: where the feeding line meets it, `(x, y)`, and the height at which it goes out."""
        boxes, frames, top = len(self.made.boxes), len(self.made.frames), self.y
        self._column(branch)
        first = LEFT if isinstance(branch.parts[0], Core) else self.made.boxes[boxes].x
        if branch.adds is None or branch.lands:
            out = self.made.boxes[-1].y + CHIP / 2 if len(self.made.frames) == frames else self.y - GAP - CHIP / 2
            self.y += 4
        else:
            out = self._out(branch.adds)
        return (first, top + CHIP / 2), out

    def _out(self, adds: Chip) -> float:
        """The name of what a branch beside others adds, at its lower right; the height of its way out."""
        box = Box(adds, RIGHT - _width(adds) - 4, self.y, _width(adds))
        self.made.wires.append(Wire(f"{box.middle},{self.y - GAP} {box.middle},{self.y - 1}", "arrow"))
        self.made.boxes.append(box)
        self.y += CHIP + GAP + 4
        return box.y + CHIP / 2

    # -- columns ---------------------------------------------------------------------------------------------------

    def _column(self, branch: Branch) -> None:
        """Norms, core and what follows it, under each other with short arrows between."""
        for at, part in enumerate(branch.parts):
            if at:
                middle = (LEFT + RIGHT) / 2
                self.made.wires.append(Wire(f"{middle},{self.y - GAP} {middle},{self.y + 2}", "arrow"))
                self.y += 4
            if isinstance(part, Core):
                self._core(part)
            elif isinstance(part, tuple):
                self._row(part)
                self.y += GAP - 3
            else:
                self._wide(part)

    def _wide(self, chip: Chip) -> None:
        """A chip in the middle of the column."""
        wide = max(_width(chip), 120 if chip.tone != SCALE else 0)
        self.made.boxes.append(Box(chip, (LEFT + RIGHT - wide) / 2, self.y, wide))
        self.y += CHIP + GAP

    def _core(self, core: Core) -> None:
        """A frame with a core's rows in it, one under the other on a thin line."""
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
    """The room that a chip's text takes in a monospaced face, with its padding."""
    return round(len(chip.text) * LETTER + 16, 1)


def _lines(row: Row, room: float) -> list[Row]:
    """A row cut where it is wider than the room."""
    lines: list[list[Chip]] = [[]]
    for chip in row:
        if lines[-1] and sum(_width(one) + 6 for one in lines[-1]) + _width(chip) > room:
            lines.append([])
        lines[-1].append(chip)
    return [tuple(line) for line in lines]
