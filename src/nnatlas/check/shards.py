"""Jobs over a few processes, each job with a time limit of its own.

torch and transformers cannot be interrupted from within, so the limit is kept from outside.  A process that takes too long
or dies costs one job, not the sweep: it is ended and another takes its place.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

Work = Callable[[Any], dict[str, Any]]
STARTING = 120.0
"""Seconds a new process may take to import torch and transformers, on top of its first job's limit."""


class Shard:
    """One process, and the job it is at."""

    def __init__(self, work: Work) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would carry torch's threads over, which then hang
        self.channel, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(work, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.job: Any = None
        self.started, self.grace, self.answered = 0.0, STARTING, True

    def give(self, job: Any) -> None:
        self.job, self.started, self.answered = job, time.monotonic(), False
        with contextlib.suppress(OSError):  # a process that is gone already is noticed when its answer is read
            self.channel.send(job)

    def overdue(self, seconds: float) -> bool:
        return self.job is not None and time.monotonic() - self.started > seconds + self.grace

    def answer(self) -> dict[str, Any]:
        """What came back, or that the process died over it."""
        self.grace = 0.0
        try:
            result: dict[str, Any] = self.channel.recv()
        except (EOFError, OSError):  # closed; or reset, where it died before it took the job
            self.process.join(timeout=5)
            return {"error": f"the process ended with code {self.process.exitcode}"}
        self.answered = True
        return result

    def end(self) -> None:
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.channel.close()


def in_shards(work: Work, jobs: Iterable[Any], processes: int, seconds: float) -> Iterator[tuple[Any, dict[str, Any]]]:
    """`(job, work(job))` as they finish; a job over `seconds` or one that breaks its process has an "error" instead."""
    waiting = deque(jobs)
    shards = [Shard(work) for _ in range(min(processes, len(waiting)))]
    try:
        for shard in shards:
            shard.give(waiting.popleft())
        while shards:
            for shard in _due(shards, seconds):
                late = shard.overdue(seconds) and not shard.channel.poll()
                result = {"error": f"no answer within {seconds:.0f} s"} if late else shard.answer()
                yield shard.job, result
                _next(shards, shard, waiting, work)
    finally:
        for shard in shards:
            shard.end()


def _due(shards: list[Shard], seconds: float) -> list[Shard]:
    """The shards that have something to say or have run out of time."""
    ready: list[Any] = list(wait([shard.channel for shard in shards], timeout=1.0))
    return [shard for shard in shards if shard.channel in ready or shard.overdue(seconds)]


def _next(shards: list[Shard], shard: Shard, waiting: deque[Any], work: Work) -> None:
    """The next job for a shard, or for one in its place; without any, the shard is done."""
    if not waiting or not shard.answered or not shard.process.is_alive():
        shards.remove(shard)
        shard.end()
        if not waiting:
            return
        shard = Shard(work)
        shards.append(shard)
    shard.give(waiting.popleft())


def _serve(work: Work, channel: Connection) -> None:
    """The process's side: jobs in, results out, until the channel closes."""
    while True:
        try:
            job = channel.recv()
        except EOFError:
            return
        channel.send(work(job))
