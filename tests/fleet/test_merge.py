"""Merging results files loses no value and no round, whatever comes in which order."""

import itertools
import json
import math
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.engine import telemetry
from kernel_velocity.errors import ResultsError
from kernel_velocity.fleet import unpack
from kernel_velocity.fleet.unpack import MergeCell, MergeDecision, merge_row
from kernel_velocity.results.asv_file import StoredFile
from kernel_velocity.results.lines import (
    FAILURES,
    Failure,
    add_failure,
    append_session,
    beside,
    encode_failure,
    read_sessions,
)
from kernel_velocity.results.reader import COLUMNS
from kernel_velocity.results.sessions import SessionFacts
from tests import synthetic

NAN = math.nan
COMMIT = "a" * 40
NAME = "matmul.Cpu.time_hot"
OTHER = "add_mul_exp.Cpu.time_hot"
CASE = "float32-256x256x256"
VERSIONS = {NAME: "1", OTHER: "1"}


def cell(value, evidence=0, samples=None, method=None):
    return MergeCell(value=value, evidence=evidence, samples=samples, method=method)


@pytest.mark.parametrize(
    ("here", "there", "verdict"),
    [
        (None, cell(NAN), MergeDecision.ADOPTED),
        (cell(None, 9), cell(2.0, 1), MergeDecision.ADOPTED),  # a value beats none
        (cell(NAN), cell(2.0, 1), MergeDecision.ADOPTED),
        (cell(1.0, 3), cell(2.0, 4), MergeDecision.ADOPTED),  # more rounds beat fewer
        (cell(1.0, 4), cell(2.0, 3), MergeDecision.FEWER),
        (cell(1.0, 4), cell(2.0, 4), MergeDecision.EQUAL),
        (cell(1.0, 4), cell(1.0, 4), MergeDecision.SAME),
        (cell(1.0, 4, (1.0,)), cell(1.0, 4, (2.0,)), MergeDecision.EQUAL),
        (cell(1.0, 4), cell(None, 4), MergeDecision.FAILED),
        (cell(1.0, 4), cell(NAN, 4), MergeDecision.SAME),
        (cell(NAN), cell(None), MergeDecision.ADOPTED),  # "not asked for" knows less than "failed"
        (cell(None), cell(NAN, 9), MergeDecision.SAME),
        (cell(NAN, 0), cell(NAN, 1), MergeDecision.ADOPTED),  # the one that says why
        (cell(NAN, 1), cell(NAN, 0), MergeDecision.SAME),
        (cell(None, 0), cell(None, 0), MergeDecision.SAME),
        (
            cell(1.0, 8, method="old"),
            cell(2.0, 7, method="suite"),
            MergeDecision.ADOPTED,
        ),  # measured again by a new harness
        (cell(1.0, 7, method="suite"), cell(2.0, 8, method="old"), MergeDecision.METHOD),
        (cell(1.0, 7, method="old"), cell(2.0, 8, method="older"), MergeDecision.METHOD),
        (cell(1.0, 8, method="suite"), cell(2.0, 7, method="suite"), MergeDecision.FEWER),
        (cell(1.0, 8), cell(2.0, 7, method="suite"), MergeDecision.FEWER),  # nothing is known of the one here
    ],
)
def test_verdict_prefers_values_then_rounds(here, there, verdict):
    assert unpack.verdict(here, there, "suite") is verdict


def stored(cells, version="1", started_at=1000):
    """A results file: one benchmark with these series. Asv stores NaN for others of its axes."""
    axes = [list(dict.fromkeys(column)) for column in zip(*cells, strict=True)]
    every = [cells.get(key, cell(NAN)) for key in itertools.product(*axes)]
    row = {"result": [entry.value for entry in every], "params": axes, "version": version, "started_at": started_at}
    row |= {"duration": 1.0, "stats_repeat": [entry.evidence for entry in every]}
    data = {"commit_hash": COMMIT, "env_name": "env", "date": 0, "python": "3", "requirements": {}, "version": 2}
    data |= {"params": {"machine": "m"}, "result_columns": list(COLUMNS), "results": {NAME: [*map(row.get, COLUMNS)]}}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.json")
        path.write_text(json.dumps(data))
        return unpack.read(path)


def again(here):
    """The file as it is now, in memory."""
    return replace(here, cells={NAME: series(here.file)})


def series(file):
    return dict(unpack.series_of(file, NAME, {}, {}))


