"""The table of sessions: generated sessions in, spreads out."""

import io
import random

import pytest

from kernel_velocity.__main__ import main
from kernel_velocity.errors import ResultsError
from kernel_velocity.lab import sessions as identical_sessions
from kernel_velocity.lab import spread
from kernel_velocity.stats.adjust import slopes
from tests.lab import sessions as generated
from tests.lab.sessions import changed


def planted(sessions=8, *, common=0.03, gauges=False):
    """Return sessions of 8 rounds in which native and two controls share a factor."""
    everyone = ("native", "eager", "compile")
    return generated.sessions(sessions, common=common, implementations=everyone, gauges=gauges, seed=5)


def without(found, name, *implementations):
    """Return the sessions without these implementations in one of them."""
    return found | {name: [item for item in found[name] if item.round.params[0] not in implementations]}


def test_only_our_series_are_rows_and_adjusting_helps():
    (row,) = spread.rows(planted())
    assert row.series == ("matmul.Cpu.time_hot", ("native", "float32-256x256x256"))
    assert row.raw > 0.02
    assert row.adjusted < 0.005
    assert row.betas == pytest.approx((1,), abs=0.1)
    assert row.explained > 0.9
    assert row.seconds == pytest.approx(1e-3, rel=0.1)
    assert "native float32-256x256x256" in spread.table([row])


def test_gauges_adjust_without_any_control():
    (row,) = spread.rows(generated.sessions(8, common=0.03, seed=5))
    assert row.raw > 0.02
    assert row.adjusted < 0.005


def test_cold_rounds_are_no_controls_of_hot_ones():
    """What empties the caches scatters by itself."""
    rng = random.Random(7)
    found = planted()
    for rounds in found.values():
        rounds += [
            changed(
                item,
                benchmark="matmul.Cpu.time_cold",
                estimate=item.round.estimate * (1 + rng.gauss(0, 0.3)),
                time=item.round.time + 0.5,
            )
            for item in list(rounds)
        ]
    (hot,) = (row for row in spread.rows(found) if row.series[0].endswith("time_hot"))
    (alone,) = spread.rows(planted())
    assert hot.adjusted == pytest.approx(alone.adjusted)


def test_without_controls_only_the_raw_spread_is_shown():
    bare = planted()
    for name in bare:
        bare = without(bare, name, "eager", "compile")
    (row,) = spread.rows(bare)
    assert row.raw > 0.02 and row.adjusted is None
    assert spread.table([row]).splitlines()[1].split()[-3:] == ["-", "-", "-"]


@pytest.mark.parametrize("ours_failed_in", [(), ("02",)])
def test_a_session_without_controls_leaves_no_adjusted_spread(ours_failed_in):
    """The two spreads would be of different sessions."""
    found = without(planted(), "04", "eager", "compile")
    for name in ours_failed_in:
        found = without(found, name, "native")
    (row,) = spread.rows(found)
    assert row.adjusted is None


def test_controls_of_a_session_in_which_ours_failed_do_no_harm():
    (row,) = spread.rows(without(planted(), "02", "native"))
    assert row.adjusted < 0.005


def test_a_session_is_adjusted_by_what_the_others_say():
    found = planted()
    (series,) = (name for name in identical_sessions.logs(found) if name[1][0] == "native")
    values, signals = identical_sessions.logs(found)[series], identical_sessions.signals(found)[series]
    adjusted, betas = spread.out_of_sample(values, signals)
    assert adjusted.keys() == values.keys()
    for name, fit in zip(found, betas, strict=True):
        others = {key: value for key, value in values.items() if key[0] != name}
        assert fit == slopes(others, signals, dict.fromkeys(found, "the same code"))[0]
        for key in values:
            if key[0] == name:
                assert adjusted[key] == values[key] - fit[0] * signals[0][key]
    assert len(set(betas)) == len(found)


def test_a_series_that_failed_in_most_sessions_is_left_out():
    found = planted()
    for name in list(found)[2:]:
        found = without(found, name, "native")
    assert spread.rows(found) == []


def test_two_sessions_are_no_spread():
    with pytest.raises(ResultsError, match="2 sessions: at least 3"):
        spread.rows(planted(2))


def test_too_few_sessions_is_a_usage_error():
    err = io.StringIO()
    assert main(["lab", "spread", "--sessions", "2"], io.StringIO(), err) == 2
    assert err.getvalue() == "error: --sessions 2: at least 3 say something\n"


def test_columns_line_up_with_several_signals():
    (row,) = spread.rows(planted(gauges=True))
    assert len(row.betas) > 1
    head, line = spread.table([row]).splitlines()
    assert len(head) == len(line)
