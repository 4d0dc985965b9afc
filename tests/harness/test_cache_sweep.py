"""The caches that a sweep shows: planted sizes are found, noise shows none, and real rows are read as often as said."""

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.harness import ceilings
from kernel_velocity.harness.cache_sweep import FALL, STRETCH, falls, levels, measured, sizes_seen, sweep_sizes
from kernel_velocity.harness.timers import HostTimer
from tests.kernels.stand_in import properties

KIB, MIB = 1 << 10, 1 << 20
CPU = {"L1": 32 * KIB, "L2": 1 * MIB, "L3": 32 * MIB}
SIZES = sweep_sizes(8 * KIB, 32 * MIB, None)


def planted(caches, paces, *, noise=0.0, seed=0, sizes=SIZES):
    """Return the sweep of a machine: in cache k the pace is paces[k]; beyond, misses grow until twice its size."""
    rng = random.Random(seed)
    points = []
    for size in sizes:
        seconds = 1 / paces[0]
        for cache, (inner, outer) in zip(caches, itertools.pairwise(paces), strict=True):
            missing = min(max(size / cache - 1, 0), 1)
            seconds += missing * (1 / outer - 1 / inner)
        points.append((size, rng.gauss(1, noise) / seconds))
    return points


def test_the_sweep_has_two_sizes_per_doubling_to_four_caches():
    assert (SIZES[0], SIZES[-1]) == (8 * KIB, 128 * MIB)
    assert len(SIZES) == 2 * 14 + 1
    assert SIZES[2::2] == [2 * size for size in SIZES[:-2:2]]
    assert all(size % 256 == 0 for size in SIZES)


def test_the_sweep_stays_within_a_part_of_the_memory():
    assert sweep_sizes(8 * KIB, 32 * MIB, 64 * MIB)[-1] == 8 * MIB
    assert sweep_sizes(8 * KIB, None, None)[-1] == 256 * MIB
    assert sweep_sizes(8 * KIB, 32 * MIB, 0) == [8 * KIB]


@given(st.integers(8 * KIB, 1 << 31), st.sampled_from([8 * KIB, 2 * MIB]))
def test_the_sweep_ends_at_four_caches_or_right_above(cache, smallest):
    sizes = sweep_sizes(smallest, cache, None)
    assert sizes[-1] >= 4 * cache or sizes == [smallest]
    assert all(size < 4 * cache for size in sizes[:-1])
    assert sizes[-1] <= max(4 * 2**0.5 * cache, smallest)


@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_planted_caches_are_seen(noise):
    for seed in range(20):
        points = planted(CPU.values(), (100e9, 60e9, 30e9, 12e9), noise=noise, seed=seed)
        assert len(levels(points, 4)) == 4
        found = sizes_seen(points, "cpu", CPU)
        for name, size in CPU.items():
            assert size / 1.5 <= found[name] <= 2.1 * size, (seed, name)


def test_one_disturbed_point_moves_nothing():
    points = planted(CPU.values(), (100e9, 60e9, 30e9, 12e9))
    size, pace = points[8]
    disturbed = [*points[:8], (size, pace / 3), *points[9:]]
    assert sizes_seen(disturbed, "cpu", CPU) == sizes_seen(points, "cpu", CPU)


def test_a_machine_without_falls_shows_no_cache():
    for seed in range(20):
        flat = planted((), (50e9,), noise=0.03, seed=seed)
        assert len(levels(flat, 4)) == 1, seed
        assert sizes_seen(flat, "cpu", CPU) == dict.fromkeys(CPU)
    assert levels([], 4) == []
    assert falls([(1 << 13, 1e9)], 4) == []


def test_a_fall_that_is_small_is_none():
    inner, outer = 30e9, 30e9 / (FALL - 0.02)
    assert falls(planted([MIB], (inner, outer)), 4) == []
    assert len(falls(planted([MIB], (inner, inner / (FALL + 0.1))), 4)) == 1


def test_a_cache_as_fast_as_the_next_does_not_show():
    found = sizes_seen(planted([32 * KIB, 32 * MIB], (100e9, 50e9, 12e9)), "cpu", CPU)
    assert found["L2"] is None
    assert found["L1"] and found["L3"]


def test_a_fall_far_from_any_reported_size_is_nobodys():
    lone = planted([8 * MIB], (60e9, 12e9))
    assert sizes_seen(lone, "cpu", {"L1": 32 * KIB, "L2": 256 * KIB, "L3": 256 * MIB}) == dict.fromkeys(CPU)
    near = sizes_seen(lone, "cpu", {"L1": 32 * KIB, "L2": 256 * KIB, "L3": 16 * MIB})
    assert near["L3"] == pytest.approx(8 * MIB, rel=0.5)


def test_without_reported_sizes_falls_are_taken_in_order():
    full = planted(CPU.values(), (100e9, 60e9, 30e9, 12e9))
    assert sizes_seen(full, "cpu", {}) == sizes_seen(full, "cpu", CPU)
    partial = planted([32 * MIB], (60e9, 12e9))
    assert {name for name, size in sizes_seen(partial, "cpu", {}).items() if size} == {"L3"}
    assert sizes_seen(planted([50 * MIB], (5e12, 3e12)), "cuda", {})["L2"] == pytest.approx(50 * MIB, rel=0.5)


@properties
@given(st.lists(st.floats(1e8, 1e13), min_size=1, max_size=30), st.integers(1, 4))
def test_levels_cover_the_sweep_and_fall(paces, most):
    points = [(1 << 13 + place, pace) for place, pace in enumerate(paces)]
    found = levels(points, most)
    assert 1 <= len(found) <= most
    assert (found[0].first, found[-1].last) == (points[0][0], points[-1][0])
    assert all(inner.last < outer.first for inner, outer in itertools.pairwise(found))
    assert all(inner.pace >= FALL * outer.pace for inner, outer in itertools.pairwise(found))
    if len(found) > 1:
        assert all(sum(one.first <= size <= one.last for size, _ in points) >= STRETCH for one in found)


def test_a_call_reads_its_set_again_and_again():
    torch = pytest.importorskip("torch", reason="sets are read by torch")
    pytest.importorskip("torch.profiler", reason="a whole PyTorch is wanted, not a part that stands in for it")
    from kernel_velocity.harness.workloads import reread

    calls = reread("cpu", 4096, 10_000)
    call, moved = calls(1024)
    sums = call()
    assert moved == 9 * 1024
    assert sums.shape == (9,)
    assert torch.all(sums == sums[0]) and sums[0] != 0
    assert calls(4096)[1] == 2 * 4096
    assert reread("cpu", 4096, 16)(4096)[1] == 4096  # the whole set, at least once


def test_a_real_sweep_has_a_pace_for_every_size(monkeypatch):
    pytest.importorskip("torch", reason="sets are read by torch")
    pytest.importorskip("torch.profiler", reason="a whole PyTorch is wanted, not a part that stands in for it")
    monkeypatch.setattr(ceilings, "SECONDS", 0.001)
    for name in ("WARM_UP", "WARM_UP_MOST"):
        monkeypatch.setattr(f"kernel_velocity.harness.sampling.{name}", 0.001)
    for name, answer in (("cache_size", 1 << 16), ("free_memory", 1 << 30)):
        monkeypatch.setattr(f"kernel_velocity.harness.cache_sweep.{name}", lambda device, answer=answer: answer)
    found = list(measured("cpu", HostTimer))
    assert [each.bytes for each in found] == sweep_sizes(1 << 13, 1 << 16, 1 << 30)
    assert all(each.value and each.value > 1e8 for each in found)
    assert {each.what for each in found} == {"reread"}
