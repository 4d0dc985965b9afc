"""Pictures of trends: the same bytes for the same data, light and dark, and names as they are."""

import numpy as np
import pytest

from tools import trend_drawing
from tools.trend_panels import Line, Mark, Panel, Picture

pytest.importorskip("matplotlib")


def a_picture(name="native", title="matmul on Cpu, hot: float32-1M"):
    values = np.array([1.0, np.nan, 2.0, 2.1])
    steps = (Mark(place=2, text="2.00x faster", better=True),)
    line = Line(name=name, values=values, low=values - 0.1, high=values + 0.1, failed=(1,), steps=steps)
    finding = Mark(place=2, text="-50.0% time, confirmed", better=True)
    panel = Panel(title=title, subtitle="bench-1", lines=(line,), findings=(finding, finding))
    return Picture(unit="GFLOPS", commits=("a", "b", "c", "d"), tags={1: "v1.0"}, panels=(panel,))


@pytest.mark.parametrize(("kind", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_two_drawings_have_the_same_bytes(kind, start):
    one, other = (trend_drawing.draw(a_picture(), kind=kind) for _ in range(2))
    assert one == other
    assert one.startswith(start)
    assert b"<dc:date" not in one
    assert b"Software" not in one


def test_every_mark_is_named_and_names_are_not_formulas():
    text = trend_drawing.draw(a_picture(name="_$x^2$", title="a $\\frac$ & <b>"), kind="svg").decode()
    marks = ("2.00x faster", "-50.0% time, confirmed, and 1 more", "v1.0")
    for wanted in (*marks, "_$x^2$", "_$x^2$ failed", "a $\\frac$ &amp; &lt;b&gt;"):
        assert wanted in text, wanted


def test_dark_is_for_a_dark_ground():
    light, dark = (trend_drawing.draw(a_picture(), kind="svg", dark=dark).decode() for dark in (False, True))
    assert ("fill: #ffffff" in light, "fill: #1c2024" in dark) == (True, True)
    assert "#ffffff" not in dark
