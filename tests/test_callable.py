"""Packages that are functions too, whatever was imported first."""

from __future__ import annotations

import inspect
import sys

import pytest
from tests.fresh import python

ORDERS = [
    "import nnatlas; thing = nnatlas.{name}",
    "import nnatlas.{name}; thing = nnatlas.{name}",
    "import nnatlas, importlib; nnatlas.{name}; thing = importlib.import_module('nnatlas.{name}')",
    "from nnatlas import {name} as thing",
    "from nnatlas.{name} import {name}; import nnatlas; thing = nnatlas.{name}",
]


# `check` loads torch, which takes seconds: the two orders that differ most, lazily first and by the package first
@pytest.mark.parametrize(
    "order, name", [*((order, "pull") for order in ORDERS), (ORDERS[0], "check"), (ORDERS[1], "check")]
)
def test_a_function_and_its_package_in_every_order_of_import(order, name):
    code = order.format(name=name) + (
        f"\nimport inspect, nnatlas, nnatlas.{name} as package"
        "\nassert thing is package is sys.modules[package.__name__]"
        f"\nprint(callable(thing), inspect.signature(thing) == inspect.signature(package.{name}))"
    )
    assert python(code) == "True True"


def test_the_call_reaches_the_function(tmp_path, monkeypatch):
    package = tmp_path / "twofold"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from nnatlas._callable import make_callable\n"
        "def twofold(x, *, times=2):\n    'Multiply.'\n    return x * times\n"
        "make_callable(__name__, twofold)\n"
    )
    (package / "part.py").write_text("HERE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    import twofold
    import twofold.part

    assert (twofold(4), twofold(4, times=3), twofold.part.HERE) == (8, 12, 1)
    assert str(inspect.signature(twofold)) == "(x, *, times=2)"
    with pytest.raises(TypeError, match="unexpected keyword"):
        twofold(1, twice=True)
    del sys.modules["twofold"], sys.modules["twofold.part"]
