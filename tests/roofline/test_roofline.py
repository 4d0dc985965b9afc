"""The roofline: cases by hand, properties of the model, warnings, and rounding that cannot mislead."""

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.roofline.model import (
    BEYOND,
    IMPOSSIBLE,
    MemoryLevel,
    Roofs,
    is_beyond,
    label,
    memory_of,
    percent,
    remarks,
    roofline,
)

KIB, MIB = 1 << 10, 1 << 20
LEVELS = (
    MemoryLevel(name="L1", size=32 * KIB, bandwidth=100e9),
    MemoryLevel(name="L2", size=1 * MIB, bandwidth=60e9),
    MemoryLevel(name="L3", size=32 * MIB, bandwidth=40e9),
    MemoryLevel(name="DRAM", size=None, bandwidth=20e9),
)
ROOFS = Roofs(levels=LEVELS, peaks={"float32": 100e9, "float64": None})
HUGE = BEYOND * 32 * MIB + 1  # bytes: beyond four last-level caches

AMOUNTS = st.floats(1.0, 1e13)
SECONDS = st.floats(1e-9, 1e3)
RATES = st.one_of(st.none(), st.floats(1e6, 1e15))


@st.composite
def any_roofs(draw):
    sizes = sorted(draw(st.lists(st.integers(1 << 10, 1 << 30), min_size=0, max_size=3, unique=True)))
    present = [draw(st.booleans()) for _ in sizes]
    caches = [
        MemoryLevel(name=f"L{number}", size=size if sure else None, bandwidth=draw(RATES))
        for number, (size, sure) in enumerate(zip(sizes, present, strict=True), start=1)
    ]
    return Roofs(
        levels=(*caches, MemoryLevel(name="DRAM", size=None, bandwidth=draw(RATES))), peaks={"float32": draw(RATES)}
    )


def line(flops, moved, seconds, roofs=ROOFS, *, dtype="float32", working_set=None):
    return roofline(flops=flops, bytes=moved, seconds=seconds, roofs=roofs, dtype=dtype, working_set=working_set)


def test_no_roofline_without_bytes_or_roofs():
    bare = Roofs(levels=(MemoryLevel(name="DRAM", size=None, bandwidth=None),), peaks={})
    assert line(1e9, None, 1.0) is None
    assert line(1e9, 0, 1.0) is None
    assert line(1e9, 1e9, 1.0, bare) is None
    unknown = Roofs(levels=(MemoryLevel(name="L2", size=MIB, bandwidth=None), LEVELS[-1]), peaks={})
    assert line(1e9, MIB, 1.0, unknown) is None  # all of it lies in a cache of unknown bandwidth
    assert line(1e9, 1e9, 1.0, Roofs(levels=(), peaks={})) is None
    only_peak = dataclasses.replace(bare, peaks={"float32": 1e9})
    assert line(0, 1e9, 1.0, only_peak) is None


def test_single_roof_is_a_warning():
    blind = Roofs(levels=(*LEVELS[:-1], MemoryLevel(name="DRAM", size=None, bandwidth=None)), peaks=ROOFS.peaks)
    result = line(1e11, 1e9, 1.0, blind)
    assert (result.bound, result.ridge, result.cache_benefit) == ("compute", None, 1)
    assert result.attainable == pytest.approx(100e9)
    assert result.warnings == ("DRAM's bandwidth is not known: it is no roof here",)
    for dtype in ("float64", "int8"):  # measured in vain, and never asked for
        result = line(1e9, 1e9, 1.0, dtype=dtype)
        assert (result.bound, result.ridge) == ("memory", None)
        assert result.warnings == (f"the peak in {dtype} is not known: it is no roof here",)


def test_bound_at_the_ridge_is_compute():
    result = line(5e9, 1e9, 1.0, working_set=math.inf)
    assert result.intensity == result.ridge
    assert result.bound == "compute"
    assert line(4.999e9, 1e9, 1.0, working_set=math.inf).bound == "memory"


@pytest.mark.parametrize(
    ("moved", "ratio", "impossible"),
    [(HUGE, 1.051, True), (HUGE, 1.049, False), (HUGE - 1, 1.051, False), (HUGE, 0.9, False)],
)
def test_above_the_roof_beyond_caches_is_impossible(moved, ratio, impossible):
    result = line(1.0, moved, (moved - 32 * MIB) / 20e9 / ratio)
    assert result.of_limit == pytest.approx(ratio)
    assert result.impossible is impossible
    text = " ".join(result.warnings)
    assert ("impossible" in text) is impossible
    if impossible:
        assert all(word in text for word in ("ceilings", "busy", "FLOPs and bytes of the Problem", "cold"))


def test_above_the_peak_in_a_cache_is_a_warning():
    result = line(200e9 * 1e-3, 100e9 * 1e-3, 1e-3, working_set=MIB)
    assert (result.bound, result.impossible) == ("compute", False)
    assert any("2.00 times the peak, which no cache explains" in warning for warning in result.warnings)


def test_unexplained_ratio_is_a_warning():
    result = line(1e9, 1e6, 5e-3)
    assert result.of_limit == pytest.approx(2)
    assert not result.impossible
    assert "no cache explains" in result.warnings[0]
    unknown = Roofs(levels=LEVELS[-1:], peaks=ROOFS.peaks)
    assert "sizes of the caches are not known" in line(1.0, 1e9, 1e-3, unknown).warnings[0]


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_malformed_time_is_refused(seconds):
    with pytest.raises(ValueError, match="wanted a positive, finite time"):
        line(1.0, 1.0, seconds)


