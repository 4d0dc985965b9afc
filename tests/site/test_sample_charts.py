"""The charts of raw samples."""

import numpy as np
import pytest

from kernel_velocity.site.charts.samples import CHARTS, POINTS, charts
from kernel_velocity.stats.speedup import correlogram


def drawn(*rounds):
    """Return the charts of samples by title."""
    estimates = tuple(float(np.mean(samples)) for samples in rounds)
    return {chart.title: chart for chart in charts(rounds, estimates, "#123456")}


def test_charts_of_a_row_that_has_everything():
    by_title = drawn(*([1 + 0.1 * (k % 7) for k in range(40)] for _ in range(3)))
    assert [*by_title] == [*CHARTS]
    assert all(chart.figure is not None for chart in by_title.values())


def test_charts_captions_have_the_figures():
    by_title = drawn((1e-3,) * 4 + (3e-3,) * 4, (2e-3,) * 8)
    assert "median 2.00 ms (line), mean 2.00 ms (dashed)" in by_title["Histogram"].caption
    assert by_title["Time series"].caption.startswith("16 samples of 2 rounds")


@pytest.mark.parametrize(
    ("samples", "title", "caption"),
    [
        ((1.0, 2.0, 3.0), "Histogram", "needs 8 samples, have 3"),
        ((1.0, 2.0, 3.0), "Autocorrelation", "needs rounds of at least 16"),
        ((1.0,), "Lag plot", "needs 2 samples in a round"),
        ((), "Time series", "needs 2 samples, have 0"),
    ],
)
def test_charts_without_enough_samples_say_so(samples, title, caption):
    chart = (drawn(samples) if samples else drawn())[title]
    assert chart.figure is None and chart.caption.startswith(caption)


def test_charts_of_a_long_series_are_thinned():
    chart = drawn(tuple(np.linspace(1, 2, 50_000).tolist()))["Time series"].figure
    assert POINTS / 2 < chart.count("h0") <= POINTS and len(chart) < 20_000


def test_correlogram():
    lags, values = correlogram([np.tile([1.0, -1.0], 100)])
    assert lags[:2] == [1, 2]
    assert values[:2] == pytest.approx([-0.995, 0.99])
    assert correlogram([np.ones(100)]) == correlogram([np.arange(3.0)]) == ([], [])
