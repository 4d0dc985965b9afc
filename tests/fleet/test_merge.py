"""Merging results files loses no value and no round, whatever comes in which order."""

import itertools
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.engine import telemetry
from kernel_velocity.errors import ResultsError
from kernel_velocity.fleet import unpack
from kernel_velocity.fleet.unpack import DEFAULT_METHOD, SeriesRecord, is_better
from kernel_velocity.results.asv_file import StoredFile, StoredSeries
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


def record(value, count=0, method=None):
    """What a place recorded: a value (NaN: n/a, None: failed), and its rounds, or the reasons why there is none."""
    measured = value is not None and not math.isnan(value)
    stored = StoredSeries(
        value=value if measured else None,
        failed=value is None,
        samples=None,
        count=count if measured else None,
        started_at=None,
        duration=None,
    )
    return SeriesRecord(stored=stored, method=method, reasons=0 if measured else count)


@pytest.mark.parametrize(
    ("here", "there", "is_taken"),
    [
        (None, record(NAN), True),
        (record(None, 9), record(2.0, 1), True),  # a value beats none
        (record(NAN), record(2.0, 1), True),
        (record(1.0, 3), record(2.0, 4), True),  # more rounds beat fewer
        (record(1.0, 4), record(2.0, 3), False),
        (record(1.0, 4), record(2.0, 4), False),
        (record(1.0, 4), record(None, 4), False),
        (record(NAN), record(None), True),  # "not asked for" knows less than "failed"
        (record(None), record(NAN, 9), False),
        (record(NAN, 0), record(NAN, 1), True),  # the one that says why
        (record(1.0, 8, "old"), record(2.0, 7, DEFAULT_METHOD), True),  # measured again by a new harness
        (record(1.0, 7, DEFAULT_METHOD), record(2.0, 8, "old"), False),
        (record(1.0, 8), record(2.0, 7, DEFAULT_METHOD), False),  # nothing is known of the one here
    ],
)
def test_values_win_then_the_suites_method_then_rounds(here, there, is_taken):
    assert is_better(there, here) is is_taken


def write_row(path, cells, version="1", started_at=1000):
    """Write a results file of one benchmark: (value, rounds) by parameters. NaN stands for others of its axes."""
    axes = [list(dict.fromkeys(column)) for column in zip(*cells, strict=True)]
    every = [cells.get(key, (NAN, None)) for key in itertools.product(*axes)]
    row = {"result": [value for value, _ in every], "params": axes, "version": version, "started_at": started_at}
    row |= {"duration": 1.0, "stats_repeat": [count for _, count in every]}
    data = {"commit_hash": COMMIT, "env_name": "env", "date": 0, "python": "3", "requirements": {}, "version": 2}
    data |= {"params": {"machine": "m"}, "result_columns": list(COLUMNS), "results": {NAME: [*map(row.get, COLUMNS)]}}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(data))


@pytest.fixture
def merged(tmp_path):
    """Merge rows, the first one first. Return what became of the last, and the file."""

    def merge(*rows, suite="1"):
        here, there = tmp_path / "here" / "a-env.json", tmp_path / "there" / "a-env.json"
        here.unlink(missing_ok=True)
        for row in rows:
            cells, *more = row if isinstance(row, tuple) else (row,)
            write_row(there, cells, *more)
            outcome = unpack.merge_file(there, here, {} if suite is None else {NAME: suite})
        return outcome, StoredFile(here)

    return merge


def values(file):
    return {params: value for params, value in file.values(NAME).items() if value is not None and not math.isnan(value)}


def test_merged_axes_have_the_series_of_both(merged):
    first, second = {("'native'", "'a'"): (1.0, 8)}, {("'eager'", "'b'"): (2.0, 8)}
    _, file = merged(first, (second, "1", 2000))
    assert values(file) == {("'native'", "'a'"): 1.0, ("'eager'", "'b'"): 2.0}
    for key in (("'native'", "'b'"), ("'eager'", "'a'")):
        assert math.isnan(file.values(NAME)[key])  # not asked for, which is no failure
    assert file.measured_at == 3
    _, file = merged(first, (second, "1", 2000), ({("'eager'", "'c'"): (2.0, 8)}, "1", 500))
    assert file.measured_at == 3  # the newest stays


