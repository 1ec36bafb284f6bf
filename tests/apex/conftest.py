"""Shared by the APEX-1 tests: one thread, a seed, and the public implementation's vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

VECTORS = Path(__file__).parent / "vectors"


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def vector_index() -> dict[str, Any]:
    return json.loads((VECTORS / "index.json").read_text())["files"]


@pytest.fixture(scope="session")
def public_run() -> dict[str, torch.Tensor]:
    """Inputs, weights, outputs of the public implementation, unmodified, where it is right (24 tokens, window 32)."""
    return load_file(VECTORS / "a_g6_moe_gate.safetensors")


@pytest.fixture(scope="session")
def components() -> dict[str, torch.Tensor]:
    """Its rotary tables, masks, norm, balancer and samplers by themselves."""
    return load_file(VECTORS / "components.safetensors")
