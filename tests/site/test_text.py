"""Results as words, cells and footnotes. Small figures."""

import math
import re
from urllib.parse import parse_qsl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.results.measurement import Outcome
from kernel_velocity.results.records import Machine
from kernel_velocity.site import text
from kernel_velocity.site.charts import plot
from kernel_velocity.verdict.verdicts import Verdict, Word


@pytest.mark.parametrize(
    ("numbers", "wanted"),
    [
        ({"seconds": 2e-3, "flop": 4e6}, ("2.00 GFLOPS", "2.00 ms", "")),
        (
            {"seconds": 2e-3, "low": 1e-3, "high": 4e-3, "flop": 4e6, "unit": "GOPS"},
            ("2.00 GOPS", "1.00 to 4.00 GOPS · 2.00 ms", ""),
        ),
        ({"seconds": 2e-3}, ("2.00 ms", "", "")),  # the time is what is shown already
        ({"seconds": 2e-3, "low": 1e-3, "high": 4e-3}, ("2.00 ms", "1.00 ms to 4.00 ms", "")),
        ({"outcome": Outcome.FAILED}, ("failed", "", "failed")),
        ({"outcome": Outcome.NOT_APPLICABLE}, ("n/a", "", "n/a")),
    ],
)
def test_cell(numbers, wanted):
    unknown = {"outcome": Outcome.MEASURED, **dict.fromkeys(("seconds", "low", "high"), math.nan), "flop": None}
    assert text.cell(**(unknown | {"unit": "GFLOPS" if "flop" in numbers else "seconds"} | numbers)) == wanted


@pytest.mark.parametrize("name", ["bench-1", "a&b=c#d +%2e", "\N{ROCKET} \u05e9\u05dc\u05d5\u05dd", ""])
def test_kernel_link_holds_the_choice(name):
    choice = {"state": "hot", "machine": name, "environment": f"{name}-py3.11", "case": f"float32-{name}"}
    file, _, fragment = text.kernel_href("matmul", "Cpu", **choice).partition("#")
    assert (file, dict(parse_qsl(fragment, keep_blank_values=True))) == ("kernel-matmul-Cpu.html", choice)
    assert text.kernel_href("matmul", "Cpu") == "kernel-matmul-Cpu.html"


@pytest.mark.parametrize("kernel", ["a" * 260, "\xe9" * 130, "a/../b"])
def test_kernel_whose_name_no_file_can_have_has_a_digest(kernel):
    digest = text.in_file_name(kernel)
    assert re.fullmatch("[0-9a-f]{16}", digest) and text.in_file_name(kernel + "b") != digest
    assert text.kernel_href(kernel, "Cpu") == f"kernel-{digest}-Cpu.html"
    assert text.in_file_name("a.b_2") == "a.b_2"


# ---- small figures -------------------------------------------------------------------------------------------------


def numbers(figure, name, tag="circle"):
    """Return an attribute of all elements of a kind."""
    return [float(part.split('"')[1]) for part in figure.split(f"<{tag}")[1:] for part in [part.split(f" {name}=")[1]]]


def test_sparkline_newest_at_the_right():
    line = plot.sparkline([1.0, 3.0, 2.0], "a", marked=range(3))
    heights = numbers(line, "cy")
    assert heights[1] < heights[2] < heights[0]  # of an SVG, y grows downwards
    assert numbers(line, "cx") == [3, 60, 117, 117]


def test_sparkline_breaks_at_a_missing_value():
    assert plot.sparkline([1.0, 2.0, None, 3.0, None, 4.0], "a").count("M") == 3


@settings(max_examples=25)
@given(st.lists(st.none() | st.floats(-1e300, 1e300) | st.sampled_from([math.nan, math.inf]), max_size=12))
def test_sparkline_lies_within_its_frame(values):
    line = plot.sparkline(values, "a", marked=range(12), level=1.0)
    finite = [value for value in values if value is not None and math.isfinite(value)]
    assert line.count("<circle") == (len(finite) + 1 if len(finite) > 1 else 0)
    assert all(0 <= x <= plot.SPARK_WIDTH for x in numbers(line, "cx"))
    assert all(0 <= y <= plot.SPARK_HEIGHT for y in numbers(line, "cy"))


def test_sparkline_is_scaled_to_its_range_and_marks_a_step():
    line = plot.trend([5.0, 5.0, 10.0], "GOPS", marked=2, tone="faster")
    assert 'd="M3 25l57 0 57 -22"' in line
    assert (numbers(line, "cx"), numbers(line, "cy")) == ([117, 117], [3, 3])
    assert '<circle class="faster"' in line and line.startswith('<svg class="sparkline"')
    assert "<title>from 5.00 GOPS to 10.0 GOPS over 3 commits</title>" in line
    assert plot.trend([], "GOPS") == plot.trend([1.0], "GOPS") == ""
    noise = plot.trend([100.0, 100.1], "GOPS")  # is no mountain
    assert 'd="M3 14l114 0"' in noise


def test_sparkline_of_many_commits_shows_the_newest():
    line = plot.trend([1.0] * 1000 + [4.0] * 39 + [8.0], "GFLOPS", marked=1039)
    path = line.split(' d="')[1].split('"')[0]
    assert path.startswith("M3 25l") and path.count(" ") == 40 + 38
    assert "from 4.00 GFLOPS to 8.00 GFLOPS over the last 40 of 1,040 commits" in line
    assert numbers(line, "cx") == [117, 117]


@pytest.mark.parametrize(
    ("verdict", "unit", "words"),
    [
        (Verdict(word=Word.SLOWER, ratio=1.05, low=1.04, high=1.06), "seconds", ("5.0% slower", "±1.0%", "slower")),
        (Verdict(word=Word.SLOWER, ratio=0.5, low=0.49, high=0.51), "GB/s", ("50.0% lower", "±1.0%", "slower")),
        (Verdict(word=Word.SLOWER, ratio=1.05), "bytes", ("5.0% larger", "", "slower")),
        (Verdict(word=Word.HIGHER, ratio=1.05), "threads", ("5.0% higher", "", "same")),
        (
            Verdict(word=Word.SLOWER, ratio=math.nan, ends=(0.0, 8.0)),
            "spills",
            ("0 to 8.00 spills", "", "slower"),
        ),
        (Verdict(word=Word.UNCHANGED, within=0.014), "seconds", ("unchanged", "within 1.4%", "unchanged")),
        (Verdict(word=Word.UNDECIDED), "seconds", ("undecided", "", "undecided")),
    ],
)
def test_verdict_in_words(verdict, unit, words):
    assert (text.verdict(verdict, unit), text.verdict_detail(verdict, unit), text.tone(verdict.word)) == words


@pytest.mark.parametrize(
    ("ram", "shown"),
    [
        ("8350281728", "7.78 GiB"),
        ("8154572", "7.78 GiB"),  # an old asv wrote KiB
        ("536870912", "512 GiB"),
        ("1", "1"),
        ("8GB", "8GB"),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_memory_of_a_machine(ram, shown):
    assert text.details_of(Machine(name="m", details=(("ram", ram),))) == (("memory", shown),)


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_lie_between_the_ends(low, width):
    ticks = plot.ticks(low, low + width)
    assert len(ticks) <= 6
    assert all(low - 1e-6 * width <= value <= low + width * (1 + 1e-6) for value in ticks)


def test_attributes_and_labels_are_escaped():
    line = plot.sparkline([1.0, 2.0], '"><script>', marked=[0], tone='"')
    assert "<script>" not in line and 'class="&quot;"' in line
