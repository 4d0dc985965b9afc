"""Charts: the document that Bokeh gets, and that it is axes and renderers only."""

import json

import pytest

from kernel_velocity.site.charts import palette, trend
from tests import synthetic


@pytest.fixture(scope="module")
def document():
    return trend.document(synthetic.IMPLEMENTATIONS)


def renderers(document):
    (root,) = [document["root_id"]] if "root_id" in document else [None]
    (plot,) = document["doc"]["roots"]
    assert root in (None, plot["id"])
    return plot["attributes"]["renderers"]


def test_every_implementation_has_a_line_with_its_intervals_and_dots(document):
    names = [item["attributes"]["name"] for item in renderers(document)]
    assert len(set(names)) == len(names)
    for implementation in synthetic.IMPLEMENTATIONS:
        assert {f"{part}: {implementation}" for part in ("band", "bars", "line", "dots")} <= set(names)
    assert {"tag", "environment", "finding", "heads", "changes", "roof"} <= set(names)


def test_dots_lie_over_lines_and_marks_over_dots(document):
    names = [item["attributes"]["name"] for item in renderers(document)]
    assert names.index("tag") < names.index("band: eager") < names.index("line: eager") < names.index("dots: eager")
    assert names.index("dots: triton") < names.index("changes")


def test_the_page_can_parse_it(document):
    def refuse(text):
        raise AssertionError(f"{text} is not JSON")

    json.loads(json.dumps(document), parse_constant=refuse)


def test_it_holds_no_data_and_no_markup(document):
    sources = [item["attributes"]["data_source"] for item in renderers(document)]
    entries = [item["attributes"]["data"]["entries"] for item in sources if "attributes" in item]  # else named before
    assert len(entries) > 10
    assert all(len(column) == 0 for columns in entries for _, column in columns)
    text = json.dumps(document)
    assert "{safe}" not in text
    assert "<div" not in text


def test_a_name_that_sounds_like_a_mark_is_an_implementation_of_its_own():
    found = trend.document(("tag", "dots: native", "native"))
    names = [item["attributes"]["name"] for item in renderers(found)]
    assert len(set(names)) == len(names)
    assert "line: tag" in names


def test_an_implementation_keeps_its_colour():
    everywhere = palette.colours(("eager", "native"))["native"]
    assert palette.colours(("compile", "native", "mine"))["native"] == everywhere
    many = palette.colours(tuple("abcdefgh"))
    assert len(many) == 8
    assert set(palette.COLOURS.values()).isdisjoint(many.values())


def test_ten_implementations_look_like_ten():
    names = (*palette.COLOURS, *"abcdef")
    looks = set(zip(palette.colours(names).values(), palette.dashes(names).values(), strict=True))
    assert len(looks) == len(names)
    assert {palette.dashes(names)[name] for name in (*palette.COLOURS, *"abc")} == {"solid"}


def test_a_shape_tells_neighbours_apart_where_a_colour_cannot(document):
    shapes = [
        item["attributes"]["glyph"]["attributes"].get("marker", {"value": "circle"})["value"]  # Bokeh's own first
        for item in renderers(document)
        if item["attributes"]["name"].startswith("dots: ")
    ]
    assert len(shapes) == len(set(shapes)) == len(synthetic.IMPLEMENTATIONS)
