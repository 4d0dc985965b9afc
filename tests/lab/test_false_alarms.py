"""False alarms: pairs of sessions by hand, and the command from files of generated sessions to its tables."""

import io
import itertools
import math
import random
from pathlib import Path

import numpy as np
import pytest

from kernel_velocity.__main__ import main
from kernel_velocity.errors import ResultsError
from kernel_velocity.lab import false_alarms, sessions
from kernel_velocity.lab.false_alarms import (
    ADJUSTED,
    LAYOUTS,
    OURS,
    RAW,
    TESTS,
    by_asv,
    by_intervals,
    by_ours,
    judge,
    power,
    rate,
)
from kernel_velocity.results.measurement import round_interval
from tests.golden import check_golden
from tests.lab import sessions as generated
from tests.lab.sessions import changed, series

GOLDEN = Path(__file__).parent / "golden" / "false_alarms.txt"
NAMES = [str(layout) for layout in LAYOUTS]
APART = 0.05
JUDGES = pytest.mark.parametrize("test", [by_asv, by_intervals, by_ours])


def values(*centres, spread=0.001, rounds=8, samples=1, seed=1):
    """Return (sessions, rounds, samples) log seconds about these centres."""
    noise = np.random.default_rng(seed).normal(0, spread, (len(centres), rounds, samples))
    return np.log(1e-3) + np.array(centres)[:, None, None] + noise


def matrix(number, *pairs):
    """Return the matrix of a test that calls these pairs of sessions different."""
    result = np.zeros((number, number))
    for i, j in pairs:
        result[i, j] = result[j, i] = 1
    return result


@JUDGES
def test_session_that_is_apart_differs_from_all_others(test):
    result = test(values(0.0, 0.0, APART, 0.0, 0.0, 0.0), 0.0)
    assert result.tolist() == matrix(6, *((2, other) for other in (0, 1, 3, 4, 5))).tolist()
    scattered = test(values(*np.random.default_rng(2).normal(0, 0.01, 8)), 0.0)
    assert (scattered == scattered.T).all() and not scattered.diagonal().any()


@JUDGES
@pytest.mark.parametrize("change", [0.05, -0.05])
def test_change_is_planted_into_the_second_of_a_pair(test, change):
    """Session 0 has it already: slowed by it, the others are equal to it, and itself differs twice as much."""
    result = test(values(math.log1p(change), 0.0, 0.0, 0.0, 0.0, 0.0), change)
    assert result[1:, 0].all() and not result[0, 1:].any() and not result.diagonal().any()


@JUDGES
def test_change_found_for_the_other_side_is_no_success(test):
    """Session 0 is so much faster that, slowed by 1%, it still reads as the faster one."""
    apart = values(-0.2, 0.0, 0.0, 0.0, 0.0, 0.0, spread=0.0005)
    assert test(apart, 0.0)[1:, 0].all()
    assert not test(apart, 0.01)[1:, 0].any() and test(apart, 0.01)[0, 1:].all()


def test_floor_of_a_pair_is_that_of_the_other_sessions():
    """With the wild session among them, six sessions have a floor of 7%, and it would hide itself."""
    result = by_ours(values(0.0, 0.0, 0.0, 0.0, 0.0, APART, spread=0.0005), 0.0)
    assert result[5, :5].all() and result[:5, 5].all()
    scattered = values(*np.random.default_rng(3).normal(0, 0.03, 12))
    assert rate([by_asv(scattered, 0.0)]).share > 0.5  # it sees only the rounds
    assert rate([by_ours(scattered, 0.0)]).share < 0.05


def test_intervals_are_those_of_the_pages():
    sample = values(0.0, 0.002, 0.004, 0.0015, 0.0, spread=0.001, seed=3)
    shown = [round_interval(np.exp(row[:, 0]).tolist()) for row in sample]
    wanted = [[interval.high < other.low or other.high < interval.low for other in shown] for interval in shown]
    assert by_intervals(sample, 0.0).astype(bool).tolist() == wanted
    assert 0 < sum(map(sum, wanted)) < 20


