"""What caches gave a call."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.roofline.model import cache_benefit, dram_seconds
from tests.kernels.stand_in import properties

AMOUNTS = st.floats(1e-3, 1e15)


def test_by_hand():
    # 6 MB at 20 GB/s are 300 us; in 100 us a cache must have given a factor of 3
    assert dram_seconds(6e6, 20e9) == pytest.approx(300e-6)
    assert cache_benefit(6e6, 100e-6, 20e9) == pytest.approx(3)
    assert cache_benefit(6e6, 600e-6, 20e9) == 1


@properties
@given(AMOUNTS, AMOUNTS, AMOUNTS)
def test_it_is_at_least_one_and_falls_with_the_time(moved, seconds, bandwidth):
    benefit = cache_benefit(moved, seconds, bandwidth)
    assert benefit >= 1
    assert cache_benefit(moved, 2 * seconds, bandwidth) <= benefit
    assert cache_benefit(2 * moved, seconds, bandwidth) >= benefit
    assert math.isclose(cache_benefit(2 * moved, 2 * seconds, bandwidth), benefit, rel_tol=1e-12)


@pytest.mark.parametrize(("moved", "seconds", "bandwidth"), [(-1, 1, 1), (1, 0, 1), (1, 1, 0), (math.nan, 1, 1)])
def test_what_makes_no_sense_is_refused(moved, seconds, bandwidth):
    with pytest.raises(ValueError, match="wanted"):
        cache_benefit(moved, seconds, bandwidth)
