"""Roofs from sessions: the upper quartile of the last ten, and which figure becomes which roof."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.roofline.roofs import SESSIONS, CeilingSession, quantile, roof, roofs
from tests.kernels.stand_in import properties

KIB, MIB = 1 << 10, 1 << 20
FIGURES = {
    "dram_copy_bandwidth": 10e9,
    "dram_read_bandwidth": 12e9,
    "dram_triad_bandwidth": 9e9,
    "l1_bandwidth": 100e9,
    "l2_bandwidth": 60e9,
    "l3_bandwidth": 30e9,
    "l1_size": 32.0 * KIB,
    "l2_size": None,
    "l3_size": 16.0 * MIB,
    "peak_float32": 1e11,
    "peak_float16": None,
    "launch_overhead": 1e-6,
    "timer_tick": 2e-8,
    "threads": 1.0,
}


def session(began=0.0, **figures):
    return CeilingSession(began=began, figures=FIGURES | figures, reported={"L1": 48 * KIB, "L2": MIB, "L3": 32 * MIB})


def test_the_roof_is_the_upper_quartile_of_the_last_ten_sessions():
    many = [session(peak_float32=float(rate)) for rate in (99, 98, 97, 96, *range(1, 11))]
    assert roof(many, "peak_float32") == pytest.approx(7.75)  # of 1 to 10; those above are too old
    assert len(many) > SESSIONS
    assert roof(many[:1], "peak_float32") == 99


def test_of_costs_the_lower_quartile_and_of_sizes_the_median():
    many = [session(launch_overhead=float(cost), l1_size=float(cost)) for cost in (1, 2, 3, 4, 100)]
    assert roof(many, "launch_overhead") == 2
    assert roof(many, "l1_size") == 3


def test_a_session_that_could_not_measure_a_ceiling_does_not_lower_it():
    assert roof([session(), session(peak_float32=None)], "peak_float32") == 1e11
    assert roof([session()], "peak_float16") is None
    assert roof([session()], "no_such_figure") is None
    assert roof([], "peak_float32") is None


@properties
@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=20), st.floats(0, 1))
def test_a_quantile_is_numpys(values, share):
    assert quantile(values, share) == pytest.approx(float(np.quantile(values, share)), rel=1e-9, abs=1e-3)


def test_a_quantile_of_nothing_is_refused():
    with pytest.raises(ValueError, match="no values"):
        quantile([], 0.5)


def test_levels_are_what_was_seen_else_what_is_reported():
    found = roofs([session()], "cpu")
    assert [(level.name, level.size, level.bandwidth) for level in found.levels] == [
        ("L1", 32 * KIB, 100e9),
        ("L2", 1 * MIB, 60e9),
        ("L3", 16 * MIB, 30e9),
        ("DRAM", None, 12e9),
    ]
    assert found.peaks["float32"] == 1e11
    assert found.peaks["float16"] is None
    assert roofs([], "cpu") is None


def test_an_inner_level_is_never_below_an_outer_one():
    found = roofs([session(l2_bandwidth=5e9, l1_bandwidth=None)], "cpu")
    assert [level.bandwidth for level in found.levels] == [None, 30e9, 30e9, 12e9]


def test_a_machine_may_lack_a_level():
    bare = CeilingSession(
        began=0.0, figures=FIGURES | {"l3_bandwidth": None, "l3_size": None}, reported={"L1": 1, "L2": 2}
    )
    assert [level.name for level in roofs([bare], "cpu").levels] == ["L1", "L2", "DRAM"]


def test_reported_sizes_may_come_from_an_earlier_session():
    silent = CeilingSession(began=1.0, figures=FIGURES, reported={}, warnings=("busy",))
    found = roofs([session(), silent], "cpu")
    assert {level.name: level.size for level in found.levels}["L2"] == MIB
    assert found.warnings == ("busy",)


def test_a_gpu_has_its_own_levels_and_peaks():
    gpu = CeilingSession(
        began=0.0,
        figures={"dram_read_bandwidth": 3e12, "l2_bandwidth": 5e12, "l2_size": None, "peak_tf32": 4e14},
        reported={"L2": 50 * MIB},
    )
    found = roofs([gpu], "cuda")
    assert [(level.name, level.size) for level in found.levels] == [("L2", 50 * MIB), ("DRAM", None)]
    assert found.peaks["tf32"] == 4e14
