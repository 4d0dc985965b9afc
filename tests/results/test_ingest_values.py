"""What ingest restores, withdraws and leaves alone, and on which machine."""

import math
import os
from pathlib import Path

import asv.results
import pytest
from asv.runner import BenchmarkResult

from kernel_velocity.results import ingest, lines
from kernel_velocity.results.asv_file import RunResults, StoredFile
from tests.results.spooled import COMMIT, ENVIRONMENT, NAME, at, fail, spool, stored_lines, stored_values, write_result


@pytest.mark.parametrize("when", [0.1, 1.5])  # before the rounds that asv stored_lines, and between them
def test_a_round_with_wrong_numbers_withdraws_the_value_for_good(tmp_path, when):
    path = write_result(tmp_path, [4.0, 1.5], [[4.0], [1.0, 2.0]])
    spool(tmp_path, at(100.0, 1.0), at(200.0, 2.0))
    fail(tmp_path, when * 100)
    (line,) = ingest.ingest(tmp_path, now=300.0, machine="box").restored
    assert "value withdrawn" in line and NAME in line
    assert stored_values(path) == [4.0, None]
    assert len(stored_lines(tmp_path, suffix=".failures.jsonl")) == 1
    spool(tmp_path, at(300.0, 4.0, ("eager", "c")))  # the next ingest has something to do here
    assert ingest.ingest(tmp_path, now=310.0, machine="box").restored == []
    assert stored_values(path) == [4.0, None]


def test_kernel_that_always_crashes_loses_its_old_time(tmp_path):
    write_result(tmp_path, [4.0, 1.0], [[4.0], [1.0]])
    spool(tmp_path, at(1.0, 1.0))
    ingest.ingest(tmp_path, now=10.0, machine="box")
    path = write_result(tmp_path, [4.0, None], [[4.0], None])
    fail(tmp_path, 50.0, died=True, error="its process crashed")
    for _ in range(2):
        assert ingest.ingest(tmp_path, now=60.0, machine="box").restored == []
        assert stored_values(path) == [4.0, None]
        spool(tmp_path, at(61.0, 4.0, ("eager", "c")))  # the second ingest, too, has something to do


@pytest.mark.parametrize("machine", ["box", None])
def test_measuring_machine_gets_values_and_failures(tmp_path, machine):
    path = write_result(tmp_path, [4.0, None], [[4.0], None])
    other = write_result(tmp_path, [None, None], [None, None], machine="another", began=5000.0)
    os.utime(path, (1.0, 1.0))  # a checkout makes any file the newest
    spool(tmp_path, at(1.0, 1.0), at(1.0, 4.0, ("eager", "c")))
    fail(tmp_path, 2.0, died=True)
    assert len(ingest.ingest(tmp_path, now=10.0, machine=machine).restored) == 1
    assert stored_values(path) == [4.0, 1.0]
    assert stored_values(other) == [None, None]
    assert len(stored_lines(tmp_path, suffix=".failures.jsonl")) == 1
    assert stored_lines(tmp_path, "another", ".failures.jsonl") == []


@pytest.mark.parametrize(("when", "restored"), [(1002.0, 1), (900.0, 0), (2100.0, 0)])
def test_restoring_without_machine_name_or_value(tmp_path, when, restored):
    write_result(tmp_path, [None, None], [None, None], began=1000.0)  # until 1999 s
    spool(tmp_path, at(when, 1.0))
    assert len(ingest.ingest(tmp_path, now=when).restored) == restored


def test_rounds_of_another_machine_are_never_restored(tmp_path):
    other = write_result(tmp_path, [None, None], [None, None], machine="another")
    spool(tmp_path, at(2.0, 1.0))
    assert ingest.ingest(tmp_path, now=1010.0, machine="box").waiting == 1
    assert stored_values(other) == [None, None]


# What a run takes away ------------------------------------------------------------------------------------------------

SERIES = {name: (NAME, (name, "c")) for name in ("eager", "native")}


def measure(root, counts, began, **more):
    """Leave what a run leaves that measured so many rounds of each series. None: failed. Return the results file."""
    values = [count and 1e-3 * count for count in counts]
    path = write_result(root, values, [count and [1e-3 * count] * count for count in counts], began=began, **more)
    for (_, params), count in zip(SERIES.values(), counts, strict=True):
        spool(root, *(at(began + number, 1e-3 * count, params) for number in range(count or 0)))
    return path


def counts(path):
    """Return how many rounds asv and the telemetry have of each series."""
    stored, notes = dict(StoredFile(path).series()), []
    rounds = lines.read_rounds(lines.beside(path, lines.ROUNDS), notes)
    assert notes == []
    recorded = [len(rounds.get((name, *params), ())) for name, params in SERIES.values()]
    assert recorded == [stored[series].size for series in SERIES.values()]
    return recorded


