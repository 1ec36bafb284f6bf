"""Fresh interpreters: what one prints, and the CPU seconds that work takes in it, as on an idle machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src"
HANGS = 600
"""Seconds after which a process is taken to hang: never a measure of speed, since a busy machine may be slow at anything."""


def python(code: str) -> str:
    """The output of a fresh interpreter that imports from src/ and keeps its bytecode, as an installed package does."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(SOURCES)!r})\n{code}"],
        capture_output=True, text=True, check=False, timeout=HANGS, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def seconds_for(work: str) -> float:
    """CPU seconds that `work` takes in a fresh interpreter, the least of five tries; it must not import torch.

    A busy machine slows everything alike, so the same process also counts to a million, 20 ms when nothing disturbs.
    """
    code = (
        "import sys, time\n"
        f"start = time.process_time(); {work}; spent = time.process_time() - start\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules\n"
        "start = time.process_time()\nfor _ in range(10**6): pass\n"
        "print(spent / max(1, (time.process_time() - start) / 0.02))"
    )
    return min(float(python(code)) for _ in range(5))
