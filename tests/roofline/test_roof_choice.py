"""Roofs are those of as many threads as a commit was measured with; where nobody knows, there are none."""

import json

import pytest

from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.roofline import ceilings as kept_ceilings
from kernel_velocity.roofline import roofs
from kernel_velocity.roofline.roofs import CeilingSession, choose
from kernel_velocity.site import model
from kernel_velocity.site.pages import home, kernel_chart, roofline
from tests.site import machine_records


def session(began, peak, threads=None):
    return CeilingSession(began=began, figures={"peak_float32": peak, "threads": threads}, reported={})


BOTH = (session(1.0, 1e9, 1.0), session(2.0, 8e9, 8.0))
KNOWN = {"one": 1, "eight": 8, "last": 1}


def peak(choice):
    return choice.roofs.peaks["float32"]


def test_a_commits_roofs_are_of_its_threads():
    assert [peak(choose(BOTH, "cpu", KNOWN, sha)) for sha in KNOWN] == [1e9, 8e9, 1e9]
    assert choose(BOTH, "cpu", KNOWN, "one").roofs.warnings == ()


def test_all_commits_are_of_the_newest_ones_threads_and_a_footnote_says_so():
    found = choose(BOTH, "cpu", KNOWN).roofs
    assert found.peaks["float32"] == 1e9
    doubt = "commits were measured with 1 and 8 threads; the roofs drawn are of 1, and tell nothing of others"
    assert found.warnings == (doubt,)
    assert [choose(BOTH, "cpu", KNOWN, sha).apart for sha in (None, "one", "eight")] == [
        {"eight"},
        {"eight"},
        {"one", "last"},
    ]
    assert choose(BOTH, "cpu", {"one": 1}).roofs.warnings == ()


def test_where_nothing_says_with_how_many_it_was_measured_there_are_none():
    found = choose(BOTH, "cpu", KNOWN, "unknown")
    assert found.roofs is None and "of 1 and 8 threads, and nothing says" in found.lacking
    assert choose(BOTH, "cpu", {}).roofs is None
    assert peak(choose(BOTH[:1], "cpu", {})) == 1e9  # one number of threads is everybody's
    assert peak(choose((session(1.0, 5e9), BOTH[1]), "cpu", {})) == pytest.approx(7.25e9)


@pytest.mark.parametrize(
    ("ceilings", "lacking"),
    [
        ((), "no ceilings of this machine's Cpu are recorded"),
        (BOTH[1:], "no ceilings of this machine's Cpu with 1 thread "),
    ],
)
def test_without_ceilings_of_its_threads_there_are_none(ceilings, lacking):
    found = choose(ceilings, "cpu", KNOWN, "one")
    assert found.roofs is None and found.lacking.startswith(lacking)


def test_of_a_gpu_threads_tell_nothing():
    assert peak(choose(BOTH, "cuda", {}, "x")) == 8e9


@pytest.mark.parametrize("text", ["", "many", "9" * 5000, "-1"])
def test_what_is_no_number_of_threads_is_not_known(text):
    sessions = [("a", {"threads": "2"}), ("b", {"threads": text}), ("c", {}), ("a", {"threads": "4"})]
    assert roofs.threads((sha, SessionFacts(began=0.0, facts=facts)) for sha, facts in sessions) == {"a": 4}


def test_a_session_of_other_threads_moves_no_efficiency(tree, monkeypatch):
    """It had: ceilings of 8 threads, measured last, were the roofs of every time by one."""
    monkeypatch.setattr(kept_ceilings, "known", lambda *_: BOTH)
    for index in range(5):
        machine_records.add_session(tree, index, threads="1" if index else "8")
    found = model.read(tree.results, tree.repository)
    (place,) = found.places
    assert found.roofs(place, "Cpu", tree.commits[4]).peaks["float32"] == 1e9
    rows = home.page(found).grids[0].rows
    assert all(row.figures["efficiency"] == 1 for row in rows)
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


def test_the_rows_of_a_roofline_are_against_roofs_of_their_own_threads(mixed):
    tree, found = mixed
    data, page = roofline.build(found)
    rows = {row.kernel: row for row in page.context["sections"][0].rows}
    assert (rows["matmul"].attainable, rows["add_mul_exp"].attainable) == ("8.00 GFLOPS", "1.00 GFLOPS")
    apart = {entry["kernel"]: entry["apart"] for entry in data.value["series"]}
    assert apart == {"matmul, hot": sorted(tree.commits[:4]), "add_mul_exp, hot": [tree.commits[4]]}


def test_a_kernels_efficiency_is_none_where_it_was_measured_with_other_threads(mixed):
    tree, found = mixed
    keys = [key for key in found.keys if key.benchmark.startswith("matmul")]
    one, *_ = kernel_chart.chart(found, "matmul", "Cpu", keys).series
    assert one.conversions["efficiency"].apart == tuple(sorted(tree.commits[:4]))
