"""What tables say of many results at once: the same as of each alone."""

import numpy as np
import pytest

from kernel_velocity import units
from kernel_velocity.results.measurement import OUTCOMES, Measurement, Outcome, SeriesKey
from kernel_velocity.site import cells, text
from kernel_velocity.site.cells import Figures

NAN = np.nan
KEY = SeriesKey(
    machine="vm", environment="py", benchmark="matmul.Cpu.time_hot", implementation="native", case="", version="1"
)


def cell(*, outcome=Outcome.MEASURED, unit="GFLOPS", distinct=False, **known):
    numbers = {**dict.fromkeys(("seconds", "low", "high", "flop", "ratio"), NAN), **known}
    columns = {name: np.array([number]) for name, number in (numbers | {"unit": unit, "distinct": distinct}).items()}
    return next(cells.cells(Figures(outcome=np.array([OUTCOMES.index(outcome)]), **columns)))


@pytest.mark.parametrize(
    ("numbers", "wanted"),
    [
        ({"seconds": 2e-3, "flop": 4e6}, ("2.00 GFLOPS", "2.00 ms", "", "")),
        (
            {"seconds": 2e-3, "low": 1e-3, "high": 4e-3, "flop": 4e6},
            ("2.00 GFLOPS", "1.00 to 4.00 GFLOPS · 2.00 ms", "", ""),
        ),
        (
            {"seconds": 2e-3, "low": 1e-3, "high": 4e-3, "flop": 4e6, "unit": "GOPS"},
            ("2.00 GOPS", "1.00 to 4.00 GOPS · 2.00 ms", "", ""),
        ),
        ({"seconds": 2e-3}, ("2.00 ms", "", "", "")),  # the time is what is shown already
        ({"seconds": 2e-3, "low": 1e-3, "high": 4e-3}, ("2.00 ms", "1.00 ms to 4.00 ms", "", "")),
        ({"seconds": 1.0, "ratio": 1.5, "distinct": True}, ("1.00 s", "", "50.0% faster", "faster")),
        ({"seconds": 1.0, "ratio": 0.9, "distinct": True}, ("1.00 s", "", "10.0% slower", "slower")),
        ({"seconds": 1.0, "ratio": 0.9}, ("1.00 s", "", "≈ 10.0% slower", "same")),
        ({"seconds": 1.0, "ratio": 1.0, "distinct": True}, ("1.00 s", "", "unchanged", "same")),
        ({"outcome": Outcome.FAILED}, ("failed", "", "", "failed")),
        ({"outcome": Outcome.NOT_APPLICABLE}, ("n/a", "", "", "n/a")),
    ],
)
def test_a_cell(numbers, wanted):
    assert cell(**numbers) == wanted


def test_rates_are_those_of_measurements():
    seconds, flop = np.array([1e-3, 0.25, 7e-7, NAN]), np.array([1e9, NAN, 3e3, 1.0])
    items = [
        Measurement(key=KEY, commit="c", outcome=Outcome.MEASURED, seconds=time, flop=None if np.isnan(work) else work)
        for time, work in zip(seconds[:3], flop, strict=False)
    ]
    assert cells.rates(seconds, flop, np.full(4, KEY.rate_unit)) == [*map(text.rate, items), ""]


def test_a_footnote_has_one_number_and_cells_have_them_in_order():
    notes = text.Footnotes()
    assert notes.marks(["thin", "noisy"]) == (1, 2)
    assert notes.marks(["new", "noisy", "thin", "thin"]) == (1, 2, 3)
    assert notes.marks([]) == ()
    assert notes.texts == ("thin", "noisy", "new")


@pytest.mark.parametrize("edge", [1.0, 9.99, 9.995, 10.0, 99.9, 99.95, 100.0, 999.0, 999.5, 1000.0])
def test_digits_are_the_same_on_both_sides_of_an_edge(edge):
    """The shorter way of formatting ends where rounding may carry into a further digit."""
    for value in (np.nextafter(edge, 0), edge, np.nextafter(edge, np.inf)):
        rounded = float(f"{value:.2e}")
        decimals = max(2 - int(np.floor(np.log10(rounded))), 0)
        assert units.significant(float(value)) == f"{value:,.{decimals}f}"
