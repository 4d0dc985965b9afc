"""How much of a growing history an estimate rests on."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.stats.growth import grown


@pytest.mark.parametrize(("size", "expected"), [(6, 6), (16, 16), (17, 16), (18, 18), (19, 18), (63, 57), (900, 826)])
def test_an_estimate_is_made_anew_when_there_is_an_eighth_more(size, expected):
    assert grown(size) == expected


@given(st.integers(0, 20_000))
def test_it_rests_on_most_of_what_there_is_and_stays_until_it_grows(size):
    basis = grown(size)
    assert 8 * size < 9 * basis + 8 or basis == size == 0
    assert basis <= grown(size + 1) in (basis, size + 1)
