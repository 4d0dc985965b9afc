"""What a run takes away from the recorded values is put back."""

import json

import pytest

from kernel_velocity.results import backup, failures
from kernel_velocity.results.asv_file import StoredFile
from kernel_velocity.results.failures import Failure

NAME, COMMIT = "k.Cpu.time_hot", "c0ffee00" + "0" * 32
SERIES = {case: (NAME, ("native", case)) for case in ("a", "b")}


def write(path, counts):
    """Write a results file with so many rounds of each case. None: failed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    done = [count is not None for count in counts]
    row = {
        "result": [1e-3 * count if count else None for count in counts],
        "params": [["'native'"], ["'a'", "'b'"]],
        "version": "1",
        "started_at": 1_700_000_000_000,
        "duration": 1.0,
        **{name: [1.0 if ok else None for ok in done] for name in ("stats_ci_99_a", "stats_ci_99_b")},
        **{name: [1.0 if ok else None for ok in done] for name in ("stats_q_25", "stats_q_75", "stats_number")},
        "stats_repeat": list(counts),
        "samples": [[1e-3 * count] * count if count else None for count in counts],
    }
    data = {
        "commit_hash": COMMIT,
        "env_name": "env",
        "date": 1,
        "params": {"machine": "box", "python": "3.11"},
        "python": "3.11",
        "requirements": {},
        "env_vars": {},
        "result_columns": list(row),
        "results": {NAME: list(row.values())},
        "durations": {},
        "version": 2,
    }
    path.write_text(json.dumps(data))


def counts(path):
    found = dict(StoredFile(path).series())
    return [found[series].count if found[series].value is not None else None for series in SERIES.values()]


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "results" / "box" / f"{COMMIT[:8]}-env.json"
    write(found, [8, 3])
    backup.keep(tmp_path, [found, found.with_name("absent.json")])
    return found


@pytest.mark.parametrize(
    ("after", "rounds", "wanted"),
    [
        ([2, 2], 8, [8, 3]),  # interrupted
        ([None, 5], 8, [8, 5]),  # one died, the other got further than before
        ([3, 3], 3, [3, 3]),  # as many as were asked for
        ([8, 8], 8, [8, 8]),
    ],
)
def test_a_series_that_ends_with_less_is_put_back(tmp_path, path, after, rounds, wanted):
    write(path, after)
    lines = backup.put_back(tmp_path, tmp_path / "results", rounds)
    assert counts(path) == wanted
    assert len(lines) == (after != wanted) and all(path.name in line for line in lines)
    assert backup.put_back(tmp_path, tmp_path / "results", rounds) == []  # the copies are gone


def test_values_come_back_whole(tmp_path, path):
    before = dict(StoredFile(path).series())
    write(path, [1, None])
    backup.put_back(tmp_path, tmp_path / "results")
    assert dict(StoredFile(path).series()) == before


def test_a_file_that_is_half_written_is_put_back_whole(tmp_path, path):
    text = path.read_text()
    path.write_text(text[:40])
    backup.put_back(tmp_path, tmp_path / "results")
    assert path.read_text() == text


@pytest.mark.parametrize("whole", [True, False])
def test_a_first_measurement_that_is_half_written_is_removed(tmp_path, path, whole):
    new = path.with_name("absent.json")
    new.write_text(path.read_text() if whole else path.read_text()[:40])
    lines = backup.put_back(tmp_path, tmp_path / "results")
    assert new.exists() is whole
    assert [line for line in lines if "absent.json: half written" in line] == lines[: not whole]


def test_what_was_found_wrong_is_not_put_back(tmp_path, path):
    write(path, [None, None])
    spool = failures.spool_path(tmp_path, "env", COMMIT)
    for case, died in (("a", False), ("b", True)):
        failure = Failure(benchmark=NAME, params=SERIES[case][1], time=4e9, error="is wrong", died=died)
        failures.append(spool, failure)
    with spool.open("ab") as stream:
        stream.write(b'{"b": "\xff", "p": \n')  # which ingest reports, and costs no other line
    backup.put_back(tmp_path, tmp_path / "results", 8)
    assert counts(path) == [None, 3]


def test_value_of_another_version_is_not_put_back(tmp_path, path):
    write(path, [2, None])
    path.write_text(path.read_text().replace('"1"', '"2"'))
    assert backup.put_back(tmp_path, tmp_path / "results") == [] and counts(path) == [2, None]
