"""What a check found: a table when printed, JSON for the encyclopedia, an error on request."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from rich.table import Table

from nnatlas.check.findings import BROKEN, EXCEPTED, HOLDS, UNPROVEN, Finding
from nnatlas.errors import LawBroken
from nnatlas.show import html_of, table, text_of

MEASURED: Final = {"read": "shape", "write": "causal", "gradient": "gradient"}
"""What is said of every value, and the law that measures it."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One value as it was found: `read`, `write` and `gradient` are "holds", "broken", or why there is none."""

    layout: str
    served: str
    absent: str = ""
    read: str = ""
    write: str = ""
    gradient: str = ""
    laws: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """The findings of `nnatlas.check`.  `passed` says whether no law is broken; `failures` which are, by law and value.

    >>> report = nnatlas.check(model)
    >>> report.passed, [str(failure) for failure in report.failures]
    (True, [])
    """

    title: str
    subject: Mapping[str, Any]
    findings: tuple[Finding, ...]
    values: Mapping[str, Measured]
    seconds: float = 0.0

    @property
    def failures(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.broken]

    @property
    def passed(self) -> bool:
        return not self.failures

    @property
    def laws(self) -> dict[str, dict[str, Any]]:
        """Each law that was run: how many findings of each status, and the largest deviation among those that hold."""
        found: dict[str, dict[str, Any]] = {}
        for law in dict.fromkeys(finding.law for finding in self.findings):
            own = [finding for finding in self.findings if finding.law == law]
            counts = Counter(finding.status for finding in own)
            found[law] = {status: counts[status] for status in (HOLDS, BROKEN, EXCEPTED, UNPROVEN)}
            found[law]["worst"] = worst(own) if law != "causal" else None
        return found

    def raise_for_failures(self) -> None:
        """`LawBroken`, naming the first broken laws, if there are any."""
        if self.failures:
            shown = "\n  ".join(str(failure) for failure in self.failures[:8])
            more = len(self.failures) - 8
            raise LawBroken(
                f"{self.title} breaks {len(self.failures)} of its laws:\n  {shown}"
                + (f"\n  and {more} more" if more > 0 else "")
            )

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        exceptions = [finding.as_dict() for finding in self.findings if finding.status in (EXCEPTED, UNPROVEN)]
        return {
            **self.subject,
            "passed": self.passed,
            "seconds": round(self.seconds, 2),
            "laws": self.laws,
            "values": {key: asdict(measured) for key, measured in self.values.items()},
            "failures": [finding.as_dict() for finding in self.failures],
            "exceptions": exceptions,
        }

    def facts(self) -> dict[str, Any]:
        """What does not change from run to run: no timings, no deviations, each exception once."""
        laws = {
            law: {key: count for key, count in counts.items() if key != "worst"} for law, counts in self.laws.items()
        }
        values = {key: {k: v for k, v in asdict(one).items() if k != "laws"} for key, one in self.values.items()}
        excepted = (one for one in self.findings if one.status == EXCEPTED and not _is_plain(one))
        return {
            **{key: self.subject[key] for key in ("model", "family", "dtype", "blocks")},
            "passed": self.passed,
            "laws": laws,
            "values": values,
            "failures": list(
                dict.fromkeys(f"{one.law}: {one.value} at {one.where}: {one.detail}" for one in self.failures)
            ),
            "exceptions": list(dict.fromkeys(f"{one.law}: {one.value}: {one.detail}" for one in excepted)),
        }

    def json(self, **options: Any) -> str:
        """The report as JSON text; keywords go to `json.dumps`."""
        return json.dumps(self.as_dict(), **{"indent": 1, "ensure_ascii": False, **options})

    def tables(self) -> list[Table]:
        """The laws, the values, and the failures if there are any."""
        made = [_law_table(self), _value_table(self)]
        return [*made, _failure_table(self)] if self.failures else made

    def __repr__(self) -> str:
        return "\n\n".join(text_of(shown) for shown in self.tables())

    def _repr_html_(self) -> str:
        return "".join(html_of(shown) for shown in self.tables())


def _is_plain(finding: Finding) -> bool:
    """Exceptions that say nothing of the family: derived and read-only values, whole numbers without gradients."""
    return finding.detail.startswith(("derived:", "read only:", "whole numbers"))


def worst(findings: Iterable[Finding]) -> float | None:
    deviations = [finding.deviation for finding in findings if finding.deviation is not None and not finding.broken]
    return max(deviations, default=None)


def _law_table(report: Report) -> Table:
    verdict = "every law holds" if report.passed else f"{len(report.failures)} findings break a law"
    rows = [
        (law, *(str(counts[status] or "") for status in (HOLDS, BROKEN, EXCEPTED, UNPROVEN)), _number(counts["worst"]))
        for law, counts in report.laws.items()
    ]
    title = f"{report.title}: {verdict} ({report.seconds:.1f} s)"
    return table(title, ("law", HOLDS, BROKEN, EXCEPTED, UNPROVEN, "largest deviation"), rows)


def _value_table(report: Report) -> Table:
    rows = [
        (key, one.layout, one.served, *(_short(said) for said in (one.read, one.write, one.gradient)))
        for key, one in report.values.items()
        if not one.absent
    ]
    absent = sum(bool(one.absent) for one in report.values.values())
    title = f"values, measured ({absent} more are absent, see support())"
    return table(title, ("value", "layout", "served", "read", "write", "gradient"), rows)


def _failure_table(report: Report) -> Table:
    rows = [(one.law, one.value, one.where, one.detail, _number(one.deviation)) for one in report.failures]
    return table("what is broken", ("law", "value", "where", "what was found", "deviation"), rows)


def _short(said: str) -> str:
    return {HOLDS: "yes", BROKEN: "BROKEN"}.get(said, said.partition(":")[0] if len(said) > 40 else said)


def _number(deviation: float | None) -> str:
    return "" if deviation is None else f"{deviation:.1e}"
