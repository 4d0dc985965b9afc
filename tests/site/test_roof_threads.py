"""The site's roofs are of the number of threads that each commit was measured with."""

import json

import pytest

from kernel_velocity.roofline import ceilings as kept_ceilings
from kernel_velocity.roofline.roofs import CeilingSession
from kernel_velocity.site import model
from kernel_velocity.site.pages import home, kernel_chart, roofline
from tests.site import machine_records

BOTH = tuple(
    CeilingSession(began=began, figures={"peak_float32": peak, "threads": count}, reported={})
    for began, peak, count in ((1.0, 1e9, 1.0), (2.0, 8e9, 8.0))
)


def test_efficiency_is_of_its_threads(tree, monkeypatch):
    """Once, ceilings of 8 threads, measured last, were the roofs of every timing by one."""
    monkeypatch.setattr(kept_ceilings, "known", lambda *_: BOTH)
    for index in range(5):
        machine_records.add_session(tree, index, threads="1" if index else "8")
    found = model.read(tree.results, tree.repository)
    (place,) = found.places
    assert found.roofs(place, "Cpu", tree.commits[4]).peaks["float32"] == 1e9
    rows = home.page(found)["grids"][0]["rows"]
    assert all(row["figures"]["efficiency"] == 1 for row in rows)
    assert found.roofs(place, "Cpu").warnings[0].startswith("commits were measured with 1 and 8 threads")


@pytest.fixture
def mixed(tree, monkeypatch):
    """A tree whose newest commit was measured with 8 threads, but for add_mul_exp, and the others with one."""
    monkeypatch.setattr(kept_ceilings, "known", lambda *_: BOTH)
    for index in range(5):
        machine_records.add_session(tree, index, threads="8" if index == 4 else "1")
    path = machine_records.results_file(tree, 4)
    data = json.loads(path.read_text())
    del data["results"]["add_mul_exp.Cpu.time_hot"]
    path.write_text(json.dumps(data))
    return tree, model.read(tree.results, tree.repository)


def test_roofline_rows_use_their_threads(mixed):
    tree, found = mixed
    data, page = roofline.build(found)
    rows = {row["kernel"]: row for row in page.context["sections"][0]["rows"]}
    assert (rows["matmul"]["attainable"], rows["add_mul_exp"]["attainable"]) == ("8.00 GFLOPS", "1.00 GFLOPS")
    apart = {entry["kernel"]: entry["apart"] for entry in data.value["series"]}
    assert apart == {"matmul, hot": sorted(tree.commits[:4]), "add_mul_exp, hot": [tree.commits[4]]}


def test_no_efficiency_of_other_threads(mixed):
    tree, found = mixed
    keys = [key for key in found.keys if key.benchmark.startswith("matmul")]
    one, *_ = kernel_chart.chart(found, "matmul", "Cpu", keys).series.values()
    assert one["quantities"]["efficiency"]["apart"] == sorted(tree.commits[:4])
