"""Glyphs: what is alike shares one, what is built differently does not, and nothing leaves its box."""

from __future__ import annotations

from nnatlas import families
from nnatlas.encyclopedia import measurements
from nnatlas.encyclopedia.glyphs import AT_MOST, WIDTH, glyphs
from nnatlas.encyclopedia.outline import kept
from nnatlas.encyclopedia.overview import entries, specimens
from nnatlas.encyclopedia.page import row_of


def shown(model_type):
    outline = kept(model_type)
    return glyphs(outline, row_of(outline, families.rows()[model_type]), measurements.measured(model_type).facts)


def kinds(glyph):
    return [mark.kind for mark in glyph.marks if mark.kind != "returns"]


def test_norms_stand_where_they_stand():
    assert kinds(shown("llama")[0]) == ["norm", "self_attn", "norm", "mlp"]
    assert kinds(shown("olmo2")[0]) == ["self_attn", "norm", "mlp", "norm"]
    assert kinds(shown("gemma2")[0]) == ["norm", "self_attn", "norm", "norm", "mlp", "norm"]


def test_a_parallel_block_is_side_by_side():
    attention, mlp = (mark for mark in shown("cohere")[0].marks if mark.kind in ("self_attn", "mlp"))
    assert attention.y == mlp.y and attention.x + attention.width < mlp.x


def test_a_hybrid_shows_its_sorts_the_frequent_one_first():
    first, second = shown("qwen3_next")
    assert ("linear_attn" in kinds(first), "self_attn" in kinds(second)) == (True, True)


def test_families_that_are_built_alike_share_one():
    assert shown("llama")[0].key == shown("mistral")[0].key != shown("cohere")[0].key


def test_the_front_page_shows_the_commonest_by_a_plain_family():
    outlines = {name: kept(name) for name in measurements.types()}
    listed = entries(outlines)
    first, *others = specimens(listed)
    assert first.entry.noted
    assert first.glyph == shown("llama")[0]
    assert first.count == sum(one.glyphs[:1] == (first.glyph,) for one in listed) > 100
    assert [one.count for one in others] == sorted((one.count for one in others), reverse=True)
    assert len({one.glyph for one in (first, *others)}) == 12


def test_all_stay_in_their_box():
    for model_type in measurements.types():
        found = shown(model_type)
        assert 1 <= len(found) <= AT_MOST, model_type
        for glyph in found:
            assert all(
                one.x >= 0 and one.x + one.width <= WIDTH and one.y + one.height <= glyph.height for one in glyph.marks
            )