@pytest.fixture
def path(tmp_path):
    """A results file of 8 and 3 rounds, before a run at 2000 s."""
    result = measure(tmp_path, [8, 3], 1000.0)
    ingest.ingest(tmp_path, now=2000.0)
    return result


def end(root, wanted=math.inf):
    """Ingest after a run. A second time, nothing changes. Return what was restored."""
    restored = ingest.ingest(root, now=4000.0, machine="box", wanted=wanted).restored
    assert ingest.ingest(root, now=4000.0, machine="box", wanted=wanted).restored == []
    return restored


@pytest.mark.parametrize(
    ("after", "wanted", "result"),
    [
        ([2, 2], 8, [8, 3]),  # interrupted
        ([2, 2], math.inf, [8, 3]),  # killed
        ([0, 5], 8, [8, 5]),  # one was not reached, the other got further than before
        ([3, 3], 3, [3, 3]),  # as many as were asked for
        ([8, 8], 8, [8, 8]),
    ],
)
def test_a_series_that_ends_with_less_is_put_back(tmp_path, path, after, wanted, result):
    measure(tmp_path, [count or None for count in after], 2001.0)
    restored = end(tmp_path, wanted)
    assert counts(path) == result
    assert len(restored) == sum(now != then for now, then in zip(after, result, strict=True))
    assert all(path.name in line for line in restored)


def test_a_run_that_is_continued_appends(tmp_path, path):
    write_result(tmp_path, [8e-3, 3e-3], [[8e-3] * 8, [*[3e-3] * 3, *[4e-3] * 5]], began=2001.0)
    spool(tmp_path, *(at(2001.0 + number, 4e-3) for number in range(5)))
    assert end(tmp_path, 8) == [] and counts(path) == [8, 8]


def test_what_was_found_wrong_is_not_put_back(tmp_path, path):
    measure(tmp_path, [None, 2], 2001.0)
    fail(tmp_path, 2001.0, params=("eager", "c"))
    fail(tmp_path, 2003.5, params=("native", "c"), died=True)
    end(tmp_path, 8)
    assert stored_values(path) == [None, 3e-3]


def test_rounds_that_asv_did_not_ask_for_change_nothing(tmp_path, path):
    """Those of a run that was killed before asv wrote, when a later one measures other series of the benchmark."""
    write_result(tmp_path, [9e-3, 3e-3], [[9e-3] * 8, [3e-3] * 3], began=2001.0)
    spool(tmp_path, at(2001.0, 5e-3), *(at(2001.0 + number, 9e-3, ("eager", "c")) for number in range(8)))
    assert end(tmp_path) == [] and counts(path) == [8, 3] and stored_values(path) == [9e-3, 3e-3]


# What asv writes meanwhile --------------------------------------------------------------------------------------------


def run_asv(path, name, results, *, version="1"):
    """Have asv add what it measured of a benchmark of the axes of NAME, and write the file."""
    axes = [["'eager'", "'native'"], ["'c'"]]
    stored = RunResults({"machine": "box"}, {}, COMMIT, 1, "3.11", ENVIRONMENT, {})
    stored.load_data(str(path.parents[1]))
    none = [None] * len(results)
    measured = BenchmarkResult(result=results, samples=none, number=none, errcode=0, stderr="", profile=None)
    stored.add_result({"name": name, "params": axes, "version": version}, measured)
    stored.save(str(path.parents[1]))
    return StoredFile(path)


def test_what_no_round_tells_is_replaced_by_values_only(path):
    name = "k.Cpu.track_max_error"
    run_asv(path, name, [0.5, math.nan])
    file = run_asv(path, name, [None, None])
    assert [*file.values(name).values()] == [0.5, None]
    assert 0.25 in run_asv(path, name, [0.25, math.nan]).values(name).values()
    assert [*run_asv(path, name, [None, 1.0], version="2").values(name).values()] == [None, 1.0]
    assert counts(path) == [8, 3]


def test_rounds_of_another_version_go_with_its_values(tmp_path, path):
    run_asv(path, NAME, [None, None], version="2")
    assert stored_lines(tmp_path) == []
    measure(tmp_path, [None, 2], 2001.0, version="2")
    assert end(tmp_path) == [] and counts(path) == [0, 2]


def test_a_file_is_never_half_written(path, monkeypatch):
    text = path.read_text()

    def is_cut_off(results, folder):
        Path(folder, "box").mkdir(parents=True)
        Path(folder, "box", path.name).write_text("{")
        raise KeyboardInterrupt

    monkeypatch.setattr(asv.results.Results, "save", is_cut_off)
    with pytest.raises(KeyboardInterrupt):
        run_asv(path, NAME, [1.0, 1.0])
    assert path.read_text() == text
