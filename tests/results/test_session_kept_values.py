"""What a run takes away from the recorded values is put back."""

import pytest

from kernel_velocity.results import backup, failures
from kernel_velocity.results.asv_file import StoredFile
from tests.results.spooled import COMMIT, ENVIRONMENT, NAME, fail, write_result

SERIES = {name: (NAME, (name, "c")) for name in ("eager", "native")}


def write(root, counts):
    """Write a results file with so many rounds of each series. None: failed. Return its path."""
    values = [count and 1e-3 * count for count in counts]
    return write_result(root, values, [count and [1e-3 * count] * count for count in counts], repeat=counts)


def counts(path):
    result = dict(StoredFile(path).series())
    return [result[series].count if result[series].value is not None else None for series in SERIES.values()]


@pytest.fixture
def path(tmp_path):
    result = write(tmp_path, [8, 3])
    backup.keep(tmp_path, [result, result.with_name("absent.json")])
    return result


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
    write(tmp_path, after)
    lines = backup.put_back(tmp_path, tmp_path / "results", rounds)
    assert counts(path) == wanted
    assert len(lines) == (after != wanted) and all(path.name in line for line in lines)
    assert backup.put_back(tmp_path, tmp_path / "results", rounds) == []  # the copies are gone


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
    write(tmp_path, [None, None])
    for name, died in (("eager", False), ("native", True)):
        fail(tmp_path, 4e9, params=SERIES[name][1], died=died)
    with failures.spool_path(tmp_path, ENVIRONMENT, COMMIT).open("ab") as stream:
        stream.write(b'{"b": "\xff", "p": \n')  # which ingest reports, and costs no other line
    backup.put_back(tmp_path, tmp_path / "results", 8)
    assert counts(path) == [None, 3]


def test_value_of_another_version_is_not_put_back(tmp_path, path):
    write(tmp_path, [2, None])
    path.write_text(path.read_text().replace('"1"', '"2"'))
    assert backup.put_back(tmp_path, tmp_path / "results") == [] and counts(path) == [2, None]
