"""What a run reads of what was recorded before it: whether a commit was measured since, and lines that are none."""

import time

import pytest

from kernel_velocity.harness import telemetry
from kernel_velocity.runner.records import Records
from kernel_velocity.runner.select import Selection
from tests.ab.simulated_machine import OTHER, SERIES, a_round

COMMIT = "c0ffee00" + "0" * 32


@pytest.fixture
def records(tmp_path):
    asked = Selection(series=(SERIES,), versions={SERIES[0]: "1"})
    return Records(results=tmp_path, machine="box", environment="env", series=asked)


def keep(records, *rounds, more=b""):
    path = records.path(COMMIT)
    beside = path.parent / "telemetry" / f"{path.stem}.jsonl"
    beside.parent.mkdir(parents=True)
    beside.write_bytes("".join(f"{telemetry.encode(item)}\n" for item in rounds).encode() + more)
    return beside


def measured(series, ago):
    return a_round(series, time.time() - ago, 1e-3, "launch")


@pytest.mark.parametrize(
    ("ago", "is_so"),
    [
        ((5.0, 20.0), True),
        ((5.0, 200.0), False),
        ((), False),
        ((5.0, -3600.0), False),  # before the clock was set back by an hour
    ],
)
def test_a_commit_was_measured_since_if_every_round_was(records, ago, is_so):
    keep(records, *(measured(SERIES, seconds) for seconds in ago))
    assert records.measured_since(COMMIT, time.time() - 100) is is_so


def test_what_was_not_asked_for_need_not_be_measured_again(records):
    keep(records, measured(SERIES, 5.0), measured(OTHER, 200.0))
    assert records.measured_since(COMMIT, time.time() - 100)
    assert not records.measured_since(COMMIT, time.time() - 1)


@pytest.mark.parametrize("more", [b'{"b": "\xff\xfe"}\n', b"{\n", b'{"b": 3}\n\n'])
def test_a_line_that_is_none_is_noted_and_costs_no_other(records, more):
    known = measured(SERIES, 5.0)
    beside = keep(records, known, more=more)
    (found,) = records.rounds(COMMIT)
    assert found == telemetry.decode(telemetry.encode(known))
    (note,) = records.notes
    assert note.startswith(f"{beside.parts[-3]}/telemetry/{beside.name}:2: ")
