"""What every test shares: one torch thread per process, no hub, and the one real model."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["HF_HUB_OFFLINE"] = "1"  # a test that reaches for the hub should fail here, not depend on who runs it
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import pytest
import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)

# An example may take as long as it does: on a busy machine a limit would fail at random.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def smollm2_folder() -> Path:
    """The folder of SmolLM2, pulled into the user's own cache: once per machine, whichever worker comes first."""
    from nnatlas.pull import pull

    return pull("smollm2")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test of a type that came to transformers later than what is installed is skipped, saying so."""
    from nnatlas import families

    for item in items:
        params = getattr(item, "callspec", None)
        texts = [str(value).removeprefix("tiny:") for value in params.params.values()] if params else []
        for why in filter(None, map(families.lacking, texts)):
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """A test that leaves a trace on a shared model fails itself, and not whichever comes next in the order of the day."""
    yield
    if "tests.tiny_models" in sys.modules:
        assert sys.modules["tests.tiny_models"].put_back() == {}
