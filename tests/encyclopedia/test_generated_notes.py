"""Notes made from row, outline and measurement: every type has them, in whole sentences, and their equations compute."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.encyclopedia.claims.common import IDS
from tests.tiny_models import tiny
from torch import Tensor

from nnatlas import families
from nnatlas.encyclopedia import measurements
from nnatlas.encyclopedia.formulas import equations
from nnatlas.encyclopedia.generated_facts import coded, listed
from nnatlas.encyclopedia.generated_notes import SECTIONS, generate
from nnatlas.encyclopedia.notes import Code, Equations, Items, Note, Text
from nnatlas.encyclopedia.outline import kept
from nnatlas.errors import InputError
from nnatlas.layouts import LAYOUTS
from nnatlas.values import RARE, VALUES

SNAPSHOTS = Path(__file__).parent / "kept_notes"
TYPES = measurements.types()


def in_markdown(note: Note) -> str:
    """A note as the text that a note by hand would have, marks included."""
    lines = []
    for section in note.sections:
        lines.append(f"## {section.title}\n")
        for part in section.parts:
            assert not isinstance(part, Code)
            if isinstance(part, Equations):
                lines.append("```equations\n" + "\n".join(part.lines) + f"\n``` {part.mark.how}\n")
            else:
                items = part.items if isinstance(part, Items) else (part,)
                bullet = "- " if isinstance(part, Items) else ""
                lines.append("\n".join(bullet + said(item) for item in items) + "\n")
    return "\n".join(lines)


def said(text: Text) -> str:
    return text.text + (f" {{{text.mark.how}: {text.mark.by}}}" if text.mark else "")


def test_all_types_have_what_notes_are_made_of():
    assert len(TYPES) == 243
    assert [name for name in TYPES if kept(name) is None] == []


@pytest.mark.parametrize("model_type", TYPES)
def test_every_type_has_notes_in_whole_sentences(model_type):
    note = generate(model_type)
    assert not note.written
    titles = [section.title for section in note.sections]
    assert titles == [title for title in SECTIONS if title in titles]
    assert {"The block", "The contributions", "The readout", "What loads as this family"} <= set(titles)
    for text in note.texts():
        plain = re.sub(r"\]\([^)]*\)|[`\[]", "", text.text)
        assert plain.endswith((".", ":")) and (text.mark is not None or plain.endswith(":")), plain
        assert plain[0].isupper() or re.match(r"[`\[]|\d+ values", text.text), plain
        assert not re.search(r"\bNone\b|\{|\}|  | [.,;:](?!\w)|\.\.|,,|\( |: \.|\bin\.", plain), plain
        assert not re.search(r"\b(\w+) \1\b", plain), plain
        assert "<" not in plain


@pytest.mark.parametrize("model_type", TYPES)
def test_their_links_and_marks_are_known(model_type):
    note = generate(model_type)
    known = {"family": families.rows(), "value": VALUES | RARE, "layout": LAYOUTS, "trait": measurements.BADGES}
    assert [(kind, name) for kind, name in note.links() if name not in known[kind]] == []
    assert {mark.how for mark in note.marks()} <= {"row", "measured", "built"}
    assert all(mark.by.strip() for mark in note.marks())


@pytest.mark.parametrize("model_type", ["mistral", "jamba", "deepseek_v4"])
def test_notes_look_as_they_did(model_type):
    path = SNAPSHOTS / f"{model_type}.md"
    made = in_markdown(generate(model_type))
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made, encoding="utf-8")
        pytest.fail(f"{path.name} was not there and is written now: look at it")
    assert made == path.read_text(encoding="utf-8"), f"if it is better, remove kept_notes/{path.name}"


def test_a_type_without_an_outline_is_refused():
    with pytest.raises(InputError, match=r"'nobody'.*outline and measurement"):
        generate("nobody")


def test_words():
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert (
        coded("the module mlp's output, element 0, times block.factor")
        == "the output of `mlp`, element 0, times `factor`"
    )


COMPUTED = (
    "llama granite gpt2 gemma2 olmo2 cohere2 glm4 hyperclovax falcon mixtral phi minimax jamba olmo_hybrid".split()
)


@pytest.mark.parametrize("model_type", COMPUTED)
def test_equations_compute(model_type):
    """Each line but an attention's, computed with the tiny model's modules and values, gives what is on its left."""
    model = tiny(model_type)
    computed = 0
    for variant in kept(model_type).variants:
        block = next((number for number, one in enumerate(model.layers) if one._host.kinds == variant.kinds), None)
        if block is None:
            continue
        names = in_block(model, block)
        for line in equations(variant):
            left, right = line.split(" = ")
            if "output of" not in right and not re.search(r"attn\(|attention\(|mamba\(|mixer\(", right):
                made = eval(arithmetic(right), {"__builtins__": {}}, names)
                torch.testing.assert_close(
                    made, eval(arithmetic(left), {"__builtins__": {}}, names), rtol=1e-4, atol=1e-4
                )
                computed += 1
    assert computed >= 2


def arithmetic(formula: str) -> str:
    return formula.replace("·", "*").replace(".", "_")


def in_block(model: Any, block: int) -> dict[str, Any]:
    """Values, modules and numbers of one block by the names that equations use."""
    host = model.layers[block]
    names: dict[str, Any] = {}
    found = model.collect(
        IDS, [f"layers.{block}.{name}" for name in host._host.values if host._host.absence(name) is None]
    )
    names |= {key.rpartition(".")[2]: value for key, value in found.items() if isinstance(value, Tensor)}
    mixer = "self_attn" if "self_attn" in host._host.parts else "linear_attn"
    for part, value in ((mixer, "attention_output"), ("mlp", "mlp_output")):
        names[value] = model.collect(IDS, f"layers.{block}.{part}.{value}")[f"layers.{block}.{part}.{value}"]
    modules = {name.replace(".", "_"): first_of(module) for name, module in host._module.named_modules() if name}
    config = {key: value for key, value in vars(model.config).items() if isinstance(value, int | float)}
    return config | vars(host._module) | modules | names


def first_of(module: torch.nn.Module) -> Any:
    def call(x: Tensor) -> Tensor:
        made = module(x)
        return made[0] if isinstance(made, tuple) else made

    return call
