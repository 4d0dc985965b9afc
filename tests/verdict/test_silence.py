"""A machine that was renamed: its history goes on under another name, and the night says what to do."""

import dataclasses

import pytest

from kernel_velocity.verdict.silence import DAY, renamed
from tests.findings.nights import history

CPU = {"cpu": "AMD EPYC 9R14", "driver": "550"}
GPU = CPU | {"gpu": "NVIDIA H100; power limit, mW 700000; MIG 0 | NVIDIA H100; power limit, mW 700000; MIG 0"}
CAPPED = CPU | {"driver": "560", "gpu": "NVIDIA H100; power limit, mW 500000; MIG 0 | NVIDIA H100; MIG 0"}


def machine(name, facts, days):
    """Return a series of a machine that was measured every day from the first of `days` to the last."""
    series = history(days[1] - days[0] + 1, machine=name)
    measured = tuple(
        dataclasses.replace(observation, facts=facts, measured=(days[0] + number) * DAY)
        for number, observation in enumerate(series.observations)
    )
    return dataclasses.replace(series, observations=measured)


@pytest.mark.parametrize(
    ("facts", "old", "days", "is_so"),
    [
        (CPU, CPU, (1, 9), True),
        (CPU, CPU | {"driver": "560", "governor": "powersave"}, (1, 9), True),
        (GPU, CAPPED, (1, 9), True),
        (GPU, CPU, (1, 9), False),  # another machine
        (CPU, CPU | {"cpu": "Intel Xeon"}, (1, 9), False),
        (CPU, {"driver": "550"}, (1, 9), False),  # nobody knows
        ({"driver": "550"}, {"driver": "550"}, (1, 9), False),
        (CPU, None, (1, 9), False),
        (CPU, CPU, (1, 11), False),  # a twin that is measured beside it
    ],
)
def test_renamed_machine_is_noted(facts, old, days, is_so):
    notes = renamed([machine("new", facts, (10, 12)), machine("old", old, days)], "new")
    assert len(notes) == is_so
    for note in notes:
        assert (
            note.startswith("new: is of the kind of old (AMD EPYC 9R14")
            and "--machine old goes on with its history" in note
        )
        assert "mW" not in note


def test_old_and_later_machines_are_no_earlier_names():
    new = machine("new", CPU, (100, 102))
    assert renamed([new, machine("old", CPU, (1, 11))], "new") == ()
    assert len(renamed([new, machine("old", CPU, (1, 12))], "new")) == 1
    assert renamed([new, machine("old", CPU, (1, 12))], "old") == ()
    assert renamed([machine("old", CPU, (1, 12))], "new") == ()
