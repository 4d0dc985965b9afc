"""False alarms: pairs of sessions by hand, and the command from files of generated sessions to its tables."""

import io
import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from kernel_velocity.__main__ import main
from kernel_velocity.errors import ResultsError
from kernel_velocity.lab.false_alarms import (
    ADJUSTED,
    LAYOUTS,
    OURS,
    RAW,
    TESTS,
    by_intervals,
    judge,
)
from kernel_velocity.results.measurement import round_interval
from tests.golden import check_golden
from tests.lab import sessions as generated
from tests.lab.sessions import changed, series

GOLDEN = Path(__file__).parent / "golden" / "false_alarms.txt"
NAMES = [str(layout) for layout in LAYOUTS]


def test_intervals_are_those_of_the_pages():
    centres = np.array([0.0, 0.002, 0.004, 0.0015, 0.0])
    sample = math.log(1e-3) + centres[:, None, None] + np.random.default_rng(3).normal(0, 0.001, (5, 8, 1))
    shown = [round_interval(np.exp(row[:, 0]).tolist()) for row in sample]
    wanted = [[interval.high < other.low or other.high < interval.low for other in shown] for interval in shown]
    assert by_intervals(sample, 0.0).astype(bool).tolist() == wanted
    assert 0 < sum(map(sum, wanted)) < 20


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


@pytest.mark.parametrize(("blocks", "left"), [(15, [NAMES[0], *NAMES[2:]]), (0, NAMES[2:])])
def test_series_with_too_few_blocks_is_left_out_of_a_layout(blocks, left):
    result = generated.sessions(5, kernels=("add", "matmul"), count=16)
    judged = judge(replaced(result, "02", lambda round_: changed(round_, blocks=round_.blocks[:blocks])))
    assert layouts_of(judged, series()) == left
    assert layouts_of(judged, series(kernel="add")) == NAMES


@pytest.mark.parametrize(("rounds", "left"), [(15, NAMES[:-1]), (3, ["2 x 5"])])
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


def test_too_little_is_an_error(command):
    status, out, err = command(generated.sessions(4))
    assert (status, out, err) == (2, "", "error: 4 sessions: wanted at least 5, to estimate a false-alarm rate\n")
    result = generated.sessions(5)
    with pytest.raises(ResultsError, match="no series has 8 rounds in every one of 5 sessions"):
        judge(result | {"03": result["03"][:-1]})
    with pytest.raises(ResultsError, match="no series has 8 rounds"):
        judge(generated.sessions(5, implementations=("eager",)))
