"""Figures of a machine: which measurement each is taken from, and why one is missing."""

from dataclasses import asdict

import pytest

from kernel_velocity.harness.ceilings import DTYPES, Ceiling, warnings
from kernel_velocity.harness.device_figures import UNITS, doubts, figures, largest_cache
from kernel_velocity.harness.workloads import AROUND, MULTIPLIED, MULTIPLY_ADDS
from tests.harness.test_cache_sweep import CPU, KIB, MIB, planted

PACES = (100e9, 60e9, 30e9, 12e9)


def stream(what, size, value, **more):
    return Ceiling(what=what, unit="B/s", bytes=size, value=value, **more)


def adds(dtype, value, **more):
    return Ceiling(what=MULTIPLY_ADDS, unit="FLOP/s", dtype=dtype, value=value, **more)


def document(ceilings, device="cpu", caches=CPU):
    return {
        "format": 1,
        "device": device,
        "name": "Some device",
        "ceilings": [asdict(each) for each in ceilings],
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


def found(*args, **named):
    return {figure.name: figure for figure in figures(document(*args, **named))}


def test_every_figure_is_taken_from_the_sets_that_it_is_about():
    figure = found(a_machine())
    assert list(figure) == list(UNITS["cpu"])
    assert {name: each.unit for name, each in figure.items()} == UNITS["cpu"]
    value = {name: each.value for name, each in figure.items()}
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


def test_what_could_not_be_measured_is_none_and_says_why():
    machine = [stream("copy", 256 * MIB, None, why="out of memory"), *a_machine()[:2]]
    figure = found([*machine, *a_machine()[-len(MULTIPLIED) - len(DTYPES) :]], caches={"L1": 32 * KIB})
    assert (figure["dram_copy_bandwidth"].value, figure["dram_copy_bandwidth"].why) == (None, "out of memory")
    assert figure["dram_triad_bandwidth"].why == "no set of that size was measured"
    assert figure["l1_bandwidth"].why == "no set of that size was measured"
    assert figure["l3_bandwidth"].why == "nobody says how large L3 is"
    assert "no fall" in figure["l2_size"].why
    assert figure["peak_float32"].value == 1e11
    assert found(a_machine()[:2])["peak_float32"].why == "it was not measured"
    assert all(bool(each.why) for each in figure.values() if each.value is None)


@pytest.mark.parametrize(("pace", "copy", "triad"), [(13e9, 13e9, 13e9), (10e9, 11e9, 10e9)])
def test_the_faster_of_torch_and_of_what_writes_around_the_caches_counts(pace, copy, triad):
    machine = [each for each in a_machine() if each.what not in AROUND]
    figure = found([*machine, *(stream(what, 512 * MIB, pace, spread=0.04) for what in AROUND)])
    assert (figure["dram_copy_bandwidth"].value, figure["dram_triad_bandwidth"].value) == (copy, triad)
    assert figure["dram_triad_bandwidth"].spread == 0.04
    assert figure["dram_read_bandwidth"].value == pytest.approx(12e9)
    within = found([*machine, *(stream(what, 64 * MIB, 99e9) for what in AROUND)])
    assert within["dram_copy_bandwidth"].value == 11e9  # a set that is no four times the cache


def test_before_streams_around_the_caches_were_measured_copies_said_less_than_the_machine_can():
    figure = found([each for each in a_machine() if each.what not in AROUND])
    for name in ("dram_copy_bandwidth", "dram_triad_bandwidth"):
        assert (figure[name].value, figure[name].why) == (None, "measured before streams around the caches were")
    assert figure["dram_read_bandwidth"].value == pytest.approx(12e9)


@pytest.mark.parametrize(("pace", "wanted"), [(3e11, 3e11), (0.5e11, 1e11)])
def test_the_faster_of_a_product_and_of_multiply_adds_is_the_peak(pace, wanted):
    machine = [each for each in a_machine() if each.what != MULTIPLY_ADDS]
    figure = found([*machine, adds("float64", pace / 2), adds("float32", pace, spread=0.04)])
    assert figure["peak_float32"].value == wanted
    assert figure["peak_float64"].value == max(1e11, pace / 2)
    for half in ("float16", "bfloat16"):  # whose numbers a CPU may compute with in float32
        assert figure[f"peak_{half}"].value == wanted
    assert (figure["peak_float32"].spread == 0.04) == (wanted == pace)
    on_gpu = found([*machine, adds("float32", pace)], device="cuda", caches={"L2": 50 * MIB})
    assert on_gpu["peak_float16"].value == 1e11


def test_before_multiply_adds_were_measured_products_said_less_than_the_machine_can():
    machine = [each for each in a_machine() if each.what != MULTIPLY_ADDS]
    for each in found(machine).values():
        if each.name.startswith("peak_"):
            assert (each.value, each.why) == (None, "measured before multiply-adds in registers were")
    on_gpu = found(machine, device="cuda", caches={"L2": 50 * MIB})
    assert on_gpu["peak_float32"].value == 1e11


def test_a_gpu_has_other_figures():
    reread = [
        stream("reread", size, pace)
        for size, pace in planted([50 * MIB], (5e12, 3e12), sizes=[MIB << step for step in range(1, 9)])
    ]
    figure = found([*a_machine()[:2], *reread, *a_machine()[-len(DTYPES) :]], device="cuda", caches={"L2": 50 * MIB})
    assert list(figure) == list(UNITS["cuda"])
    assert figure["l2_bandwidth"].value == pytest.approx(5e12)
    assert figure["dram_read_bandwidth"].value == pytest.approx(3e12)
    assert figure["peak_tf32"].value == 1e11
    assert (figure["peak_int8"].value, figure["peak_int8"].why) == (None, "why not")


def test_the_larger_size_of_the_last_cache_counts():
    assert largest_cache({"L2": 1, "L3": 5}, {"L3": 7}) == 7
    assert largest_cache({"L2": 1, "L3": 9}, {"L3": 7}) == 9
    assert largest_cache({"L2": 1, "L3": None}, {"L2": 7}) is None


def test_samples_that_spread_are_one_warning():
    wide = [stream("copy", size, 1e9, spread=0.2) for size in (1 << 20, 1 << 21)]
    given = document([*wide, stream("read", 1 << 21, 1e9, spread=0.01, flags=("underfed",))])
    given["warnings"] = [*warnings(wide), "read (2097152 bytes): underfed", "no copy of 4 times the cache"]
    assert doubts(given) == (
        "read (2097152 bytes): underfed",
        "no copy of 4 times the cache",
        "the samples of 2 of 3 measurements spread by more than 5%: a busy machine",
    )
    assert doubts(document([])) == ()


def test_another_format_is_refused():
    with pytest.raises(ValueError, match="format 2: wanted 1"):
        figures({**document([]), "format": 2})
