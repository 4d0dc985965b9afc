"""A series as columns says the same as its measurements."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.past.columns import NONE, comparable_before
from kernel_velocity.results.measurement import OUTCOMES, Adjusted, Interval, Measurement, Outcome, SeriesKey
from tests.past.one_by_one import columns_of

KEY = SeriesKey(
    machine="m", environment="e", benchmark="k.Cpu.time_hot", implementation="native", case="c", version="1"
)
LINE = tuple(f"{number:040x}" for number in range(30))
ORDER = {sha: position for position, sha in enumerate(LINE)}

times = st.floats(min_value=1e-9, max_value=1e3)
intervals = st.builds(lambda low, more, name: Interval(low=low, high=low + more, method=name), times, times, st.text())


@st.composite
def measurements(draw):
    positions = draw(st.lists(st.integers(0, len(LINE) - 1), unique=True, min_size=1))
    return [draw(_measurement(LINE[position])) for position in positions]


def _measurement(sha):
    measured = st.builds(
        Measurement,
        key=st.just(KEY),
        commit=st.just(sha),
        outcome=st.just(Outcome.MEASURED),
        seconds=times,
        interval=st.none() | intervals,
        rounds=st.none() | st.integers(1, 100),
        method=st.sampled_from([None, "a", "b"]),
        flop=st.just(2e6),
        bytes_moved=st.just(4e6),
        warnings=st.lists(st.text(), max_size=2).map(tuple),
    )
    without = st.builds(
        Measurement,
        key=st.just(KEY),
        commit=st.just(sha),
        outcome=st.sampled_from([Outcome.FAILED, Outcome.NOT_APPLICABLE]),
        flop=st.just(2e6),
        bytes_moved=st.just(4e6),
        reason=st.none() | st.text(),
    )
    return measured | without


@given(measurements())
def test_columns_round_trip(measurements):
    columns = columns_of(measurements, ORDER)
    assert [columns.measurement(index, LINE) for index in range(len(columns))] == sorted(
        measurements, key=lambda measurement: ORDER[measurement.commit]
    )


@given(measurements())
def test_columns_have_the_rates_of_the_measurements(measurements):
    columns = columns_of(measurements, ORDER)
    wanted = [
        np.nan if measurement.gflops is None else measurement.gflops
        for measurement in sorted(measurements, key=lambda measurement: ORDER[measurement.commit])
    ]
    np.testing.assert_allclose(columns.gflops, wanted)


def test_columns_round_trip_adjusted_times():
    inner = Interval(low=0.9, high=1.1, method="t")
    measurement = Measurement(
        key=KEY,
        commit=LINE[3],
        outcome=Outcome.MEASURED,
        seconds=1.0,
        interval=inner,
        adjusted=Adjusted(seconds=1.05, interval=inner),
    )
    assert columns_of([measurement], ORDER).measurement(0, LINE) == measurement


def test_columns_have_no_entry_beside_the_line():
    measurements = [Measurement(key=KEY, commit=sha, outcome=Outcome.FAILED) for sha in (LINE[5], "f" * 40)]
    columns = columns_of(measurements, ORDER)
    assert (len(columns), columns.entry(5), columns.entry(4), columns.entry(29)) == (1, 0, None, None)


@st.composite
def series(draw):
    positions = draw(st.lists(st.integers(0, len(LINE) - 1), unique=True, min_size=1, max_size=12))
    return columns_of([draw(_of_method(LINE[position])) for position in positions], ORDER)


@st.composite
def _of_method(draw, sha):
    outcome = draw(st.sampled_from([Outcome.MEASURED] * 4 + [Outcome.FAILED, Outcome.NOT_APPLICABLE]))
    if outcome is not Outcome.MEASURED:
        return Measurement(key=KEY, commit=sha, outcome=outcome)
    method = draw(st.sampled_from([None, "a", "b"]))
    return Measurement(key=KEY, commit=sha, outcome=outcome, seconds=1.0, method=method)


@settings(max_examples=50)
@given(series())
def test_comparable_before_is_the_newest_of_the_same_method(columns):
    base = comparable_before(columns)
    for entry, method in enumerate(columns.method.tolist()):
        fits = [
            other
            for other in range(entry)
            if columns.outcome[other] == OUTCOMES.index(Outcome.MEASURED)
            and (method < 0 or columns.method[other] in (-1, method))
        ]
        assert base[entry] == (fits[-1] if fits else NONE)
