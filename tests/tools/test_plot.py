"""`python -m tools plot`: which series, what it draws, and what it says where it cannot."""

import argparse
import importlib.util
import io
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.golden import check_golden
from tests.tools import synthetic
from tests.tools.synthetic_extras import HOSTILE
from tools import plot, site
from tools.__main__ import main

pytest.importorskip("matplotlib")
GOLDEN = Path(__file__).parent / "golden"


def run(tree, *argv):
    out, err = io.StringIO(), io.StringIO()
    where = ["--results", str(tree.results), "--repository", str(tree.repository)]
    return main(["plot", *map(str, argv), *where], out, err), out.getvalue(), err.getvalue()


def texts(path):
    """Return what an SVG says, in its order."""
    return [
        "".join(item.itertext()).strip() for item in ET.parse(path).iter() if item.tag.endswith(("}text", "}title"))
    ]


def test_the_words_of_the_picture(whole_tree, tmp_path, accept):
    path = tmp_path / "trend.svg"
    status, out, err = run(whole_tree, r"matmul\.Cpu\.time_hot", "--machine", synthetic.MACHINE, "--out", path)
    assert (status, out, err) == (0, f"6 series over 5 commits: {path}\n", "")
    check_golden(GOLDEN / "plot.txt", "\n".join(texts(path)) + "\n", accept=accept)


@pytest.mark.parametrize(
    ("asked", "series"),
    [
        ([r"matmul\.Cpu\.time_hot"], 12),  # three implementations of two cases on two machines
        ([r"matmul\.Cpu\.time_hot", r"add_mul_exp\.Cpu\.time_cold"], 15),
        ([r"matmul\.Cpu\.time_hot", "--implementation", "native", "--implementation", "eager"], 8),
        ([r"matmul\.Cpu\.time_hot", "--case", "float32-256x256x256", "--machine", synthetic.MACHINE], 3),
        ([r"matmul\.Cpu\.time_hot\('native', .*256'\)"], 2),
    ],
)
def test_series_are_selected_by_expression_and_filters(found, asked, series):
    parser = argparse.ArgumentParser()
    plot.add_arguments(parser)
    assert len(plot.choose(found, parser.parse_args(asked))) == series


@pytest.fixture(scope="module")
def found(whole_tree):
    return site.read(whole_tree.results, whole_tree.repository)


def test_speed_ups_of_the_newest_commits_for_a_dark_ground(whole_tree, tmp_path):
    path, asked = tmp_path / "t.svg", ("--unit", "speedup", "--range", "2", "--dark")
    status, out, _ = run(whole_tree, r"matmul\.Cpu\.time_cold", *asked, "--out", path)
    assert (status, out) == (0, f"2 series over 2 commits: {path}\n")
    assert whole_tree.commits[-3][:8] not in path.read_text()
    assert "eager" not in texts(path)
    assert "times faster than eager" in texts(path)
    assert "fill: #1c2024" in path.read_text()


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        (["("], "error: SERIES '(' is not a regular expression: "),
        (
            ["nothing", "--case", "x"],
            "error: 'nothing' --case x matches no series; there are add_mul_exp.Cpu.time_cold, ",
        ),
        (["matmul", "--out", "t.pdf"], "error: --out t.pdf: a file that ends in .svg or .png is wanted"),
        (["matmul", "--range", "0"], "error: --range 0: a number of commits, 1 or more, is wanted"),
        (["'eager'", "--unit", "speedup"], "error: --unit speedup: speed-ups are against eager, and no other"),
        (["."], "error: 42 series are 14 panels, 12 at most make a picture"),
        (["matmul", "--unit", "feet"], "error: argument --unit: invalid choice: 'feet'"),
    ],
)
def test_what_cannot_work_is_one_line_and_status_2(whole_tree, tmp_path, monkeypatch, asked, complaint):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(whole_tree, *asked)
    assert (status, out) == (2, "")
    assert err.startswith(complaint)
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_without_matplotlib_one_line_says_what_to_install(whole_tree, tmp_path, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else found(name))
    status, _, err = run(whole_tree, "matmul.Cpu.time_cold", "--out", tmp_path / "t.svg")
    assert (status, err) == (
        2,
        "error: matplotlib is not installed, which draws: `pip install 'matplotlib>=3.8'` (extra `plot`)\n",
    )


def test_without_flops_it_draws_times_and_says_so_where_rates_are_asked(tree, tmp_path):
    (tree.results / "benchmarks.json").unlink()
    status, _, _ = run(tree, "matmul", "--out", tmp_path / "t.svg")
    assert (status, "µs per call" in texts(tmp_path / "t.svg")) == (0, True)
    status, _, err = run(tree, "matmul", "--unit", "gflops", "--out", tmp_path / "t.svg")
    assert status == 2
    assert err.splitlines()[-1].startswith("error: --unit gflops: no FLOPs are known of these series")


def test_without_results_it_says_how_to_get_some(tree, tmp_path):
    for path in tree.results.rglob("*.json*"):
        path.unlink()
    status, _, err = run(tree, ".", "--out", tmp_path / "t.svg")
    assert status == 2
    assert "no series have times yet: run `make track`" in err


def test_names_that_want_to_be_code_are_text_in_a_valid_picture(hostile_tree, tmp_path):
    path = tmp_path / "t.svg"
    status, _, err = run(hostile_tree, "matmul.Cpu.time_hot", "--machine", HOSTILE.machine, "--out", path)
    assert status == 0, err
    tags = {item.tag.rpartition("}")[2] for item in ET.parse(path).iter()}
    assert not tags & {"script", "img", "b", "i", "image"}
    assert "<i>ton</i>" in " ".join(texts(path))
    assert "\u202e" not in path.read_text(encoding="utf-8")


def test_a_series_is_written_as_asv_does(found):
    assert plot.spelled(found.keys[0]) == "add_mul_exp.Cpu.time_cold('eager', 'float32-500k')"
