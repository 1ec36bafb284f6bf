"""Run the benchmarks and print, or keep, their table."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import torch
import transformers

import bench
from bench.harness import Ratio, Row
from nnatlas.show import table, text_of

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
COLUMNS = ("work", "ours", "the other way", "ratio", "budget", "")


def rows(names: list[str]) -> Iterator[Row]:
    """Every row of the named files, or of all."""
    for info in pkgutil.iter_modules(bench.__path__):
        if not names or info.name in names:
            module = importlib.import_module(f"bench.{info.name}")
            for name, function in list(vars(module).items()):
                if name.startswith("bench_"):
                    yield from function()


def cells(row: Row) -> tuple[str, ...]:
    budget = "" if row.budget is None else f"{'>=' if row.at_least else '<='} {row.budget:g} {row.verdict}".rstrip()
    between = f" ({row.ratio.low:.3f} to {row.ratio.high:.3f})" if isinstance(row.ratio, Ratio) else ""
    return row.work, row.ours, row.other, f"{row.ratio:.3f}{between}", budget, row.note


def machine() -> str:
    model = next(
        (line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")), platform.processor()
    )
    return (
        f"{model}, {torch.get_num_threads()} threads, Python {platform.python_version()}, torch {torch.__version__}, "
        f"transformers {transformers.__version__}"
    )


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def page(found: list[Row]) -> str:
    how = "Written by `make bench ARGS=--write`; a ratio is the median over interleaved rounds of one run, with its 95% interval."
    lines = ["# Benchmarks", "", how, ""]
    lines += [f"Machine: {machine()}.", "", "| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in found]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=bench.__doc__)
    parser.add_argument("names", nargs="*", help="files of bench/ to run; all if none")
    parser.add_argument("--write", action="store_true", help="keep the table in docs/benchmarks.md")
    options = parser.parse_args()
    found = []
    with torch.no_grad():
        for row in rows(options.names):
            found.append(row)
            print(f"{row.work}: {row.ratio:.3f}", file=sys.stderr, flush=True)
    print(text_of(table(f"nnatlas on {machine()}", COLUMNS, map(cells, found))))
    if options.write:
        PAGE.write_text(page(found))
    return 0 if all(row.verdict != "BROKEN" for row in found) else 1


sys.exit(main())