def merged(here, there, current="1"):
    """Merge in memory. Return what became of the row, and the series that are stored then."""
    row = merge_row(NAME, here, there, current)
    return row, series(here.file)


def test_merged_axes_have_the_series_of_both():
    here = stored({("'native'", "'a'"): cell(1.0, 8)})
    there = stored({("'eager'", "'b'"): cell(2.0, 8)}, started_at=2000)
    _, cells = merged(here, there)
    assert {key: entry.value for key, entry in cells.items() if entry.measured} == {
        ("'native'", "'a'"): 1.0,
        ("'eager'", "'b'"): 2.0,
    }
    for key in (("'native'", "'b'"), ("'eager'", "'a'")):
        assert math.isnan(cells[key].value)  # not asked for, which is no failure
    assert here.file.measured_at == 3
    merged(again(here), stored({("'eager'", "'c'"): cell(2.0, 8)}, started_at=500))
    assert here.file.measured_at == 3  # the newest stays


def test_merged_row_of_which_nothing_is_taken_keeps_its_times():
    here = stored({("'a'",): cell(1.0, 8)})
    merged(here, stored({("'a'",): cell(2.0, 8)}, started_at=9999))
    assert here.file.measured_at == 2


def test_row_of_other_axes_is_another_benchmark():
    here = stored({("'native'", "'a'"): cell(1.0, 8)})
    row, cells = merged(here, stored({("'a'",): cell(2.0, 9)}))
    assert set(row.verdicts.values()) == {MergeDecision.VERSION} and cells == here.cells[NAME]


@pytest.mark.parametrize(
    ("here", "there", "current", "is_adopted"),
    [
        ("1", "2", "2", True),
        ("2", "1", "2", False),
        ("1", "2", "3", False),
        ("1", "2", None, False),
        ("1", None, None, False),
        (None, "1", "1", True),
    ],
)
def test_of_two_versions_the_suites_stays_as_a_row(here, there, current, is_adopted):
    old = stored({("'a'",): cell(1.0, 99), ("'b'",): cell(1.0, 99), ("'c'",): cell(None)}, here)
    new = stored({("'a'",): cell(2.0, 1), ("'b'",): cell(None)}, there)
    row, cells = merged(old, new, current)
    assert cells.keys() == (new if is_adopted else old).cells[NAME].keys()
    assert set(row.verdicts.values()) == {MergeDecision.ADOPTED if is_adopted else MergeDecision.VERSION}
    assert (row.replaced, row.gone) == ((2, {("'c'",)}) if is_adopted else (0, frozenset()))


@pytest.mark.parametrize(("value", "verdict"), [(1.0, MergeDecision.VERSION), (None, MergeDecision.ADOPTED)])
def test_new_version_without_a_value_takes_none_away(value, verdict):
    row, _ = merged(stored({("'a'",): cell(value, 8)}), stored({("'a'",): cell(None)}, "2"), "2")
    assert set(row.verdicts.values()) == {verdict}


KEYS = list(itertools.product(("'native'", "'eager'"), ("'a'", "'b'", "'c'")))
CELLS = st.builds(cell, st.sampled_from([None, NAN, 1.0, 2.0, 3.0]), st.integers(1, 4))
ROWS = st.dictionaries(st.sampled_from(KEYS), CELLS, min_size=1)


def texts(cells):
    return {key: repr((entry.value, entry.evidence)) for key, entry in cells.items()}


@given(ROWS, ROWS)
def test_merge_is_idempotent_and_nothing_gets_worse(mine, other):
    here, there = stored(mine), stored(other)
    _, once = merged(here, there)
    for cells in (here.cells[NAME], there.cells[NAME]):
        assert all(once[key].rank >= entry.rank for key, entry in cells.items())
    row, repeated = merged(again(here), there)
    assert MergeDecision.ADOPTED not in row.verdicts.values() and texts(repeated) == texts(once)


@given(ROWS, ROWS, ROWS, st.sets(st.sampled_from(KEYS)))
def test_files_of_different_series_merge_in_any_order(mine, first, second, chosen):
    first = {key: entry if key in chosen else cell(NAN) for key, entry in first.items()}
    second = {key: cell(NAN) if key in chosen else entry for key, entry in second.items()}

    def through(*files):
        here = stored(mine)
        for cells in files:
            merged(here, stored(cells))
            here = again(here)
        return texts(here.cells[NAME])

    assert through(first, second) == through(second, first)


