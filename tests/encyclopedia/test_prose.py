"""Notes as HTML: links to pages, marks as badges, nothing unescaped."""

from __future__ import annotations

import pytest

from nnatlas.encyclopedia import notes, prose, sources
from nnatlas.encyclopedia.chips import short_name
from nnatlas.encyclopedia.links import Links, Site, value_key
from nnatlas.encyclopedia.words import spans, which
from nnatlas.errors import InputError

SITE = Site(["llama"], ["moe"], {"tests/encyclopedia/claims/common.py#adds_up": "source/claims.html#adds_up"})
LINKS = Links("family/llama", "../", SITE)

TEXT = """
## Heads

See [Llama](family:llama), [the mid](value:layer_mid), [Queries](layout:Queries), [experts](trait:moe) and `<b>`. {checked: adds_up}

- Said <i>elsewhere</i>. {reported: a model card}

```equations adds_up
y = x < 2
```

```python
x = "<b>"
```
"""


def made():
    (chapter,) = prose.chapters(notes.parse(TEXT, "llama"), LINKS)
    return chapter


def test_links_lead_to_pages():
    text, *_ = made().pieces
    html = text.claims[0].html
    for href in (
        "../family/llama.html",
        "../value/block.layer_mid.html",
        "../layout/Queries.html",
        "../trait/moe.html",
    ):
        assert f'href="{href}"' in html
    assert "<code>&lt;b&gt;</code>" in html


def test_marks_are_badges():
    text, items, equations, _ = made().pieces
    assert text.claims[0].badge == prose.Badge(
        "checked", "adds_up", "checked by the test adds_up", "../source/claims.html#adds_up"
    )
    badge = items.claims[0].badge
    assert (badge.how, badge.by, badge.href) == ("reported", "a model card", None)
    assert equations.lines == ("y = x < 2",) and equations.badge.how == "checked"
    assert made().anchor == "note-heads"


def test_no_html_of_notes_goes_through():
    _, items, _, code = made().pieces
    assert "&lt;i&gt;" in items.claims[0].html and "<i>" not in items.claims[0].html
    assert "&lt;b&gt;" in code.code and "<b>" not in code.code


def test_a_link_to_no_page_is_an_error_and_text_where_the_page_stands_alone():
    with pytest.raises(InputError, match="the link family:nobody leads nowhere"):
        prose.inline("[x](family:nobody)", LINKS)
    assert prose.inline("a [Llama](family:llama) b", Links("alone")) == "a Llama b"
    assert 'href="https://x.y"' in prose.inline("[x](https://x.y)", Links("alone"))


def test_values_are_found_by_name_or_key():
    assert value_key("attention_output") == "self_attn.attention_output"
    assert value_key("linear_attn.attention_output") == "linear_attn.attention_output"
    assert value_key("image_features") == "vision.image_features" and value_key("nothing") is None


def test_blocks_in_words():
    assert spans((0, 1, 2, 5)) == "0-2, 5"
    assert which(tuple(range(8)), 8) == "every block"
    assert which((5,), 8) == "block 5"
    assert which((0, 2), 4) == "blocks 0, 2"
    assert which((3, 7, 11, 15), 16) == "every 4th block from 3"
    assert which((3, 7, 11, 15), 24) == "blocks 3, 7, 11, 15"  # they do not go on to the end
    assert which(tuple(n for n in range(24) if n % 4 != 3), 24) == "all but every 4th block from 3"


def test_short_names():
    assert short_name("model.layers.0.norms.1") == "norms.1"
    assert (short_name("self_attn.o_proj"), short_name("mlp"), short_name("")) == ("o_proj", "mlp", "")


def test_source_pages_name_what_they_define():
    files = {file.path: file for file in sources.files()}
    assert "LLAMA" in files["src/nnatlas/families/_shapes.py"].names
    lines = list(files["src/nnatlas/values.py"].lines())
    assert len(lines) == files["src/nnatlas/values.py"].text.count("\n")
    assert [name for _, name, _ in lines if name == "VALUES"] == ["VALUES"]
