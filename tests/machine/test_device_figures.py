"""Figures of ceilings, and sizes of caches off the sweep: planted sizes are found, noise shows none."""

import itertools
import random
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.machine.ceilings import DTYPES, Ceiling, sweep_sizes
from kernel_velocity.machine.device_figures import (
    FALL,
    STRETCH,
    UNITS,
    falls,
    figures,
    levels,
    sizes_seen,
)
from kernel_velocity.machine.workloads import AROUND, MULTIPLIED, MULTIPLY_ADDS

PACES = (100e9, 60e9, 30e9, 12e9)
KIB, MIB = 1 << 10, 1 << 20
CPU = {"L1": 32 * KIB, "L2": 1 * MIB, "L3": 32 * MIB}
SIZES = sweep_sizes(8 * KIB, 32 * MIB, None)


def planted(caches, paces, *, noise=0.0, seed=0, sizes=SIZES):
    """Return the sweep of a machine: in cache k the pace is paces[k]. Beyond, misses grow until twice its size."""
    rng = random.Random(seed)
    points = []
    for size in sizes:
        seconds = 1 / paces[0]
        for cache, (inner, outer) in zip(caches, itertools.pairwise(paces), strict=True):
            missing = min(max(size / cache - 1, 0), 1)
            seconds += missing * (1 / outer - 1 / inner)
        points.append((size, rng.gauss(1, noise) / seconds))
    return points


def stream(what, size, value, **more):
    return Ceiling(what=what, unit="B/s", bytes=size, value=value, **more)


def adds(dtype, value, **more):
    return Ceiling(what=MULTIPLY_ADDS, unit="FLOP/s", dtype=dtype, value=value, **more)


def document(ceilings, device="cpu", caches=CPU):
    return {
        "format": 1,
        "device": device,
        "name": "Some device",
        "ceilings": [asdict(ceiling) for ceiling in ceilings],
        "reported": {"threads": 1, "caches": caches},
        "warnings": [],
    }


def a_machine():
    rereads = [stream("reread", size, pace, spread=0.01) for size, pace in planted(CPU.values(), PACES)]
    return [
        Ceiling(what="tick", unit="s", value=2e-8, n=1),
        Ceiling(what="launch", unit="s", value=1e-6, n=9, spread=0.02),
        stream("copy", 64 * KIB, 500e9),  # impossible, to show which figures look at it
        stream("copy", 512 * KIB, 70e9),
        stream("copy", 64 * MIB, 99e9),  # neither in the L3 nor beyond four
        stream("copy", 256 * MIB, 10e9, spread=0.03),
        stream("copy", 512 * MIB, 11e9),
        stream("read", 512 * MIB, 11.5e9),
        stream("triad", 512 * MIB, 9e9),
        *(stream(what, 512 * MIB, None, why="no such function") for what in AROUND),
        *rereads,
        *(adds(dtype, None, why="no such function") for dtype in MULTIPLIED),
        *(
            Ceiling(what="matmul", unit="FLOP/s", dtype=dtype, value=None if dtype == "int8" else 1e11, why="why not")
            for dtype in DTYPES
        ),
    ]


def figures_of(*args, **named):
    return figures(document(*args, **named))


def test_figures_use_working_sets_of_their_level():
    figure = figures_of(a_machine())
    assert list(figure) == list(UNITS["cpu"])
    assert {name: entry.unit for name, entry in figure.items()} == UNITS["cpu"]
    value = {name: entry.value for name, entry in figure.items()}
    assert value["dram_copy_bandwidth"] == 11e9  # the higher of those beyond four caches
    assert value["dram_read_bandwidth"] == pytest.approx(12e9)  # of the sweep's largest set
    assert value["dram_triad_bandwidth"] == 9e9
    assert value["l1_bandwidth"] == pytest.approx(100e9)
    assert value["l2_bandwidth"] == 70e9  # the copy of 512 KiB; that of 64 KiB is within two L1
    assert value["l3_bandwidth"] == pytest.approx(30e9)
    assert value["peak_float32"] == 1e11
    assert (value["launch_overhead"], value["timer_tick"], value["threads"]) == (1e-6, 2e-8, 1)
    for name, size in CPU.items():
        assert value[f"{name.lower()}_size"] == pytest.approx(size, rel=1.1)
    assert figure["launch_overhead"].spread == 0.02


def test_unmeasured_figure_is_none_with_a_reason():
    machine = [stream("copy", 256 * MIB, None, why="out of memory"), *a_machine()[:2]]
    figure = figures_of([*machine, *a_machine()[-len(MULTIPLIED) - len(DTYPES) :]], caches={"L1": 32 * KIB})
    assert (figure["dram_copy_bandwidth"].value, figure["dram_copy_bandwidth"].why) == (None, "out of memory")
    assert figure["dram_triad_bandwidth"].why == "no set of that size was measured"
    assert figure["l1_bandwidth"].why == "no set of that size was measured"
    assert figure["l3_bandwidth"].why == "no source reports the size of L3"
    assert "no fall" in figure["l2_size"].why
    assert figure["peak_float32"].value == 1e11
    assert figures_of(a_machine()[:2])["peak_float32"].why == "it was not measured"
    assert all(bool(entry.why) for entry in figure.values() if entry.value is None)