# Files ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def write(tmp_path):
    """Write a results file with its telemetry. Return its path."""

    def write(machine, rounds=8, commit=COMMIT):
        return synthetic.write_commit(tmp_path, commit, 0, machine=machine, rounds=rounds)

    return write


@pytest.fixture
def path(tmp_path):
    """The results file here, which is not there yet."""
    return tmp_path / "here" / f"{COMMIT[:8]}-{synthetic.ENVIRONMENT}.json"


def merge_file(theirs, path, versions=VERSIONS):
    return unpack.merge_file(theirs, path, versions)


def change(path, field, to, name=NAME):
    """Change a column of a benchmark in a results file."""
    data = json.loads(path.read_text())
    index = data["result_columns"].index(field)
    data["results"][name][index] = to(data["results"][name][index])
    path.write_text(json.dumps(data))


def add_column(path, name, of):
    """Add a column to every benchmark of a results file, computed from its values."""
    data = json.loads(path.read_text())
    data["result_columns"] = list(COLUMNS)
    for row in data["results"].values():
        row.extend([None] * (COLUMNS.index(name) - len(row)))
        row.append([None if value is None or math.isnan(value) else of(value) for value in row[0]])
    path.write_text(json.dumps(data))


def lines(path, suffix=".jsonl"):
    file = beside(path, suffix)
    return file.read_text().splitlines() if file.exists() else []


def test_file_that_is_not_here_is_taken_whole(write, path):
    theirs = write("node")
    stranger = Failure(benchmark="unknown", params=("native", CASE), time=4e9, error="of no stored series")
    add_failure(beside(theirs, FAILURES), stranger)
    outcome = merge_file(theirs, path)
    assert (outcome.changed, outcome.adopted, outcome.stayed, outcome.notes) == (True, 8, 0, [])
    assert json.loads(path.read_text())["params"] == {"machine": "here", "torch": "2.13.0"}
    assert sorted(lines(path)) == sorted(lines(theirs)) and lines(path, FAILURES) == []


def test_values_stats_samples_and_profile_come_whole(write, path):
    theirs = write("node")
    merge_file(theirs, path)
    add_column(theirs, "stats_repeat", lambda value: 9)
    add_column(theirs, "samples", lambda value: [value] * 9)
    data = json.loads(theirs.read_text())
    for row in data["results"].values():
        row[data["result_columns"].index("started_at")] += 1
        row.append("abc")
    theirs.write_text(json.dumps(data))
    merge_file(theirs, path)
    assert repr(named(path)) == repr(named(theirs))


def named(path):
    """Return the rows by column, sorted, without what is empty, and bounds with the digits that asv stores."""
    data = json.loads(path.read_text())
    result = {}
    for name, row in data["results"].items():
        columns = dict(zip(data["result_columns"], row, strict=False))
        for key in ("stats_ci_99_a", "stats_ci_99_b"):
            columns[key] = [value and float(f"{value:.5g}") for value in columns[key]]
        result[name] = {key: value for key, value in sorted(columns.items()) if value is not None}
    return result


def test_better_series_stays_with_its_rounds(write, path):
    """Here: 8 rounds of add_mul_exp and none of matmul. There: 5 rounds of both."""
    merge_file(write("node"), path)
    before = set(lines(path))
    change(path, "result", lambda values: [None] * len(values))
    outcome = merge_file(write("node", rounds=5), path)
    assert (outcome.adopted, outcome.stayed) == (4, 4)
    assert outcome.notes[0].startswith(
        f"{path.name}: {OTHER}: fewer rounds than here; what is here stays (eager, float32"
    )
    assert outcome.notes[0].endswith(" and 1 more)")
    rounds = [telemetry.decode(line) for line in lines(path)]
    assert sum(round_.benchmark == NAME for round_ in rounds) == 4 * 5  # the rounds of the failed series went with it
    assert {line for line in lines(path) if OTHER in line} == {line for line in before if OTHER in line}
    assert [round_.time for round_ in rounds] == sorted(round_.time for round_ in rounds)
    assert merge_file(write("node"), path).adopted == 4 and len(lines(path)) == 8 * 8


@pytest.mark.parametrize("column", ["stats_repeat", "samples"])
def test_rounds_that_asv_counted_count_before_telemetry(write, path, column):
    theirs = write("node")
    merge_file(theirs, path)
    add_column(theirs, column, lambda value: 9 if column == "stats_repeat" else [value] * 9)
    assert merge_file(theirs, path).adopted == 8
    assert merge_file(write("node"), path).stayed == 8


