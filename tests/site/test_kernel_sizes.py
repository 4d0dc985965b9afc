"""The newest rates by size on a kernel's page: what is drawn, of which work, and where the roof is."""

import re

import pytest

from tests import synthetic
from tests.site import machine_records
from tests.site.pages import kernel, make_na, read


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


def test_roof_of_each_size(tree):
    """Of what moves more than it computes, in bytes."""
    machine_records.add_ceilings(tree, 4)
    (figure,) = kernel(tree, "add_mul_exp-Cpu").sections[0].sizes
    assert (figure.title, figure.has_roof) == ("bandwidth by size, float32", True)
    assert "roof dashed" in figure.svg
    texts = re.findall(r">([^<]+)</text>", figure.svg)
    assert "L3" in texts and [text for text in texts if text.endswith(("k", "M"))] == ["500k", "5M"]
    assert all(re.search(r" GB/s, [\d.]+% of \w+ \(", title) for title in titles(figure))


def test_nothing_of_one_size(tree):
    for index in range(5):
        make_na(tree, index, "matmul.Cpu.time_hot", ["float32-512x512x512"])
    assert kernel(tree).sections[0].sizes == []
