"""Where a dictionary belongs, from the name its trainers gave the place to a value of ours.

SAELens writes TransformerLens's names, `blocks.8.hook_resid_pre`; sparsify the path of a module below the base model,
`layers.8` or `h.8.mlp`, whose output it learned, or, transcoding, what the module makes of its input.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnatlas import kin
from nnatlas.errors import InputError

if TYPE_CHECKING:
    from nnatlas.model import StandardizedTransformer

BLOCK = re.compile(r"blocks\.(\d+)\.(.+)")


@dataclass(frozen=True)
class Place:
    """`hook` is the name of what is read, `hook_out` of what is written, where that is another; `module` is whether they are
    paths of modules."""

    hook: str
    hook_out: str = ""
    transcodes: bool = False
    module: bool = False

    def values(self, model: StandardizedTransformer, at: str | tuple[str, str] | None = None) -> tuple[str, str]:
        """The names of the values that are read and written in this model; `at` names them instead.

        Raises:
            InputError: the trainers' name is none that is known, or one name is given where a transcoder needs two.
        """
        if at is not None:
            pair = (at, at) if isinstance(at, str) else tuple(at)
            if len(pair) != 2 or (self.transcodes and pair[0] == pair[1]):
                raise InputError(f"a transcoder reads one value and writes another: at=(read, written), not {at!r}")
            return pair
        if not self.hook or (self.transcodes and not self.module and not self.hook_out):
            raise InputError(
                "the folder does not say where the dictionary belongs: name the value, at='layers.8.layer_input'"
            )
        if self.module:
            return _of_module(model, self.hook, self.transcodes)
        return _of_hook(self.hook), _of_hook(self.hook_out or self.hook)


def _of_hook(hook: str) -> str:
    """A TransformerLens name as a value's."""
    found = BLOCK.match(hook)
    ours = next((one.ours for one in kin.find(hook) if one.library == "TransformerLens" and one.ours), "")
    if not ours:
        raise InputError(f"no value of ours is what {hook!r} names; name one yourself: at='layers.8.layer_input'")
    if found is None:
        return ours
    return f"layers.{found[1]}.{ours.removeprefix('block.')}"


def _of_module(model: StandardizedTransformer, hook: str, transcodes: bool) -> tuple[str, str]:
    """A module's path below the base model as native names, or a block's as its stream."""
    found = {path: module for path, module in model._module.named_modules() if f".{path}".endswith(f".{hook}")}
    if not found:
        raise InputError(f"this model has no module {hook!r}; name the value yourself: at='layers.8.layer_output'")
    path = min(found, key=len)
    number = next((at for at, block in enumerate(model.layers) if block._module is found[path]), None)
    written = f"{path}.output" if number is None else f"layers.{number}.layer_output"
    entering = f"{path}.input" if number is None else f"layers.{number}.layer_input"
    return (entering if transcodes else written), written