@pytest.mark.parametrize(("pace", "copy", "triad"), [(13e9, 13e9, 13e9), (10e9, 11e9, 10e9)])
def test_dram_bandwidth_is_the_faster_of_two_streams(pace, copy, triad):
    machine = [ceiling for ceiling in a_machine() if ceiling.what not in AROUND]
    figure = figures_of([*machine, *(stream(what, 512 * MIB, pace, spread=0.04) for what in AROUND)])
    assert (figure["dram_copy_bandwidth"].value, figure["dram_triad_bandwidth"].value) == (copy, triad)
    assert figure["dram_triad_bandwidth"].spread == 0.04
    assert figure["dram_read_bandwidth"].value == pytest.approx(12e9)
    within = figures_of([*machine, *(stream(what, 64 * MIB, 99e9) for what in AROUND)])
    assert within["dram_copy_bandwidth"].value == 11e9  # a set that is no four times the cache


@pytest.mark.parametrize(("pace", "wanted"), [(3e11, 3e11), (0.5e11, 1e11)])
def test_peak_is_the_faster_of_product_and_multiply_adds(pace, wanted):
    machine = [ceiling for ceiling in a_machine() if ceiling.what != MULTIPLY_ADDS]
    figure = figures_of([*machine, adds("float64", pace / 2), adds("float32", pace, spread=0.04)])
    assert figure["peak_float32"].value == wanted
    assert figure["peak_float64"].value == max(1e11, pace / 2)
    for half in ("float16", "bfloat16"):  # whose numbers a CPU may compute with in float32
        assert figure[f"peak_{half}"].value == wanted
    assert (figure["peak_float32"].spread == 0.04) == (wanted == pace)
    on_gpu = figures_of([*machine, adds("float32", pace)], device="cuda", caches={"L2": 50 * MIB})
    assert on_gpu["peak_float16"].value == 1e11


def test_gpu_figures():
    reread = [
        stream("reread", size, pace)
        for size, pace in planted([50 * MIB], (5e12, 3e12), sizes=[MIB << step for step in range(1, 9)])
    ]
    figure = figures_of(
        [*a_machine()[:2], *reread, *a_machine()[-len(DTYPES) :]], device="cuda", caches={"L2": 50 * MIB}
    )
    assert list(figure) == list(UNITS["cuda"])
    assert figure["l2_bandwidth"].value == pytest.approx(5e12)
    assert figure["dram_read_bandwidth"].value == pytest.approx(3e12)
    assert figure["peak_tf32"].value == 1e11
    assert figure["peak_int8"].value == 2e11  # twice the rate of 16 bits, whatever products of int8 reach


def test_other_format_is_refused():
    with pytest.raises(ValueError, match="format 2: wanted 1"):
        figures({**document([]), "format": 2})


@given(st.integers(8 * KIB, 1 << 31), st.sampled_from([8 * KIB, 2 * MIB]))
def test_sweep_ends_at_four_caches(cache, smallest):
    sizes = sweep_sizes(smallest, cache, None)
    assert sizes[-1] >= 4 * cache or sizes == [smallest]
    assert all(size < 4 * cache for size in sizes[:-1])
    assert sizes[-1] <= max(4 * 2**0.5 * cache, smallest)


@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_planted_caches_are_seen(noise):
    for seed in range(20):
        points = planted(CPU.values(), PACES, noise=noise, seed=seed)
        assert len(levels(points, 4)) == 4
        sizes = sizes_seen(points, "cpu", CPU)
        for name, size in CPU.items():
            assert size / 1.5 <= sizes[name] <= 2.1 * size, (seed, name)


def test_one_disturbed_point_moves_nothing():
    points = planted(CPU.values(), PACES)
    size, pace = points[8]
    disturbed = [*points[:8], (size, pace / 3), *points[9:]]
    assert sizes_seen(disturbed, "cpu", CPU) == sizes_seen(points, "cpu", CPU)


def test_flat_sweep_shows_no_cache():
    for seed in range(20):
        flat = planted((), (50e9,), noise=0.03, seed=seed)
        assert len(levels(flat, 4)) == 1, seed
        assert sizes_seen(flat, "cpu", CPU) == dict.fromkeys(CPU)
    assert levels([], 4) == []
    assert falls([(1 << 13, 1e9)], 4) == []


def test_fall_far_from_reported_sizes_is_ignored():
    lone = planted([8 * MIB], (60e9, 12e9))
    assert sizes_seen(lone, "cpu", {"L1": 32 * KIB, "L2": 256 * KIB, "L3": 256 * MIB}) == dict.fromkeys(CPU)
    near = sizes_seen(lone, "cpu", {"L1": 32 * KIB, "L2": 256 * KIB, "L3": 16 * MIB})
    assert near["L3"] == pytest.approx(8 * MIB, rel=0.5)


def test_unreported_caches_take_falls_in_order():
    full = planted(CPU.values(), PACES)
    assert sizes_seen(full, "cpu", {}) == sizes_seen(full, "cpu", CPU)
    partial = planted([32 * MIB], (60e9, 12e9))
    assert {name for name, size in sizes_seen(partial, "cpu", {}).items() if size} == {"L3"}
    assert sizes_seen(planted([50 * MIB], (5e12, 3e12)), "cuda", {})["L2"] == pytest.approx(50 * MIB, rel=0.5)


@given(st.lists(st.floats(1e8, 1e13), min_size=1, max_size=30), st.integers(1, 4))
def test_levels_cover_the_sweep_and_fall(paces, most):
    points = [(1 << 13 + index, pace) for index, pace in enumerate(paces)]
    stretches = levels(points, most)
    assert 1 <= len(stretches) <= most
    assert (stretches[0].first, stretches[-1].last) == (points[0][0], points[-1][0])
    assert all(inner.last < outer.first for inner, outer in itertools.pairwise(stretches))
    assert all(inner.pace >= FALL * outer.pace for inner, outer in itertools.pairwise(stretches))
    if len(stretches) > 1:
        assert all(sum(stretch.first <= size <= stretch.last for size, _ in points) >= STRETCH for stretch in stretches)
