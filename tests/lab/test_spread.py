"""The spread of sessions, raw and adjusted."""

import pytest

from kernel_velocity.errors import ResultsError
from lab import spread
from tests.ab.identical_sessions import series, sessions


def shared(number=8):
    """Return sessions in which native and two controls share a factor."""
    everyone = ("native", "eager", "compile")
    return sessions(number, common=0.03, implementations=everyone, gauges=False, seed=5)


def test_adjusting_by_controls_reduces_the_spread():
    (row,) = spread.rows(shared())
    assert row.series == series()
    assert row.raw > 0.02 and row.adjusted < 0.005
    assert row.seconds == pytest.approx(1e-3, rel=0.1)
    with pytest.raises(ResultsError, match="2 sessions: wanted at least 3"):
        spread.rows(shared(2))
