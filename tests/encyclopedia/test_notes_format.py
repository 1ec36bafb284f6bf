"""The format of notes: what a note is parsed into, and how it complains about text that is not in the format."""

from __future__ import annotations

import pytest

from nnatlas.encyclopedia.notes import Code, Equations, Items, Mark, Note, Section, Text, parse
from nnatlas.errors import InputError

SOURCE = """## The block

Two norms
stand before. {checked: two_norms}

In order:

```equations block_equations
h = x + attn(norm(x))
y = h + mlp(norm(h))
```

## Heads

- Four share [one key](layout:Keys). {checked: groups}
- The sink takes `{0.84}` of it. {reported: the model card of A, of 2025}

```python
x = 1
```

```python no-run
model = nnatlas.load("big")
```
"""


def test_every_kind_of_part_is_read_with_its_mark():
    block, heads = parse(SOURCE, "some").sections
    assert [block.title, heads.title] == ["The block", "Heads"]
    claim, lead, equations = block.parts
    assert claim == Text("Two norms stand before.", Mark("checked", "two_norms"), 3)
    assert lead == Text("In order:", None, 6)
    assert equations.lines == ("h = x + attn(norm(x))", "y = h + mlp(norm(h))")
    assert equations.mark == Mark("checked", "block_equations")
    items, runs, needs_a_checkpoint = heads.parts
    assert items.items[1].text == "The sink takes `{0.84}` of it."
    assert items.items[1].mark == Mark("reported", "the model card of A, of 2025")
    assert (runs.code, runs.runs, needs_a_checkpoint.runs) == ("x = 1\n", True, False)
    assert runs.line == 18


def test_a_note_lists_its_marks_links_and_examples():
    note = parse(SOURCE, "some")
    assert [mark.by for mark in note.marks()] == [
        "two_norms",
        "groups",
        "the model card of A, of 2025",
        "block_equations",
    ]
    assert list(note.links()) == [("layout", "Keys")]
    assert [example.runs for example in note.examples()] == [True, False]
    assert len(list(note.texts())) == 4


@pytest.mark.parametrize(
    "source, said",
    [
        ("Before any section. {checked: a}", r"notes/some.md:1: a section, ## and its title"),
        ("# Too large", "sections are ## here, not #"),
        ("## A\n\nNobody knows.", "notes/some.md:3: say how it is known.*Nobody knows"),
        ("## A\n\nThis {cheked: a}", "say how it is known"),
        ("## A\n\n1. one {checked: a}", "not ordered_list_open"),
        ("## A\n\n- one {checked: a}\n\n  two {checked: b}", "one paragraph as a list item"),
        ("## A\n\n```equations\nx = y\n```", "fences are `python`"),
        ("## A\n\n```python quietly\nx\n```", "fences are `python`"),
        ("## A\n\n> said {checked: a}", "not blockquote_open"),
    ],
)
def test_what_is_not_in_the_format_is_said_with_file_and_line(source, said):
    with pytest.raises(InputError, match=said):
        parse(source, "some")


def test_a_title_is_a_fragment():
    assert Section("Queries, keys and the rotary", ()).anchor == "queries-keys-and-the-rotary"


def test_the_parts_of_a_note_made_by_hand_are_walked_too():
    made = Note("some", (Section("A", (Items((Text("b", Mark("row", "x")),)), Equations(("y",)), Code("z"))),), False)
    assert [text.text for text in made.texts()] == ["b"]
    assert [mark.how for mark in made.marks()] == ["row"]
