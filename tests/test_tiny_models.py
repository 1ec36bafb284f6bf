"""The models that tests share: a trace that is left on one is told, and nobody else meets it."""

from __future__ import annotations

import pytest
from tests.tiny_models import IDS, put_back, tiny

CARELESS = {
    "hooks": lambda module: module.register_forward_hook(lambda *_: None),
    "forwards": lambda module: setattr(module, "forward", module.forward),
    "training": lambda module: module.train(),
    "gradients": lambda module: module.requires_grad_(True),
}


@pytest.mark.parametrize("mark", CARELESS)
def test_a_trace_on_a_shared_model_is_told_and_the_model_made_anew(mark):
    put_back()
    model = tiny("gpt2")
    CARELESS[mark](model._module)
    assert put_back()["gpt2 "][mark]
    assert tiny("gpt2") is not model and put_back() == {}


def test_a_run_and_an_edit_leave_nothing():
    model = tiny("gpt2")
    with model.trace(IDS):
        model.layers[1].layer_output *= 2
    assert put_back() == {}
