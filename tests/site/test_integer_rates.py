"""Rates of integer operations are GOPS wherever somebody reads one, those of floating-point operations GFLOPS."""

import re

import pytest

from kernel_velocity import units
from kernel_velocity.compare import table
from kernel_velocity.names import operation
from kernel_velocity.problem.accuracy import EPSILON
from kernel_velocity.roofline import ceilings
from kernel_velocity.roofline.model import Roofs
from kernel_velocity.site.pages import roofline as roofline_plot
from tests.compare.live_comparisons import case, comparison, roofline, timed
from tests.site.pages import home, row_of

FLOATS, INTEGERS = "float32-256x256x256", "int8-512x512x512"
RATE = re.compile(r"\bG(?:FL)?OPS")
ROW = re.compile(r"<tr.*?</tr>", re.DOTALL)


def units_of(texts):
    return {unit for text in texts for unit in RATE.findall(text)}


@pytest.mark.parametrize("dtype", [*EPSILON, "tf32", "int8", "uint8", "int32"])
def test_operation_of_a_dtype(dtype):
    is_integer = "int" in dtype
    assert operation(dtype) == ("OP" if is_integer else "FLOP")
    assert units.rate_unit(dtype) == f"G{units.rate_units([dtype])}" == ("GOPS" if is_integer else "GFLOPS")
    assert units.rate_unit("float32", dtype) == units.rate_unit(dtype)  # of a mean


def test_units_in_tables(integer_site):
    rows = ROW.findall((integer_site[1] / "roofline.html").read_text())
    assert units_of(row for row in rows if INTEGERS in row) == {"GOPS"}
    assert units_of(row for row in rows if "float32-" in row) == {"GFLOPS"}
    intensities = [row for row in rows if INTEGERS in row and "/B" in row]
    assert ("FLOP/B" in "".join(intensities), " OP/B" in "".join(intensities)) == (False, True)


def test_units_of_rows(integer_site):
    page = home(integer_site[0])
    for name, unit in ((INTEGERS, "GOPS"), (FLOATS, "GFLOPS")):
        row = row_of(page, name)
        assert units_of([row.time.detail]) == units_of([row.sparkline]) == {unit}


def test_units_on_a_badge(integer_site):
    assert units_of([(integer_site[1] / "badge-matmul-Cpu.svg").read_text()]) == {"GOPS"}
    assert units_of([(integer_site[1] / "badge-add_mul_exp-Cpu.svg").read_text()]) == {"GFLOPS"}


@pytest.mark.parametrize(
    ("dtypes", "x", "y"),
    [
        (["float32", "int8"], "FLOP per byte (OP per byte for int8)", "FLOPS (OPS for int8)"),
        (["float32"], "FLOP per byte", "FLOPS"),
        (["int8"], "OP per byte", "OPS"),
    ],
)
def test_units_on_roofline_axes(dtypes, x, y):
    svg = roofline_plot.draw([], Roofs(levels=(), peaks={dtypes[0]: 1e12}), dtypes).svg("")
    assert f">arithmetic intensity, {x}</text>" in svg and f">rate, {y}</text>" in svg


def test_units_of_ceilings():
    assert ceilings.figure_text(1.2e15, "FLOP/s", "peak_int8") == "1,200 TOPS"
    assert ceilings.figure_text(1.2e13, "FLOP/s", "peak_float32") == "12.0 TFLOPS"


INT8 = case("int8-1M", 10**6, timed("native", 1e-3, roofline=roofline(dtype="int8")), problem="product", dtype="int8")
FLOAT32 = case("float32-1M", 10**6, timed("native", 1e-3), problem="product")


@pytest.mark.parametrize(
    ("cases", "head", "legend"),
    [([INT8], "GOPS", False), ([FLOAT32], "GFLOPS", False), ([FLOAT32, INT8], "GFLOPS/GOPS", True)],
)
def test_units_over_a_comparison(cases, head, legend):
    text = table.table(comparison(*cases), 100)
    (heads,) = (line.split() for line in text.splitlines() if line.startswith("case "))
    assert (head in heads, "GOPS: of integers" in text) == (True, legend)