@pytest.mark.parametrize("pairs", [[(0, 1)], [(0, 1), (0, 2)], [(0, 1), (2, 3)], [(0, 1), (1, 2), (0, 2)]])
def test_bound_is_that_of_all_resamples(pairs):
    """With 4 sessions there are 256."""
    result = matrix(4, *pairs)
    shares = []
    for drawn in itertools.product(range(4), repeat=4):
        compared = [(i, j) for i, j in itertools.permutations(drawn, 2) if i != j]
        if compared:
            shares.append(sum(result[pair] for pair in compared) / len(compared))
    bound = rate([result]).bound
    assert np.mean(np.array(shares) <= bound + 1e-9) >= 0.94
    assert np.mean(np.array(shares) < bound - 1e-9) <= 0.96


def test_bound_is_over_sessions():
    odd = matrix(10, *((0, other) for other in range(1, 10)))
    scattered = matrix(10, *((i, (i + 1) % 10) for i in range(9)))
    assert rate([odd]).share == rate([scattered]).share == 0.2
    assert rate([odd]).bound > rate([scattered]).bound + 0.08
    assert rate([odd] * 6).bound == pytest.approx(rate([odd]).bound)  # the same sessions are drawn for all series
    assert rate([matrix(5, *itertools.combinations(range(5), 2))]).bound == 1


def test_power_is_the_mean_over_ordered_pairs():
    result = np.zeros((3, 3))
    result[0, 1] = result[0, 2] = result[2, 0] = 1
    assert power(result) == 0.5


# From sessions to tables.
@pytest.fixture
def command(tmp_path):
    """Return a function that writes sessions and returns the command's status, output and errors."""

    def run(by_session, folder="sessions", **how):
        out, err = io.StringIO(), io.StringIO()
        path = generated.write(by_session, tmp_path / folder, **how)
        return main(["lab", "false-alarms", "--read", str(path)], out, err), out.getvalue(), err.getvalue()

    return run


def powers(judged, layout, kind, change):
    (value,) = judged[layout, "ours", kind].powers[change].values()
    return value


def layouts_of(judged, wanted):
    """Return the layouts in which a series is judged, by all tests and kinds of values alike."""
    by_layout = {
        layout: {wanted in result.by_series for key, result in judged.items() if key[0] == layout} for layout in LAYOUTS
    }
    assert all(len(answers) < 2 for answers in by_layout.values())
    return [str(layout) for layout, answers in by_layout.items() if answers == {True}]


def replaced(by_session, name, change, chosen=lambda round_: round_.series == series()):
    """Return the sessions with other rounds of the first series in one of them."""
    return by_session | {name: [change(round_) if chosen(round_) else round_ for round_ in by_session[name]]}


def test_golden(command, accept):
    result = generated.sessions(7, common=0.01, kernels=("add", "matmul"), implementations=("native", "eager"))
    status, out, err = command(result)
    assert (status, err) == (0, "")
    check_golden(GOLDEN, out, accept=accept)
    assert command(result, "again", compressed=True)[1] == out


def test_every_test_judges_every_layout_raw_and_adjusted(command):
    result = judge(generated.sessions(5))
    assert set(result) == set(itertools.product(LAYOUTS[:-1], TESTS, (RAW, ADJUSTED)))  # not 16 rounds: there are 8
    assert {tuple(entry.by_series) for entry in result.values()} == {(series(),)}
    _, out, _ = command(generated.sessions(5, count=16, implementations=("native", "eager", "compile")))
    assert [line.split(":")[1].split(",")[0] for line in out.splitlines() if line.startswith("by series")] == [
        " 8 x 1",
        " 16 x 1",
    ]
    assert not any(name in out for name in ("eager", "compile"))


def test_adjusting_takes_out_what_the_gauges_show():
    result = judge(generated.sessions(10, common=0.05))
    assert result[OURS, "asv's", RAW].alarms.share > 0.5
    assert result[OURS, "asv's", ADJUSTED].alarms.share < 0.2
    assert result[OURS, "ours", ADJUSTED].alarms.different == 0
    for layout in (OURS, LAYOUTS[1]):  # of 16 blocks, which are adjusted as their rounds are
        assert powers(result, layout, RAW, 0.05) < 0.2 and powers(result, layout, ADJUSTED, 0.05) == 1


