"""How values that could not be tried together are parted: those that the fault names from the others, else into halves.

Some values get into each other's way only because they are read in one run, such as two that share memory.  The fault
says which; setting that one apart costs two forwards where halving costs as many as it takes to corner it.
"""

from __future__ import annotations

from collections.abc import Sequence

from nnatlas.check.snapshot import Reading


def parted(readings: Sequence[Reading], fault: object) -> tuple[Sequence[Reading], Sequence[Reading]]:
    """Two groups, neither empty, of two or more readings; `fault` is what went wrong when they were tried at once."""
    said = str(fault)
    named = [one for one in readings if any(f"{name} " in said for name in (one.label, *(p.name for p in one.bare)))]
    others = [one for one in readings if one not in named]
    if named and others:
        return others, named
    half = len(readings) // 2
    return readings[:half], readings[half:]
