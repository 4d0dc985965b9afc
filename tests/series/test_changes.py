"""Which values of a series can be compared."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.results.measurement import OUTCOMES, Measurement, Outcome
from kernel_velocity.series import changes
from tests.series.one_by_one import columns_of
from tests.series.test_columns import KEY, LINE, ORDER


@st.composite
def series(draw):
    positions = draw(st.lists(st.integers(0, len(LINE) - 1), unique=True, min_size=1, max_size=12))
    return columns_of([draw(_measurement(LINE[position])) for position in positions], ORDER)


@st.composite
def _measurement(draw, sha):
    outcome = draw(st.sampled_from([Outcome.MEASURED] * 4 + [Outcome.FAILED, Outcome.NOT_APPLICABLE]))
    if outcome is not Outcome.MEASURED:
        return Measurement(key=KEY, commit=sha, outcome=outcome)
    method = draw(st.sampled_from([None, "a", "b"]))
    return Measurement(key=KEY, commit=sha, outcome=outcome, seconds=1.0, method=method)


@settings(max_examples=50)
@given(series())
def test_before_is_the_newest_of_the_same_method(columns):
    base = changes.before(columns)
    for entry, method in enumerate(columns.method.tolist()):
        fits = [
            other
            for other in range(entry)
            if columns.outcome[other] == OUTCOMES.index(Outcome.MEASURED)
            and (method < 0 or columns.method[other] in (-1, method))
        ]
        assert base[entry] == (fits[-1] if fits else changes.NONE)