def test_planted_change_is_found_by_its_size():
    result = judge(generated.sessions(8, changes=[1.2]))
    assert result[OURS, "ours", ADJUSTED].alarms.different == 7  # of the session that no gauge explains
    result = judge(generated.sessions(8))
    assert [powers(result, OURS, RAW, change) for change in (0.02, 0.03, 0.05)] == [1, 1, 1]
    assert powers(result, OURS, RAW, 0.01) < 1


def test_every_series_has_a_row(command):
    result = generated.sessions(8, kernels=("add", "matmul"))
    wild = replaced(result, "03", lambda round_: generated.slowed(round_, 1.2))
    calm, odd = (line.split() for line in command(wild)[1].splitlines()[-2:])
    assert (calm[0], odd[0]) == ("add.Cpu.time_hot", "matmul.Cpu.time_hot")
    assert (calm[3:7], odd[3], odd[5]) == (["0%", "<52.7%", "0%", "<52.7%"], "25.0%", "25.0%")


@pytest.mark.parametrize(
    ("blocks", "left"), [(16, NAMES), (15, [NAMES[0], *NAMES[2:]]), (4, NAMES[2:]), (0, NAMES[2:])]
)
def test_series_with_too_few_blocks_is_left_out_of_a_layout(blocks, left):
    result = generated.sessions(5, kernels=("add", "matmul"), count=16)
    judged = judge(replaced(result, "02", lambda round_: changed(round_, blocks=round_.blocks[:blocks])))
    assert layouts_of(judged, series()) == left
    assert layouts_of(judged, series(kernel="add")) == NAMES


@pytest.mark.parametrize(("rounds", "left"), [(16, NAMES), (15, NAMES[:-1]), (7, NAMES[:-2]), (3, ["2 x 5"]), (0, [])])
def test_series_with_too_few_rounds_is_left_out_of_a_layout(rounds, left):
    result = generated.sessions(5, kernels=("add", "matmul"), count=16)
    first = [round_ for round_ in result["02"] if round_.series == series()][:rounds]
    result["02"] = [round_ for round_ in result["02"] if round_.series != series()] + first
    judged = judge(result)
    assert layouts_of(judged, series()) == left
    assert layouts_of(judged, series(kernel="add")) == NAMES


def test_series_without_gauges_has_no_adjusted_figures(command):
    def bare(round_):
        return changed(round_, core_gauge=None, memory_gauge=None)

    def single(round_):
        return round_.series == series() and round_.round.launch == "2-3"

    status, out, err = command(replaced(generated.sessions(5, kernels=("add", "matmul")), "02", bare, single))
    assert (status, err) == (0, "")
    cells = out.splitlines()[-1].split()
    assert cells[0] == "matmul.Cpu.time_hot"
    assert [text == "-" for text in cells[3:]] == [False, False, True, True, *[False, True] * 3]
    _, out, _ = command({name: list(map(bare, rounds)) for name, rounds in generated.sessions(5).items()}, "none")
    assert not any(line.split()[4:5] == ["adjusted"] for line in out.splitlines())
    assert out.splitlines()[-1].split()[3:7] == ["0%", "<77.6%", "-", "-"]


def test_first_rounds_count_whatever_their_order_in_the_file():
    result = generated.sessions(5, common=0.01, count=16)
    shuffled = {name: random.Random(name).sample(rounds, len(rounds)) for name, rounds in result.items()}
    logs = sessions.logs(result)[series()]
    for layout in LAYOUTS:
        entry, other = (false_alarms.array(layout, series(), logs, source) for source in (result, shuffled))
        assert entry.shape == (5, layout.rounds, layout.samples)
        assert entry.tolist() == other.tolist()
    first = false_alarms.array(LAYOUTS[2], series(), logs, result)[1, :, 0]
    assert first.tolist() == [logs["01", launch] for launch in ("1-9", "1-8", "1-7", "1-6")]


def test_too_little_is_an_error(command):
    status, out, err = command(generated.sessions(4))
    assert (status, out, err) == (2, "", "error: 4 sessions: wanted at least 5, to estimate a false-alarm rate\n")
    result = generated.sessions(5)
    with pytest.raises(ResultsError, match="no series has 8 rounds in every one of 5 sessions"):
        judge(result | {"03": result["03"][:-1]})
    with pytest.raises(ResultsError, match="no series has 8 rounds"):
        judge(generated.sessions(5, implementations=("eager",)))
