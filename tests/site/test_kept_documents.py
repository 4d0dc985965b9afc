"""Bokeh's documents are made once, and are the same whatever was drawn before."""

import json

import pytest
from markupsafe import Markup

from kernel_velocity.site.charts import documents, trend
from kernel_velocity.site.charts.documents import FIRST, Documents, numbered

DRAWN = {"root_id": "p7", "doc": {"roots": [{"id": "p7", "attributes": {"a": {"id": "p3"}, "b": [{"id": "p7"}]}}]}}


@pytest.fixture
def draw():
    """What draws, and counts how often it did."""

    def make():
        make.times += 1
        return DRAWN

    make.times = 0
    return make


def test_a_document_is_made_once_for_what_it_follows_from(tmp_path, draw):
    first = Documents(tmp_path).get("trend", ("a", "b"), draw)
    assert Documents(tmp_path).get("trend", ("a", "b"), draw) == first
    assert json.loads(first) == numbered(DRAWN, FIRST)
    assert draw.times == 1
    kept = Documents(tmp_path)
    kept.get("trend", ("a",), draw)
    kept.get("roofline", ("a", "b"), draw)
    kept.get("trend", ("a", "b"), draw, first=2001)
    assert draw.times == 4


def test_it_is_safe_in_a_script_element_of_a_page(tmp_path):
    for _ in range(2):  # made, and kept
        text = Documents(tmp_path).get("trend", (), lambda: DRAWN | {"title": "</script><b>&'"})
        assert isinstance(text, Markup) and not {*"<>&'"} & {*text}
        assert json.loads(text)["title"] == "</script><b>&'"
        assert [*json.loads(text)] == [*DRAWN, "title"]  # in its own order


def test_other_code_makes_it_again(tmp_path, draw, monkeypatch):
    Documents(tmp_path).get("trend", (), draw)
    monkeypatch.setattr(documents.cache, "code", lambda *rooms: "other")
    Documents(tmp_path).get("trend", (), draw)
    assert draw.times == 2


def test_where_nothing_can_be_kept_it_lasts_as_long_as_the_report(tmp_path, draw):
    (tmp_path / "file").write_text("in the way")
    for folder in (None, tmp_path / "file"):
        kept = Documents(folder)
        assert kept.get("trend", (), draw) == kept.get("trend", (), draw)
    assert draw.times == 2


def test_only_the_newest_documents_are_stored(tmp_path, draw, monkeypatch):
    monkeypatch.setattr(documents, "MOST", 2)
    kept = Documents(tmp_path)
    for name in "abac":
        kept.get(name, (), draw)
    assert draw.times == 3
    kept = Documents(tmp_path)
    kept.get("b", (), draw)
    kept.get("c", (), draw)
    assert draw.times == 3
    kept.get("a", (), draw)
    assert draw.times == 4


def test_what_two_processes_draw_at_once_is_kept_of_both(tmp_path, draw):
    ours, theirs = Documents(tmp_path), Documents(tmp_path)
    ours.get("trend", ("a",), draw)
    theirs.get("roofline", (), draw)
    for name, parameters in (("trend", ("a",)), ("roofline", ())):
        Documents(tmp_path).get(name, parameters, draw)
    assert draw.times == 2


def test_models_are_numbered_in_the_order_in_which_they_are_named():
    attributes = {"a": {"id": "p12"}, "b": [{"id": "p11"}]}
    assert numbered(DRAWN, 11) == {"root_id": "p11", "doc": {"roots": [{"id": "p11", "attributes": attributes}]}}


def test_a_document_is_the_same_whatever_was_drawn_before():
    one, other = (numbered(trend.document(("eager", "native")), FIRST) for _ in range(2))
    assert json.dumps(one) == json.dumps(other)
