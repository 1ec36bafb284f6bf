"""The sweep: many types over processes, a time limit for each, and a table and a file at the end."""

from __future__ import annotations

import os
import time

import pytest
from tests.fresh import HANGS

from nnatlas.check import read_sweep, sweep
from nnatlas.check import shards as sharding
from nnatlas.check.shards import in_shards


def work(job: str) -> dict[str, str]:
    """Stands for a check: computes or waits for long, dies or answers."""
    if job == "sleep":
        time.sleep(60)
    while job == "compute":
        pass
    if job == "wait":
        time.sleep(2)
    if job == "die":
        os._exit(3)
    return {"answer": job.upper()}


def test_a_slow_and_a_dying_job_cost_only_themselves(monkeypatch):
    monkeypatch.setattr(sharding, "STARTING", HANGS)
    found = dict(in_shards(work, ["a", "die", "b", "c"], processes=2, seconds=30.0))
    assert found == {
        "a": {"answer": "A"},
        "b": {"answer": "B"},
        "c": {"answer": "C"},
        "die": {"error": "the process ended with code 3"},  # noticed as such, not by the limit
    }


def test_a_job_that_computes_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr(sharding, "STARTING", 0.0)
    monkeypatch.setattr(sharding, "PATIENCE", HANGS)  # the new process has yet to import this file
    spent = {}
    found = dict(in_shards(work, ["compute", "a"], processes=1, seconds=1.0, spent=spent.__setitem__))
    assert found == {"compute": {"error": "no answer within 1 s of computing"}, "a": {"answer": "A"}}
    assert spent.keys() == {"a"} and 0 <= spent["a"] < 1


def test_a_job_that_only_waits_is_given_its_time(monkeypatch):
    monkeypatch.setattr(sharding, "STARTING", 0.0)
    monkeypatch.setattr(sharding, "PATIENCE", HANGS)
    spent = {}
    found = dict(in_shards(work, ["wait"], processes=1, seconds=0.5, spent=spent.__setitem__))
    assert found == {"wait": {"answer": "WAIT"}} and spent["wait"] < 0.5


def test_a_job_that_waits_for_ever_is_given_up_in_the_end(monkeypatch):
    monkeypatch.setattr(sharding, "STARTING", 0.0)
    monkeypatch.setattr(sharding, "PATIENCE", 2.0)
    assert dict(in_shards(work, ["sleep"], 1, seconds=1.0)) == {"sleep": {"error": "no answer within 2 s"}}


class NeverStarts:
    """Work that ends its process while it is being handed over, before any job is taken."""

    def __reduce__(self):
        return os._exit, (4,)


def test_a_process_that_cannot_start_costs_its_jobs_only():
    found = dict(in_shards(NeverStarts(), ["a", "b"], processes=1, seconds=30.0))
    assert found == {job: {"error": "the process ended with code 4"} for job in "ab"}


@pytest.mark.slow
def test_types_are_swept_and_what_cannot_be_built_is_reported(tmp_path):
    path = tmp_path / "measured.json"
    seen = []
    found = sweep(["gpt2", "nosuch"], processes=2, results=path, progress=lambda name, _: seen.append(name))
    assert sorted(seen) == ["gpt2", "nosuch"]
    assert set(found.types["gpt2"]) == {"sdpa", "eager"}
    assert found.serving("block.layer_output", "self_attn.attention_scores") == ["gpt2"]
    assert list(found.failures) == ["nosuch"]
    assert not found.passed
    assert found.absences["self_attn.attention_gate", "the heads' outputs are not gated"] == ["gpt2"]
    assert "2 types, 1 pass every law" in repr(found)
    assert read_sweep(path).types == found.types
