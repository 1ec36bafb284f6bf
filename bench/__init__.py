"""Benchmarks: every claim of speed as a ratio against the bare model, measured in one run on one machine.

`python -m bench` runs all files of this folder, `python -m bench reads loading` some; `--write` keeps the table in
docs/benchmarks.md.  A benchmark is a plain function `bench_*()` that yields rows.
"""
