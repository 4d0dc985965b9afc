"""Charts: the data that Bokeh gets, and that it is data only."""

import json

import pytest

from tests.tools import synthetic
from tools import charts, kernel_page
from tools.reading import site_data


@pytest.fixture
def chart(tree):
    pages = kernel_page.build(site_data(tree.results, tree.repository))
    (page,) = [page for page in pages if page.kernel == "add_mul_exp"]
    return page.sections[0].chart


def test_every_choice_is_there_with_a_value_for_every_commit(chart):
    choices = charts.embed(chart).choices
    assert set(choices) == {"GFLOPS", "GB/s"}
    for by_case in choices.values():
        assert set(by_case) == set(synthetic.CASES["add_mul_exp.Cpu.time_hot"])
        for lines in by_case.values():
            assert list(lines) == list(synthetic.IMPLEMENTATIONS)
            assert {len(column) for columns in lines.values() for column in columns.values()} == {5}


def test_what_was_not_measured_has_no_value_and_says_why(chart):
    triton = charts.embed(chart).choices["GFLOPS"]["float32-5M"]["triton"]
    assert triton["y"][:4] == [None] * 4
    assert triton["low"][:4] == triton["high"][:4] == [None] * 4
    assert triton["shown"][2:4] == ["n/a", "failed"]
    assert triton["flags"][3].startswith("failed: ")
    assert triton["low"][4] < triton["y"][4] < triton["high"][4]


def test_the_page_can_parse_it(chart):
    embedded = charts.embed(chart)

    def refuse(text):
        raise AssertionError(f"{text} is not JSON")

    for data in (embedded.document, embedded.choices):
        json.loads(json.dumps(data), parse_constant=refuse)


def test_the_first_choice_is_in_the_document(chart):
    embedded = charts.embed(chart)
    text = json.dumps(embedded.document)
    for value in embedded.choices["GFLOPS"][chart.first_case]["native"]["y"]:
        assert repr(value) in text
    assert chart.first_case == "float32-5M"


def test_no_tooltip_takes_data_for_markup(chart):
    text = json.dumps(charts.embed(chart).document)
    assert "@subject" in text
    assert "{safe}" not in text
    assert "<div" not in text


def test_an_implementation_keeps_its_colour():
    everywhere = charts.colours(("eager", "native"))["native"]
    assert charts.colours(("compile", "native", "mine"))["native"] == everywhere
    many = charts.colours(tuple("abcdefgh"))
    assert len(many) == 8
    assert set(charts.COLOURS.values()).isdisjoint(many.values())


def test_labels_thin_out_but_every_commit_has_its_place(chart, monkeypatch):
    monkeypatch.setattr(charts, "_LABELS", 2)
    plot = charts._axes(chart)
    assert plot.xaxis.ticker.ticks == [0, 3]
    assert len(plot.xaxis.major_label_overrides) == 5
    assert (plot.x_range.start, plot.x_range.end) == (-0.5, 4.5)
