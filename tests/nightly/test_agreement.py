"""How many series that share a kernel moved alike, and what that is worth in the control of false discoveries."""

import math

import numpy as np
from scipy.stats import norm

from kernel_velocity.direction import Better
from kernel_velocity.findings.text import shown_by
from kernel_velocity.nightly import confirm
from kernel_velocity.nightly.judge import Agreement
from kernel_velocity.verdict.history import Observation, SeriesHistory
from tests.findings.nights import LINE, ORDER, case, finding, identity

AT = (LINE[30],)
CALM, SLOWER = 0.0, math.log(1.03)


def history(shift, **parts):
    """Return a series without noise that moves at a commit."""
    observations = (
        Observation(commit=LINE[index], position=index, value=-7 + shift * (index >= 30)) for index in range(28, 32)
    )
    return SeriesHistory(identity=identity(**parts), better=Better.LOWER, observations=tuple(observations))


def weights_of(*shifts, rises=True):
    histories = [history(shift, case=f"c{number}") for number, shift in enumerate(shifts)]
    agreement = Agreement(histories, ORDER)
    return [agreement.weight(history.identity, AT, rises=rises) for history in histories]


def test_weight_is_the_share_that_moved_the_same_way():
    assert weights_of(SLOWER) == [1 / 2]  # nothing is known
    assert weights_of(SLOWER, SLOWER, SLOWER) == [3 / 4] * 3
    assert weights_of(SLOWER, CALM, CALM) == [1 / 4, 2 / 4, 2 / 4]
    assert weights_of(SLOWER, -SLOWER, 0.009) == [1 / 4, 2 / 4, 2 / 4]
    assert weights_of(-SLOWER, -SLOWER, rises=False) == [2 / 3] * 2


def test_finding_has_its_share_of_series_and_machines():
    here = [history(SLOWER, case=f"c{number}") for number in range(3)]
    there = [history(CALM, machine="bench-2", case=f"c{number}") for number in range(2)]
    record = finding(affected=tuple(case(case=f"c{number}").affected for number in range(2)))
    counted = Agreement([*here, *there], ORDER).counted(record)
    assert counted.among == (5, 2)
    assert shown_by(counted) == "2 of 5 series on 1 of 2 machines (bench-1)"
    assert shown_by(record) == "2 series on 1 machine (bench-1)"


def test_agreement_lets_pass_what_a_lone_case_does_not():
    others = [(number / 300, 1 / 7) for number in range(1, 300)]  # Benjamini and Hochberg: p <= .05 / 300 = 1.7e-4
    lone, several = case(p=1.5e-4), [case(p=6e-4, case=f"c{number}") for number in range(2)]
    flat = confirm.discoveries([(suspect, 1 / 7) for suspect in (lone, *several)], others)
    assert flat == ((lone,), tuple(several))
    weighted = confirm.discoveries([(lone, 1 / 7), *((suspect, 6 / 7) for suspect in several)], others)
    assert weighted == ((lone, *several), ())
    agreeing = [*others, *[(0.5, 6 / 7)] * 20]  # among tests whose kernels agree, it counts less
    assert confirm.discoveries([(lone, 1 / 7)], [(p, 1 / 7) for p, _ in agreeing]) == ((lone,), ())
    assert confirm.discoveries([(lone, 1 / 7)], agreeing) == ((), (lone,))


NIGHTS, KERNELS, CASES = 40, 80, 6


def night(rng, slow):
    """Return z of re-runs and shifts of histories, each (kernels, cases). The first kernels are 2% slower.

    Half of the noise of a kernel's cases is one, in the re-runs and in the histories.
    """

    def noise():
        return (rng.normal(size=(KERNELS, 1)) + rng.normal(size=(KERNELS, CASES))) / math.sqrt(2)

    is_slow = np.arange(KERNELS)[:, None] < slow
    return 3.6 * is_slow + noise(), 0.02 * is_slow + 0.007 * noise()


def simulated(slow):
    """Return the false and the true cases of all nights: without weights, and with them."""
    rng, counts = np.random.default_rng(0), np.zeros((2, 2), int)
    for _ in range(NIGHTS):
        z, shifts = night(rng, slow)
        names = [(f"k{kernel}.Cpu.time_hot", f"c{number}") for kernel in range(KERNELS) for number in range(CASES)]
        histories = [
            history(shift, benchmark=name, case=size) for (name, size), shift in zip(names, shifts.flat, strict=True)
        ]
        agreement, tests, others = Agreement(histories, ORDER), [], []
        for of, value in zip(histories, z.flat, strict=True):
            p, parts = float(2 * norm.sf(abs(value))), {"benchmark": of.identity.benchmark, "case": of.identity.case}
            weight = agreement.weight(of.identity, AT, rises=value > 0)
            if p < 1e-3:  # its own test confirms it
                tests.append((case(ratio=math.exp(value / 100), p=p, **parts), weight))
            else:
                others.append((p, weight))
        flat = [(suspect, 0.5) for suspect, _ in tests], [(p, 0.5) for p, _ in others]
        for row, weighing in enumerate((flat, (tests, others))):
            reported, _ = confirm.discoveries(*weighing)
            is_true = [int(suspect.affected.identity.kernel[1:]) < slow for suspect in reported]
            counts[row] += is_true.count(False), is_true.count(True)
    return counts


def test_agreement_adds_power_and_no_false_alarms():
    (flat, _), (weighted, _) = simulated(0)
    assert weighted <= flat
    (flat_false, flat_true), (false, true) = simulated(1)
    assert true > 1.15 * flat_true
    assert false / (false + true) <= flat_false / (flat_false + flat_true) + 0.01
