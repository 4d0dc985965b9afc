"""Two sessions of a fleet that differ by a tenth: linked by their anchors, values are as if of one session."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from kernel_velocity.fleet import worker
from kernel_velocity.past import past
from kernel_velocity.past.adjusted import SessionLinks
from kernel_velocity.results import blocks
from kernel_velocity.results.blocks import Block, Time
from kernel_velocity.results.measurement import Fit, SeriesKey, Signal
from kernel_velocity.verdict.verdicts import Verdicts
from tests import synthetic

SLOWER = 1.1  # times, in the second session
HALF = 8  # commits of each session
ANCHORS = 4
KEY = SeriesKey(
    machine="m", environment="e", benchmark="k.Cpu.time_hot", implementation="native", case="c", version="1"
)


def measured(tmp_path, monkeypatch, *, change, session, error=None):
    """Return results of two sessions. The second one measured the older half of the commits, and the anchors again.

    Args:
        change: factor of the older half's times, by implementation. session: of the anchors' in the second one.
        error: standard error of the anchors' log times. None: as recorded.
    """
    seconds = synthetic.seconds

    def in_session(name, implementation, size, index):
        return seconds(name, implementation, size, HALF) * (change(implementation) if index < HALF else 1.0)

    monkeypatch.setattr(synthetic, "seconds", in_session)
    result = synthetic.build(tmp_path, [f"Change {number}" for number in range(2 * HALF)])
    newest_first = result.commits[::-1]
    folder = result.results / synthetic.MACHINE
    times = tuple(worker._times(folder, newest_first[:ANCHORS]))
    if error is not None:
        times = tuple(replace(time, error=error) for time in times)
    first = Block(
        machine=synthetic.MACHINE,
        lanes=tuple(blocks.lane_of((name, (case,))) for name, cases in synthetic.CASES.items() for case in cases),
        commits=newest_first[:HALF],
        anchors=newest_first[:ANCHORS],
        rounds=8,
        began=1.79e9,
        seconds=60.0,
        device="CPU",
        times=times,
    )
    again = tuple(replace(time, seconds=time.seconds * session) for time in times)
    later = replace(first, commits=newest_first[HALF:], began=1.8e9, times=again)
    for number, block in enumerate((first, later)):
        path = folder / "runs" / str(number) / blocks.RECORD
        path.parent.mkdir(parents=True)
        path.write_text(blocks.encode(block))
    return result


@pytest.fixture
def tree(tmp_path, monkeypatch):
    return measured(tmp_path, monkeypatch, change=lambda _: SLOWER, session=SLOWER)


@pytest.mark.parametrize(("error", "is_change"), [(0.001, True), (0.2, False)])
def test_step_at_a_border_is_a_change_beyond_doubt(tmp_path, monkeypatch, error, is_change):
    tree = measured(
        tmp_path, monkeypatch, change=lambda name: SLOWER if name == "native" else 1.0, session=1.0, error=error
    )
    recorded = past.open(tree.results, tree.repository)
    every = Verdicts(recorded)
    native = [every[key] for key in recorded.keys if key.implementation == "native"]
    assert native and all(bool(levels.points) == is_change for levels in native)


def steps(recorded):
    """Return the step between the halves of each series, of logs as detection sees them, with the columns."""
    for key in recorded.keys:
        columns = recorded.columns(key)
        values = np.log(np.where(np.isnan(columns.adjusted), columns.seconds, columns.adjusted))
        yield float(np.median(values[HALF:]) - np.median(values[:HALF])), columns


def test_linked_sessions_are_level_and_their_intervals_wider(tree):
    for _ in range(2):  # anew, and from the cache
        for step, columns in steps(past.open(tree.results, tree.repository)):
            assert abs(step) < 0.01
            assert (columns.link_error[:HALF] > 0).all() and not columns.link_error[HALF:].any()
            assert (np.log(columns.adjusted_high / columns.adjusted)[:HALF] > 1.96 * columns.link_error[:HALF]).all()
    for path in tree.results.glob("*/runs/1/*"):
        path.write_text("{}")
    unlinked = past.open(tree.results, tree.repository)
    assert any("block.jsonl: format: 1 is wanted, got None" in note for note in unlinked.problems)
    assert max(abs(step) for step, _ in steps(unlinked)) > 0.05


def test_link_is_less_what_gauges_and_controls_explain():
    def times(factor, gauge, control):
        return tuple(
            Time(
                commit=f"a{number}",
                benchmark=KEY.benchmark,
                params=(implementation, "c"),
                seconds=value,
                error=0.001,
                rounds=8,
                gauges={"core_gauge": gauge},
            )
            for number in range(ANCHORS)
            for implementation, value in (("native", factor), ("eager", control))
        )

    first = Block(
        machine="m",
        lanes=("k c",),
        commits=("a0", "a1", "a2", "a3"),
        anchors=("a0", "a1", "a2", "a3"),
        rounds=8,
        began=1.0,
        seconds=1.0,
        device="d",
        times=times(1.0, 1.0, 1.0),
    )
    later = replace(first, commits=("b",), began=2.0, times=times(math.exp(0.10), math.exp(0.06), math.exp(0.04)))
    decoded = blocks.decode(blocks.encode(later), "here")
    assert decoded == later and json.loads(blocks.encode(later))["format"] == 1

    def step(signals, second=decoded):
        sessions = SessionLinks((first, second))
        fit = Fit(method="", signals=tuple(Signal(name=n, slope=0.5, centre=None) for n in signals), explained=None)
        return sessions.of(KEY, fit, {"a0": 0, "b": 1}.keys())["b"].step

    assert step([]) == pytest.approx(0.10)
    assert step(["core_gauge"]) == pytest.approx(0.07)
    assert step(["controls"]) == pytest.approx(0.08)
    with pytest.raises(KeyError):  # a gauge that was not read at the anchors
        step(["memory_gauge"])
    few = replace(decoded, times=decoded.times[: 2 * (ANCHORS - 1)])
    with pytest.raises(KeyError):
        step([], few)
    assert SessionLinks((first, decoded)).of(KEY, None, {"b"}) == {}  # the first session with a value is the level