@pytest.mark.parametrize(("flops", "moved"), [(-1.0, 1.0), (1.0, -1.0), (math.nan, 1.0), (1.0, math.inf)])
def test_malformed_amounts_are_refused(flops, moved):
    with pytest.raises(ValueError, match="wanted a number >= 0"):
        line(flops, moved, 1.0)


@given(any_roofs(), AMOUNTS, AMOUNTS, SECONDS)
def test_model_properties(roofs, flops, moved, seconds):
    result = line(flops, moved, seconds, roofs)
    dram, peak = roofs.levels[-1].bandwidth, roofs.peaks["float32"]
    if result is None:
        assert peak is None and (dram is None or memory_of(moved, roofs) != "DRAM")
        return
    assert result.attainable <= (peak or math.inf) * (1 + 1e-9)
    assert math.isclose(result.achieved / result.attainable, result.of_limit, rel_tol=1e-9)
    assert result.cache_benefit == (1.0 if dram is None else max(1.0, moved / dram / seconds))
    assert result.label == label(result.of_limit)
    assert math.isclose(result.bandwidth * result.intensity, result.achieved, rel_tol=1e-9)
    assert (result.ridge is None) == (dram is None or peak is None)
    assert result.bound == ("compute" if result.limit == "float32 peak" else "memory")
    assert result.impossible == (result.of_limit > IMPOSSIBLE and is_beyond(moved, roofs) is True)
    assert result.level == memory_of(moved, roofs)
    assert (result.of_limit <= IMPOSSIBLE) <= (not any("times" in warning for warning in result.warnings))
    assert bool(remarks(result)) >= (result.of_limit > 1)


@given(any_roofs(), AMOUNTS, st.floats(1.001, 1e3))
def test_limit_has_no_jump_where_a_set_outgrows_a_cache(roofs, flops, more):
    """A larger set never has a lower limit in time, and a set one byte larger than a cache hardly a higher one."""
    slowest = min((level.bandwidth for level in roofs.levels if level.bandwidth), default=math.inf)
    for size in (level.size for level in roofs.levels if level.size):
        inside, outside, far = (line(flops, size * factor, 1.0, roofs) for factor in (1, 1 + 1e-9, more))
        if inside is not None:
            byte = 1e-9 * size / slowest  # s that what the set has more takes
            assert outside.of_limit == pytest.approx(inside.of_limit, rel=1e-6, abs=1e-9 + 2 * byte)
            assert far.of_limit >= inside.of_limit * (1 - 1e-9)


def test_level_of_a_working_set_with_unknown_sizes():
    assert memory_of(1, Roofs(levels=LEVELS[-1:], peaks={})) is None
    assert memory_of(1, Roofs(levels=(), peaks={})) is None
    vague = Roofs(levels=(MemoryLevel(name="L2", size=None, bandwidth=1.0), LEVELS[-1]), peaks={})
    assert memory_of(1, vague) is None
    holes = Roofs(levels=(LEVELS[0], MemoryLevel(name="L2", size=None, bandwidth=1.0), *LEVELS[2:]), peaks={})
    assert [memory_of(size, holes) for size in (1, MIB, 64 * MIB)] == ["L1", "L3", "DRAM"]
    assert is_beyond(HUGE, vague) is None


@pytest.mark.parametrize(
    ("ratio", "word", "text"),
    [
        (2.0, "100%", "200.0%"),
        (1.0, "100%", "100.0%"),
        (math.nextafter(1, 0), "excellent", "99.9%"),
        (0.9996, "excellent", "99.9%"),
        (0.99949, "excellent", "99.9%"),
        (0.9, "excellent", "90.0%"),
        (math.nextafter(0.9, 0), "room", "89.9%"),
        (0.8996, "room", "89.9%"),
        (0.57, "room", "57.0%"),
        (1e-9, "room", "<0.1%"),
        (0.0, "room", "0.0%"),
    ],
)
def test_label_and_percent(ratio, word, text):
    assert label(ratio) == word
    assert percent(ratio) == text


GPU = (MemoryLevel(name="L2", size=50 * MIB, bandwidth=6e12), MemoryLevel(name="DRAM", size=None, bandwidth=3e12))
TF32 = Roofs(levels=GPU, peaks={"float32": 50e12, "tf32": 400e12})


def product_at(rate, dtype="float32", roofs=TF32):
    """Return the roofline of a large product of matrices at a rate, FLOP/s."""
    n = 8192
    return roofline(flops=2 * n**3, bytes=12 * n**2, seconds=2 * n**3 / rate, roofs=roofs, dtype=dtype)


def test_float32_within_the_tf32_peak_is_a_warning():
    result = product_at(200e12)
    assert (result.impossible, result.dtype, result.of_limit) == (False, "float32", 4.0)
    assert result.warnings == (
        "4.00 times the peak in float32, 0.50 of that in TF32; it seems to multiply in TF32: its errors are about 1e-3",
    )


def test_float32_beyond_the_tf32_peak_is_impossible():
    result = product_at(500e12)
    assert result.impossible and result.warnings[0].startswith("impossible: 10.00 times the roof")


def test_tf32_has_its_own_roof():
    result = product_at(200e12, "tf32")
    assert (result.dtype, result.of_limit, result.warnings) == ("tf32", 0.5, ())
    assert product_at(52e12).warnings == ()  # within the error of measuring a ceiling