def test_value_whose_telemetry_is_of_another_run_has_no_rounds(write, path):
    merge_file(write("node"), path)
    change(path, "result", lambda values: [value * 2 for value in values])
    assert merge_file(write("node"), path).adopted == 4
    change(path, "result", lambda values: [value * (1 + 1e-9) for value in values])
    assert merge_file(write("node"), path).adopted == 0


def test_failure_removes_no_value_and_leaves_with_the_series(write, path):
    failed = Failure(benchmark=NAME, params=("native", CASE), time=4e9, error="RuntimeError: wrong")
    theirs = write("node")
    change(theirs, "result", lambda values: [None] * len(values))
    add_failure(beside(theirs, FAILURES), failed)
    merge_file(theirs, path)
    assert lines(path, FAILURES) == [encode_failure(failed)]
    good = write("good")
    assert merge_file(good, path).adopted == 4 and lines(path, FAILURES) == []
    before = path.read_bytes()
    outcome = merge_file(theirs, path)
    assert not outcome.changed and path.read_bytes() == before
    assert outcome.notes[0].startswith(f"{path.name}: {NAME}: failed; the value here stays (eager, {CASE}; ")


def test_reason_why_a_series_does_not_apply_comes_too(write, path):
    """asv stores "does not apply" and "was not asked for" alike. Only the line tells them apart."""
    skipped = Failure(benchmark=NAME, params=("triton", CASE), time=4e9, error="no GPU", skipped=True)
    theirs = write("node")
    merge_file(theirs, path)
    add_failure(beside(theirs, FAILURES), skipped)
    outcome = merge_file(theirs, path)
    assert (outcome.adopted, outcome.stayed) == (1, 8)
    assert not merge_file(theirs, path).changed
    assert lines(path, FAILURES) == [encode_failure(skipped)]


def test_line_that_cannot_be_read_is_kept_here_and_not_taken(write, path):
    merge_file(write("node", rounds=5), path)
    for file, text in ((path, "half a li"), (theirs := write("node"), '{"b": ')):
        rounds = beside(file, ".jsonl")
        rounds.write_text(f"{text}\n{rounds.read_text()}")
    assert merge_file(theirs, path).adopted == 8
    assert lines(path)[-1] == "half a li" and len(lines(path)) == 8 * 8 + 1


def test_rounds_of_a_case_that_the_new_version_dropped_go_too(write, path):
    theirs = write("node")
    merge_file(theirs, path)
    for field in ("result", "stats_ci_99_a", "stats_ci_99_b"):
        change(theirs, field, lambda values: values[::2])
    change(theirs, "params", lambda axes: [axes[0], axes[1][:1]])
    change(theirs, "version", lambda _: "2")
    outcome = merge_file(theirs, path, {NAME: "2"})
    assert f"{path.name}: {NAME}: the suite's version replaces 4 values of another" in outcome.notes
    assert {telemetry.decode(line).params[1] for line in lines(path) if NAME in line} == {CASE}
    assert StoredFile(path).version(NAME) == "2"


def test_sessions_of_both_are_kept(write, path):
    here = SessionFacts(began=100.0, facts={"driver": "550"}, code={"matmul": "a"})
    there = SessionFacts(began=200.0, facts={"driver": "560"}, code={"matmul": "b"})
    merge_file(write("node", rounds=5), path)
    theirs = write("node")
    append_session(path, here)
    append_session(theirs, there)
    merge_file(theirs, path)
    assert read_sessions(path, []) == (here, there)


def test_two_commits_of_the_same_first_digits_are_not_mixed(write, path):
    write("here", commit=COMMIT[:8] + "0" * 32)
    before = path.read_bytes()
    with pytest.raises(ResultsError, match=f"of commit {COMMIT[:8]}0+, not of {COMMIT}"):
        merge_file(write("node"), path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("field", "damage", "complaint"),
    [
        ("stats_ci_99_a", lambda _: [1.0], "not a results file of asv"),  # shorter than the values
        ("result", lambda values: ["fast", *values[1:]], "result: a list of numbers and nulls is wanted"),
    ],
)
def test_columns_that_do_not_fit_are_refused(write, path, field, damage, complaint):
    theirs = write("node")
    change(theirs, field, damage)
    with pytest.raises(ResultsError, match=complaint):
        merge_file(theirs, path)
    assert not path.exists()
