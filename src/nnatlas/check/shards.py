"""Jobs over a few processes, each job with a time limit of its own.

What is limited is the time that a job computes, not the time that passes: on a busy machine a job waits, and that is not
its fault.  torch and transformers cannot be interrupted from within, so the kernel keeps the limit: it ends the process.  A
process that is ended or dies costs one job, not the sweep: another takes its place.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from typing import Any

Work = Callable[[Any], dict[str, Any]]
STARTING = 120.0
"""Seconds a new process may take to import torch and transformers, on top of its first job's limit."""
PATIENCE = 10.0
"""How many times its limit may pass before a job is given up that does not compute at all, or where no kernel counts."""
_COUNTED = hasattr(signal, "setitimer")


class Shard:
    """One process, and the job it is at."""

    def __init__(self, work: Work, seconds: float) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would carry torch's threads over, which then hang
        self.seconds, self.grace = seconds, STARTING
        self.channel, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(work, theirs, seconds, STARTING), daemon=True)
        self.process.start()
        theirs.close()
        self.job: Any = None
        self.started, self.spent, self.answered = 0.0, 0.0, True

    def give(self, job: Any) -> None:
        self.job, self.started, self.answered = job, time.monotonic(), False
        with contextlib.suppress(OSError):  # a process that is gone already is noticed when its answer is read
            self.channel.send(job)

    def overdue(self) -> bool:
        return self.job is not None and time.monotonic() - self.started > PATIENCE * self.seconds + self.grace

    def answer(self) -> dict[str, Any]:
        """What came back, or why nothing did."""
        late = self.overdue() and not self.channel.poll()
        self.grace, self.spent = 0.0, 0.0
        if late:
            return {"error": f"no answer within {PATIENCE * self.seconds:.0f} s"}
        try:
            result: dict[str, Any]
            result, self.spent = self.channel.recv()
        except (EOFError, OSError):  # closed; or reset, where it died before it took the job
            return {"error": self._last_words()}
        self.answered = True
        return result

    def _last_words(self) -> str:
        self.process.join(timeout=5)
        code = self.process.exitcode
        if _COUNTED and code == -signal.SIGPROF:
            return f"no answer within {self.seconds:.0f} s of computing"
        return f"the process ended with code {code}"

    def end(self) -> None:
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.channel.close()


def in_shards(
    work: Work,
    jobs: Iterable[Any],
    processes: int,
    seconds: float,
    spent: Callable[[Any, float], None] | None = None,
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """`(job, work(job))` as they finish; a job over `seconds` or one that breaks its process has an "error" instead.

    `seconds` are of computing, on all threads of the process together; `spent` is told how many each answered job took.
    """
    waiting = deque(jobs)
    shards = [Shard(work, seconds) for _ in range(min(processes, len(waiting)))]
    try:
        for shard in shards:
            shard.give(waiting.popleft())
        while shards:
            for shard in _due(shards):
                result = shard.answer()
                if spent is not None and shard.answered:
                    spent(shard.job, shard.spent)
                yield shard.job, result
                _next(shards, shard, waiting, work)
    finally:
        for shard in shards:
            shard.end()


def _due(shards: list[Shard]) -> list[Shard]:
    """The shards that have something to say or have run out of time."""
    ready: list[Any] = list(wait([shard.channel for shard in shards], timeout=1.0))
    return [shard for shard in shards if shard.channel in ready or shard.overdue()]


def _next(shards: list[Shard], shard: Shard, waiting: deque[Any], work: Work) -> None:
    """The next job for a shard, or for one in its place; without any, the shard is done."""
    if not waiting or not shard.answered or not shard.process.is_alive():
        shards.remove(shard)
        shard.end()
        if not waiting:
            return
        shard = Shard(work, shard.seconds)
        shards.append(shard)
    shard.give(waiting.popleft())


def _serve(work: Work, channel: Connection, seconds: float, starting: float) -> None:
    """The process's side: jobs in, results and the time they took out, until the channel closes."""
    while True:
        try:
            job = channel.recv()
        except EOFError:
            return
        _limit(seconds + starting)
        before, starting = time.process_time(), 0.0
        result = work(job)
        _limit(0.0)
        channel.send((result, time.process_time() - before))


def _limit(seconds: float) -> None:
    """End this process once it has computed for so long; 0 takes the limit away."""
    if _COUNTED:
        signal.setitimer(signal.ITIMER_PROF, seconds)
