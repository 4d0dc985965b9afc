"""Recording: a fresh process for each folder. One failed series does not end the others. One run at a time."""

import argparse
import io
import os

import pytest

from kernel_velocity import lock
from kernel_velocity.errors import UsageError
from kernel_velocity.lab import record
from kernel_velocity.results import traces
from kernel_velocity.runner import stages


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Return a function that runs the command with stand-ins that end with planned statuses.

    It returns the command's status, its output, and the calls: arguments, holder of the lock.
    """

    def command(*argv, statuses=()):
        calls, left = [], list(statuses)

        def measure(module, arguments, out, err):
            calls.append((list(arguments), os.environ.get(lock.HOLDER)))
            return left.pop(0) if left else 0

        monkeypatch.setattr(stages, "run", measure)
        parser, out = argparse.ArgumentParser(), io.StringIO()
        record.add_arguments(parser)
        return record.run(parser.parse_args([str(arg) for arg in argv]), out, io.StringIO()), out.getvalue(), calls

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(record.host, "device", lambda: "cpu")
    monkeypatch.delenv(lock.HOLDER, raising=False)
    return command


def test_every_process_has_its_folder_and_the_machine_to_itself(run):
    status, out, calls = run("--processes", 2, "--seconds", 0.5, "--bench", "matmul")
    folders = [str(traces.TRACES / f"process-0{number}") for number in (1, 2)]
    options = ["--device=cpu", "--seconds=0.5", "--bench=matmul"]
    assert calls == [(["traces", folder, *options], str(os.getpid())) for folder in folders]
    assert (status, out) == (0, f"process 1/2: {folders[0]}\nprocess 2/2: {folders[1]}\n")


@pytest.mark.parametrize(("statuses", "status", "count"), [([0, 20, 0], 20, 3), ([20, 2, 0], 2, 2), ([130], 130, 1)])
def test_failed_series_does_not_end_the_command(run, statuses, status, count):
    result, _, calls = run("--processes", 3, statuses=statuses)
    assert (result, len(calls)) == (status, count)


def test_number_of_processes_must_be_positive(run):
    with pytest.raises(UsageError, match="--processes 0: wanted at least 1"):
        run("--processes", 0)
