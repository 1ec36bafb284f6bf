"""Whole: no parameter and no number of the config is out of sight.

A parameter lies under a module that plays a role, or the row says that it passes over it.  A config field that transformers'
config class does not know is read by nobody; if its name says that it changes the arithmetic, the checkpoint was meant for
another computation than the one that runs.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from nnatlas.bind.tree import BoundModel, Host
from nnatlas.check.findings import BROKEN, HOLDS, Finding
from nnatlas.check.registry import law
from nnatlas.check.trial import Trial

CONTAINERS = ("base", "layers")
ARITHMETIC = re.compile(
    r".*(multiplier|scal(e|ing)|soft_?cap|clip|clamp|residual|alpha|beta|temperature|gate|norm(?!al)|rotary|rope|bias|window"
    r"|parallel|sink|alibi|act(ivation)?_fn|hidden_act|topk|top_k|experts|qk_).*"
)
_SAYS_NOTHING = re.compile(r".*(token|vocab|dropout|init|path|dtype|quant|loss|grad|class|version|name).*")


@law("whole")
def every_parameter_is_spoken_for(trial: Trial) -> Iterator[Finding]:
    """Each parameter lies under a module that plays a role, or under a pattern of the row's `passes`."""
    owner = trial.owner
    named, passed = _named(owner), _passed(owner)
    outside = [
        name
        for name, _ in owner.module.named_parameters()
        if not any(name == path or name.startswith(f"{path}.") for path in named)
        and not any(fnmatchcase(name, pattern) or fnmatchcase(name, f"{pattern}.*") for pattern in passed)
    ]
    said = (
        f"no role names and no `passes` covers {', '.join(outside[:5])}" if outside else "all parameters are spoken for"
    )
    yield Finding("whole", "parameters", "model", BROKEN if outside else HOLDS, said)


@law("whole")
def every_number_of_the_config_is_known(trial: Trial) -> Iterator[Finding]:
    """No field that would change the arithmetic is unknown to the config's class, and so read by nobody."""
    unknown = sorted(name for name in _unknown(trial.module.config) if changes_arithmetic(name, trial.module.config))
    said = "the config states nothing that its class does not know"
    if unknown:
        said = f"{type(trial.module.config).__name__} does not know {', '.join(unknown)}, so the model computes without"
    yield Finding("whole", "config", "model", BROKEN if unknown else HOLDS, said)


def changes_arithmetic(name: str, config: Any) -> bool:
    """Whether a field's name and value say that a forward would come out otherwise."""
    neutral = getattr(config, name) in (None, False, 0, 1, "")
    return bool(ARITHMETIC.fullmatch(name)) and not _SAYS_NOTHING.fullmatch(name) and not neutral


def _unknown(config: Any) -> set[str]:
    """Fields of this config that its class, built anew, would not have."""
    known = set(inspect.signature(type(config).__init__).parameters)
    for owner in type(config).__mro__:
        known |= set(vars(owner)) | set(getattr(owner, "__annotations__", ()))
    known |= set(vars(type(config)())) | set(type(config).attribute_map.values())
    return {name for name in vars(config) if not name.startswith("_")} - known


def _named(owner: BoundModel) -> set[str]:
    """Paths of all modules that play a role and are not the containers of the rest."""
    hosts: list[Host] = [owner.root, *(part for block in owner.blocks for part in (block, *block.parts.values()))]
    blocks = {block.module for block in owner.blocks}
    return {
        bound[1]
        for host in hosts
        for role, bound in host.roles.items()
        if isinstance(bound, tuple) and role not in CONTAINERS and bound[0] not in blocks
    }


def _passed(owner: BoundModel) -> list[str]:
    """The row's `passes` as patterns of full parameter names."""
    base, layers = (bound[1] if isinstance(bound := owner.root.roles[role], tuple) else "" for role in CONTAINERS)
    starts = {"base": base, "block": f"{layers}.*", "root": ""}
    found = []
    for pattern in owner.family.passes:
        head, _, tail = pattern.partition(".")
        start = starts.get(head)
        found.append(pattern if start is None else ".".join(part for part in (start, tail) if part))
    return found