def test_row_that_takes_all_of_the_other_keeps_what_that_lacks(merged):
    _, file = merged({("'a'",): (1.0, 4), ("'b'",): (1.0, 4)}, {("'a'",): (2.0, 8)})
    assert values(file) == {("'a'",): 2.0, ("'b'",): 1.0}


def test_row_of_which_nothing_is_taken_keeps_its_times(merged):
    _, file = merged({("'a'",): (1.0, 8)}, ({("'a'",): (2.0, 8)}, "1", 9999))
    assert file.measured_at == 2


def test_row_of_other_axes_is_another_benchmark(merged):
    outcome, file = merged({("'native'", "'a'"): (1.0, 8)}, {("'a'",): (2.0, 9)})
    assert "another version than here" in outcome.notes[0] and values(file) == {("'native'", "'a'"): 1.0}


@pytest.mark.parametrize(
    ("here", "there", "suite", "is_taken"),
    [("1", "2", "2", True), ("2", "1", "2", False), ("1", "2", "3", False), ("1", None, None, False)],
)
def test_of_two_versions_the_suites_stays_as_a_row(merged, here, there, suite, is_taken):
    old = {("'a'",): (1.0, 99), ("'b'",): (1.0, 99), ("'c'",): (None, None)}
    new = {("'a'",): (2.0, 1), ("'b'",): (None, None)}
    outcome, file = merged((old, here), (new, there), suite=suite)
    assert file.values(NAME).keys() == (new if is_taken else old).keys()
    assert values(file)[("'a'",)] == (2.0 if is_taken else 1.0)
    assert ("replaces 2 values of another" if is_taken else "another version than here") in outcome.notes[0]


@pytest.mark.parametrize(("value", "is_taken"), [(1.0, False), (None, True)])
def test_new_version_without_a_value_takes_none_away(merged, value, is_taken):
    _, file = merged({("'a'",): (value, 8)}, ({("'a'",): (None, None)}, "2"), suite="2")
    assert (file.version(NAME) == "2") is is_taken


KEYS = list(itertools.product(("'native'", "'eager'"), ("'a'", "'b'", "'c'")))
CELLS = st.tuples(st.sampled_from([None, NAN, 1.0, 2.0, 3.0]), st.integers(1, 4))
ROWS = st.dictionaries(st.sampled_from(KEYS), CELLS, min_size=1)


def ranks(path):
    return {series: entry.rank for series, entry in unpack.records(StoredFile(path), path).items()}


@given(ROWS, ROWS)
def test_merge_is_idempotent_and_nothing_gets_worse(tmp_path_factory, mine, other):
    folder = tmp_path_factory.mktemp("merge")
    here, there = folder / "here" / "a-env.json", folder / "there" / "a-env.json"
    write_row(here, mine)
    write_row(there, other)
    before, offered = ranks(here), ranks(there)
    unpack.merge_file(there, here, {NAME: "1"})
    after = ranks(here)
    for records in (before, offered):
        assert all(after[series] >= rank for series, rank in records.items())
    assert not unpack.merge_file(there, here, {NAME: "1"}).changed


# Files ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def write(tmp_path):
    """Write a results file with its telemetry. Return its path."""

    def write(machine, rounds=8, commit=COMMIT):
        path = synthetic.write_commit(tmp_path, commit, 0, machine=machine, rounds=rounds)
        synthetic.count_rounds(path)
        return path

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
    for name in VERSIONS:
        change(theirs, "stats_repeat", lambda counts: [count and 9 for count in counts], name)
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
    assert outcome.notes == []
    rounds = [telemetry.decode(line) for line in lines(path)]
    assert sum(round_.benchmark == NAME for round_ in rounds) == 4 * 5  # the rounds of the failed series went with it
    assert {line for line in lines(path) if OTHER in line} == {line for line in before if OTHER in line}
    assert [round_.time for round_ in rounds] == sorted(round_.time for round_ in rounds)
    assert merge_file(write("node"), path).adopted == 4 and len(lines(path)) == 8 * 8


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
    assert not merge_file(theirs, path).changed and path.read_bytes() == before


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
    for field in ("result", "stats_ci_99_a", "stats_ci_99_b", "stats_repeat"):
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
