"""What a sweep found: a table of types, the reasons for what is absent, what is broken, and facts as JSON.

The facts hold nothing that changes from run to run, so that a file of them in the repository differs only when a row or a
library does.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rich.table import Table

from nnatlas.check.findings import HOLDS
from nnatlas.show import html_of, table, text_of

STREAM: Final = ("block.layer_input", "block.layer_output", "logits")
INTERIOR: Final = tuple(
    f"self_attn.attention_{name}" for name in ("queries", "scores", "probabilities", "head_outputs")
)


@dataclass(frozen=True, slots=True)
class Sweep:
    """`types` maps a model type to its reports by attention implementation, or to an `error`.

    `seconds` passed in all; `computed` says how many seconds of computing each type took (the first of each process also its
    imports).
    """

    types: Mapping[str, Mapping[str, Any]]
    seconds: float = 0.0
    computed: Mapping[str, float] = field(default_factory=dict)

    @property
    def failures(self) -> dict[str, list[str]]:
        """What is broken, in sentences, by type."""
        found = {name: list(_broken(result)) for name, result in self.types.items()}
        return {name: said for name, said in found.items() if said}

    @property
    def passed(self) -> bool:
        return not self.failures

    def serving(self, *values: str) -> list[str]:
        """The types on which these values are served and were read, under every implementation that was run."""
        return [
            name
            for name, result in self.types.items()
            if "error" not in result
            and all(one["values"].get(key, {}).get("read") == HOLDS for one in result.values() for key in values)
        ]

    @property
    def absences(self) -> dict[tuple[str, str], list[str]]:
        """The types that lack a value, by the value and the reason."""
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for name, result in self.types.items():
            for key, value in _values(result).items():
                if value.get("absent"):
                    found[key, value["absent"]].append(name)
        return dict(sorted(found.items()))

    def json(self) -> str:
        """The facts without timings, so that two runs that find the same are the same text."""
        import torch
        import transformers

        versions = {"torch": torch.__version__.partition("+")[0], "transformers": transformers.__version__}
        return json.dumps({**versions, "types": self.types}, indent=1, ensure_ascii=False, sort_keys=True)

    def tables(self) -> list[Table]:
        """The types; what they lack and why; what is broken, if anything is."""
        made = [_type_table(self), _absence_table(self)]
        return [*made, _failure_table(self)] if self.failures else made

    def __repr__(self) -> str:
        return "\n\n".join(text_of(shown) for shown in self.tables())

    def _repr_html_(self) -> str:
        return "".join(html_of(shown) for shown in self.tables())


def _values(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """The values as they were found under the first implementation (the type's default)."""
    return {} if "error" in result else next(iter(result.values()))["values"]


def _broken(result: Mapping[str, Any]) -> Iterator[str]:
    if "error" in result:
        yield result["error"]
        return
    for implementation, one in result.items():
        for failure in one["failures"]:
            yield f"{implementation}: {failure}"


def _type_table(swept: Sweep) -> Table:
    broken = swept.failures
    rows = [(name, *_row(result), "" if name in broken else "yes") for name, result in swept.types.items()]
    title = (
        f"{len(swept.types)} types, {len(swept.types) - len(broken)} pass every law; "
        f"{len(swept.serving(*STREAM))} serve the stream and the logits, {len(swept.serving(*INTERIOR))} the attention interior"
        + (f" ({swept.seconds:.0f} s)" if swept.seconds else "")
    )
    return table(title, ("type", "row", "attention", "values served", "absent", "laws that hold", "passes"), rows)


def _row(result: Mapping[str, Any]) -> tuple[str, ...]:
    if "error" in result:
        return ("", "", "", "", "")
    first = next(iter(result.values()))
    absent = sum(bool(value["absent"]) for value in first["values"].values())
    laws = {law: all(not one["laws"][law]["broken"] for one in result.values()) for law in first["laws"]}
    served = str(len(first["values"]) - absent)
    return first["family"], ", ".join(result), served, str(absent), f"{sum(laws.values())} of {len(laws)}"


def _absence_table(swept: Sweep) -> Table:
    rows = [(key, why, str(len(types)), _some(types)) for (key, why), types in swept.absences.items()]
    return table("what is absent, and why", ("value", "reason", "types", "such as"), rows)


def _failure_table(swept: Sweep) -> Table:
    rows = [(name, said) for name, sentences in swept.failures.items() for said in sentences[:5]]
    return table("what is broken (at most five a type)", ("type", "what was found"), rows)


def _some(types: list[str]) -> str:
    return ", ".join(types[:4]) + (", ..." if len(types) > 4 else "")
