"""The true night: what the simulated machine measures, and what nightly makes of it."""

import dataclasses
import math

import numpy as np
import pytest

from kernel_velocity.findings.finding import Kind, State
from kernel_velocity.findings.store import NO_MEMORY
from lab import true_night
from lab.true_night import APART, CODES, EVENT, PAST, SLOWER, SimulatedMachine

FIRST = PAST + 2  # place of the first commit that makes a kernel slower


def pair_of(world, night, before, after):
    """Return the median log ratio of two commits measured in a night, the machine, and the rounds."""
    machine = SimulatedMachine(world, night, np.random.default_rng(0))
    series = next(
        (member.benchmark, (member.implementation, member.case))
        for member in world.series
        if member.kernel == "kernel0"
    )
    commits = true_night.commit(before), true_night.commit(after)
    pair = machine.measure_pair(*commits, [series], 32, math.inf)[series]
    logs = [np.log([round_.estimate for round_ in side]) for side in (pair.before, pair.after)]
    return np.median(logs[1]) - np.median(logs[0]), machine, pair


def test_planted_step_is_confirmed_in_its_night_at_its_commit():
    world = true_night.planted(0.10, 0.003, CODES[0], (0,))
    night = true_night.judged(world, FIRST, true_night.PlayedNight((), 0, 0, NO_MEMORY, ()), np.random.default_rng(0))
    (record,) = night.findings
    assert (record.subject, record.kind, record.state) == ("kernel0", Kind.REGRESSION, State.CONFIRMED)
    assert record.commits == (true_night.commit(FIRST),)
    assert night.rounds >= 16 and night.runs == 1


@pytest.mark.parametrize("code", CODES)
def test_planted_steps_are_counted_and_no_other_accused(code):
    tally = true_night.play(true_night.planted(0.10, 0.003, code, (0,)), (0,))
    assert tally.delays == (0,) * SLOWER
    assert (tally.exact, tally.accused, tally.suspected) == (SLOWER, 0, 0)
    assert tally.nights == 2 + APART * (SLOWER + true_night.INNOCENT)


def test_confirmed_step_of_an_innocent_commit_is_counted():
    world = true_night.planted(0.10, 0.003, CODES[0], (0,))
    tally = true_night.play(dataclasses.replace(world, planted={"kernel0": FIRST + 1}), (0,))
    assert (tally.delays, tally.accused) == ((math.inf,), SLOWER)


def test_both_sides_of_a_pair_feel_the_machine_and_one_its_code():
    world = true_night.planted(0.10, 0.003, CODES[0], (0,))
    moved, machine, pair = pair_of(world, FIRST, FIRST - 1, FIRST)
    assert moved == pytest.approx(math.log(1.1), abs=0.01)
    assert pair.rounds == 32 and machine.clock() - pair.before[0].time == pytest.approx(63.0)
    slowed = true_night.environment("+3% on all", CODES[0], (0,))
    moved, _, pair = pair_of(slowed, EVENT, EVENT - 1, EVENT)
    assert moved == pytest.approx(0.0, abs=0.01)
    assert pair.before[0].estimate == pytest.approx(1e-3 * math.exp(0.03), rel=0.03)


@pytest.mark.parametrize("name", true_night.ENVIRONMENTS)
def test_environment_begins_at_the_event_and_no_code_follows_it(name):
    world = true_night.environment(name, CODES[0], (0,))
    moved = world.effects[EVENT:] - world.effects[EVENT - 1]
    assert (np.abs(moved) > 0.015).any() == (name not in ("nothing", *true_night.NOISY))
    assert not world.changes.any()
    controls = [number for number, identity in enumerate(world.series) if identity.is_control]
    if "native" in name:
        assert not world.effects[:, controls].any()
