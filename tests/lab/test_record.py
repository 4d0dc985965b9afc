"""Recording: a fresh process for each folder, what fails in one does not end the others, one run at a time."""

import argparse
import io
import os

import pytest

from kernel_velocity import lock
from kernel_velocity.errors import UsageError
from kernel_velocity.lab import record
from kernel_velocity.results import traces
from kernel_velocity.runner import live


def parsed(*argv):
    parser = argparse.ArgumentParser()
    record.add_arguments(parser)
    return parser.parse_args([str(arg) for arg in argv])


@pytest.fixture
def started(monkeypatch, tmp_path):
    """Stand in for the measuring processes: note what each was asked, answer with the planned statuses."""
    calls, statuses = [], []

    def run(stage, argv, out, err):
        calls.append((stage, list(argv), os.environ.get(lock.HOLDER)))
        return statuses.pop(0) if statuses else 0

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(live, "run", run)
    monkeypatch.setattr(record.host, "device", lambda: "cpu")
    monkeypatch.delenv(lock.HOLDER, raising=False)
    return calls, statuses


def test_every_process_has_its_folder(started):
    calls, _ = started
    out = io.StringIO()
    assert record.run(parsed("--processes", 2, "--seconds", 0.5, "--bench", "matmul"), out, io.StringIO()) == 0
    folders = [str(traces.TRACES / f"process-0{number}") for number in (1, 2)]
    assert [call[:2] for call in calls] == [
        ("traces", [folder, "--device=cpu", "--seconds=0.5", "--bench=matmul"]) for folder in folders
    ]
    assert out.getvalue() == f"process 1/2: {folders[0]}\nprocess 2/2: {folders[1]}\n"


def test_nobody_else_measures_meanwhile(started):
    calls, _ = started
    record.run(parsed("--processes", 1), io.StringIO(), io.StringIO())
    assert calls[0][2] == str(os.getpid())


def test_a_failed_series_is_reported_in_the_end(started):
    calls, statuses = started
    statuses[:] = [0, 20, 0]
    assert record.run(parsed("--processes", 3), io.StringIO(), io.StringIO()) == 20
    assert len(calls) == 3


@pytest.mark.parametrize("status", [2, 22, 130, -9])
def test_any_other_error_ends_it(started, status):
    calls, statuses = started
    statuses[:] = [20, status, 0]
    assert record.run(parsed("--processes", 3), io.StringIO(), io.StringIO()) == status
    assert len(calls) == 2


def test_a_process_is_wanted(started):
    with pytest.raises(UsageError, match="--processes 0: wanted at least 1"):
        record.run(parsed("--processes", 0), io.StringIO(), io.StringIO())
    assert not started[0]
