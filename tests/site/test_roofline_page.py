"""The page of the rooflines: every series against the measured roofs, and what its script draws older values from."""

import dataclasses
import json
from pathlib import Path

import pytest

from kernel_velocity.roofline.model import Level, Roofs
from kernel_velocity.site import model, report
from kernel_velocity.site.charts import roofline
from kernel_velocity.site.outputs import DataFile, Page
from kernel_velocity.site.pages import roofline as roofline_page
from tests import synthetic
from tests.golden import check_golden
from tests.site import machine_records

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def tree(copied):
    """Quicker than a fresh one: nothing here changes the repository."""
    return copied


def made(tree):
    """Return the sections of the page, and its data files by name."""
    files = list(roofline_page.build(model.read(tree.results, tree.repository)))
    (page,) = [each for each in files if isinstance(each, Page)]
    return page.context["sections"], {each.name: each.value for each in files if isinstance(each, DataFile)}


@pytest.fixture(scope="module")
def roofed(copy_of, tmp_path_factory):
    """The section and the data file of a tree with ceilings, and its commits."""
    tree = copy_of(tmp_path_factory.mktemp("roofed"))
    machine_records.add_ceilings(tree, 0)
    (section,), files = made(tree)
    return section, files[section.data], tree.commits


def row(section, kernel="add_mul_exp", implementation="native", case="float32-5M"):
    wanted = (kernel, implementation, case)
    (found,) = [each for each in section.rows if (each.kernel, each.implementation, each.case) == wanted]
    return found


def test_golden(roofed, accept):
    section, data, _ = roofed
    shown = {**dataclasses.asdict(section), "document": None, "data file": data}
    check_golden(GOLDEN / "roofline.json", json.dumps(shown, indent=1, ensure_ascii=False) + "\n", accept=accept)


def test_a_value_is_held_against_the_lower_of_slope_and_peak(roofed):
    """add_mul_exp: 3 FLOP and 12 bytes an element, at 12.5 GFLOPS; DRAM's 31 GB/s allow a quarter of 31."""
    section, _, _ = roofed
    found = row(section)
    assert (found.intensity, found.attainable, found.bound) == ("0.250 FLOP/B", "7.75 GFLOPS", "memory")
    assert (found.efficiency, found.level) == ("100.0%", "DRAM")
    assert found.detail == "1.62x the roof"
    compute = row(section, "matmul", "native", "float32-512x512x512")
    assert (compute.bound, compute.attainable) == ("compute", "90.0 GFLOPS")
    assert compute.efficiency.startswith("13.")


def test_warnings_are_footnotes_that_rows_share(tree):
    machine_records.add_ceilings(tree, 0, peak_float32=1e9)
    (section,) = made(tree)[0]
    marked = {each.marks for each in section.rows if each.marks}
    assert len(section.footnotes) == 1 and marked == {(1,)}
    assert section.footnotes[0].startswith("more than the peak, which no cache explains")
    assert any(each.detail.endswith("x the roof") for each in section.rows)


def test_the_data_place_a_value_at_any_commit(roofed):
    _, data, commits = roofed
    entries = {(each["benchmark"], each["implementation"], each["case"]): each for each in data["series"]}
    entry = entries["matmul.Cpu.time_hot", "native", "float32-512x512x512"]
    assert entry["least"] == pytest.approx(2 * 512**3 / 90e9)
    assert entry["commit"] == commits[-1]
    assert entry["commits"] == 5
    assert entry["flop"] / entry["seconds"] / 1e9 == pytest.approx(12.5, rel=0.01)


def test_without_ceilings_the_points_stand_alone_and_it_says_how_to_get_some(tree):
    (section,), files = made(tree)
    text = report.page_templates().get_template("roofline.html").render(sections=(section,))
    assert "kv peaks" in text and "make track" in text
    assert not section.has_roofs
    assert {each.efficiency for each in section.rows} == {"–"}
    assert {each["least"] for each in files[section.data]["series"]} == {None}


def test_what_is_not_known_is_left_out_of_the_plot_and_said(tree):
    machine_records.add_ceilings(tree, 0)
    benchmarks = tree.results / "benchmarks.json"
    data = json.loads(benchmarks.read_text())
    del data["add_mul_exp.Cpu.time_hot"]["bytes"]
    del data["matmul.Cpu.time_hot"]["flops"]
    benchmarks.write_text(json.dumps(data))
    (section,), files = made(tree)
    found = row(section)
    assert (found.intensity, found.efficiency, found.achieved) == ("–", "–", "12.5 GFLOPS")
    assert roofline_page.NO_AMOUNT in section.footnotes
    copied = row(section, "matmul", "native", "float32-512x512x512")
    assert copied.achieved.endswith("GB/s") and copied.bound == "memory"
    assert all(each["flop"] is None or each["bytes"] is None for each in files[section.data]["series"])


def test_a_peak_that_was_not_measured_is_said(tree):
    machine_records.add_ceilings(tree, 0, peak_float32=None)
    (section,), _ = made(tree)
    assert row(section, "matmul", "native", "float32-512x512x512").bound == "memory"
    assert "the peak in float32 is not known: only DRAM's bandwidth is a roof here" in section.footnotes


def test_a_cold_call_lies_in_memory(tree):
    machine_records.add_ceilings(tree, 0)
    for path in [tree.results / "benchmarks.json", *(tree.results / synthetic.MACHINE).glob("*-*.json")]:
        path.write_text(path.read_text().replace("matmul.Cpu.time_hot", "matmul.Cpu.time_cold"))
    for path in (tree.results / synthetic.MACHINE / "telemetry").glob("*.jsonl"):
        path.write_text(path.read_text().replace("matmul.Cpu.time_hot", "matmul.Cpu.time_cold"))
    assert row(made(tree)[0][0], "matmul", "native", "float32-256x256x256").level == "DRAM"


def test_no_results_are_a_page_without_sections(tree):
    for path in (tree.results / synthetic.MACHINE).glob("*-*.json"):
        path.unlink()
    sections, files = made(tree)
    assert sections == () and files == {}


def documented(**roofs):
    known = Roofs(**({"levels": (), "peaks": {}} | roofs))
    plot = roofline.axes([0.25], [1e9], known, {name: each for name, each in known.peaks.items() if each}, [])
    roofline.draw_roofs(plot, known, known.peaks, [])
    return plot, [label.text for label in plot.center if type(label).__name__ == "Label"]


def test_lines_that_lie_close_share_a_label():
    _, texts = documented(peaks={"float32": 67e12, "float64": 66e12, "float16": 900e12, "int8": 1800e12})
    assert texts == ["int8 1,800,000 GOPS", "float16 900,000 GFLOPS", "float32 67,000 GFLOPS, float64 66,000 GFLOPS"]
    _, texts = documented(peaks={"float64": 200e9, "float16": 247e9, "float32": 247e9})
    assert texts == ["float16, float32 247 GFLOPS, float64 200 GFLOPS"]


def test_caches_are_named_from_above_and_dram_at_its_line():
    levels = (("L1", 2e11), ("L2", None), ("L3", 5e10), ("DRAM", 1e10))
    _, texts = documented(levels=tuple(Level(name=name, size=None, bandwidth=rate) for name, rate in levels))
    assert texts == ["dashed, from above:\nL1 200 GB/s\nL3 50.0 GB/s", "DRAM 10.0 GB/s"]


def test_a_plot_without_any_point_or_roof_has_axes():
    plot = roofline.axes([], [], Roofs(levels=(), peaks={}), {}, [])
    assert 0 < plot.x_range.start < plot.x_range.end and 0 < plot.y_range.start < plot.y_range.end
