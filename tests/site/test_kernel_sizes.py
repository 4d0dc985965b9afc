"""The newest rates by size on a kernel's page: what is drawn, of which work, and where the roof is."""

import re

import pytest

from kernel_velocity.site.pages import kernel as kernel_page
from tests import foreign_tree, synthetic
from tests.site.pages import kernel, kernel_files, make_na, read


@pytest.fixture
def tree(tmp_path):
    return synthetic.build(tmp_path)


def titles(figure):
    return re.findall(r"<title>([^<]*)</title>", figure.svg)


def test_line_of_each_implementation(tree):
    (figure,) = kernel(tree).sections[0].sizes
    assert (figure.title, figure.has_roof) == ("rate by size, float32", False)
    names = [name for _, name in figure.legend]
    assert "native" in names and figure.svg.count('class="mark"') == 2 * len(names)
    assert "n, of n x n x n" in figure.svg and "roof dashed" not in figure.svg
    site = read(tree)
    keys = [key for key in site.keys if key.benchmark == "matmul.Cpu.time_hot"]
    newest = {(key.implementation, key.case): site.series(key) for key in keys}
    for title in titles(figure):
        name, case, rate = re.fullmatch(r"(\w+), (\S+): ([\d.]+) GFLOPS \(\w{8}\)", title).groups()
        assert float(rate) == pytest.approx(newest[name, case].gflops[-1], rel=0.01)


def test_times_of_another_suite(tmp_path):
    """Its work is unknown, and its parameters have no implementation."""
    page = kernel_files(read(foreign_tree.build(tmp_path, 3)))["kernel-io.Csv.html"].context()["page"]
    figures = [figure for section in page["sections"] for figure in section["sizes"]]
    assert [figure.title for figure in figures] == ["memory by size", "time by size, a,b", "time by size, c"]
    assert re.fullmatch(r"1000, c: [\d.]+ ms \(\w{8}\)", titles(figures[2])[1])


@pytest.mark.parametrize(
    ("cases", "sizes"),
    [
        (
            ["float32-5M", "int8-64x64x2"],
            {"float32-5M": ("float32", (5_000_000,)), "int8-64x64x2": ("int8", (64, 64, 2))},
        ),
        (["10, 2", "10, 4"], {"10, 2": ("10", (2,)), "10, 4": ("10", (4,))}),
        (["n=8, lu", "n=9, lu"], {"n=8, lu": ("n=…, lu", (8,)), "n=9, lu": ("n=…, lu", (9,))}),
        (["float64", "1.5", "none", ""], {}),
    ],
)
def test_sizes_in_names(cases, sizes):
    assert kernel_page.sizes_of(cases) == sizes


def test_nothing_of_one_size(tree):
    for index in range(5):
        make_na(tree, index, "matmul.Cpu.time_hot", ["float32-512x512x512"])
    assert kernel(tree).sections[0].sizes == []
