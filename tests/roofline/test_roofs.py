"""Roofs from sessions: the upper quartile of the last ten, the roof of each figure, and the roofs of a commit."""

import pytest

from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.roofline.roofs import SESSIONS, CeilingSession, choose, roof, roofs, threads

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


def test_roof_is_the_upper_quartile_of_the_last_ten():
    many = [session(peak_float32=float(rate)) for rate in (99, 98, 97, 96, *range(1, 11))]
    assert roof(many, "peak_float32") == pytest.approx(7.75)  # of 1 to 10; those above are too old
    assert len(many) > SESSIONS
    assert roof(many[:1], "peak_float32") == 99


def test_levels_have_measured_else_reported_sizes():
    result = roofs([session()], "cpu")
    assert [(level.name, level.size, level.bandwidth) for level in result.levels] == [
        ("L1", 32 * KIB, 100e9),
        ("L2", 1 * MIB, 60e9),
        ("L3", 16 * MIB, 30e9),
        ("DRAM", None, 12e9),
    ]
    assert result.peaks["float32"] == 1e11
    assert result.peaks["float16"] is None
    assert roofs([], "cpu") is None


def test_inner_level_is_at_least_as_fast_as_outer():
    result = roofs([session(l2_bandwidth=5e9, l1_bandwidth=None)], "cpu")
    assert [level.bandwidth for level in result.levels] == [None, 30e9, 30e9, 12e9]


def test_absent_cache_has_no_level():
    bare = CeilingSession(
        began=0.0, figures=FIGURES | {"l3_bandwidth": None, "l3_size": None}, reported={"L1": 1, "L2": 2}
    )
    assert [level.name for level in roofs([bare], "cpu").levels] == ["L1", "L2", "DRAM"]


def by_threads(began, peak, count=None):
    return CeilingSession(began=began, figures={"peak_float32": peak, "threads": count}, reported={})


BOTH = (by_threads(1.0, 1e9, 1.0), by_threads(2.0, 8e9, 8.0))
THREADS_OF = {"one": 1, "eight": 8, "last": 1}


def peak(choice):
    return choice.roofs.peaks["float32"]


def test_roofs_of_a_commit_are_of_its_threads():
    assert [peak(choose(BOTH, "cpu", THREADS_OF, sha)) for sha in THREADS_OF] == [1e9, 8e9, 1e9]
    assert choose(BOTH, "cpu", THREADS_OF, "one").roofs.warnings == ()
    of_any = by_threads(1.0, 5e9)  # without a number of threads, it belongs to any
    assert peak(choose((of_any,), "cpu", THREADS_OF, "one")) == 5e9


def test_roofs_of_all_commits_are_of_the_newest_threads():
    result = choose(BOTH, "cpu", THREADS_OF).roofs
    assert result.peaks["float32"] == 1e9
    doubt = "commits were measured with 1 and 8 threads; the roofs drawn are of 1, and apply to no others"
    assert result.warnings == (doubt,)
    assert [choose(BOTH, "cpu", THREADS_OF, sha).apart for sha in (None, "one", "eight")] == [
        {"eight"},
        {"eight"},
        {"one", "last"},
    ]
    assert choose(BOTH, "cpu", {"one": 1}).roofs.warnings == ()


def test_no_roofs_for_an_unknown_number_of_threads():
    result = choose(BOTH, "cpu", THREADS_OF, "unknown")
    assert result.roofs is None and "of 1 and 8 threads, and the commit's number of threads" in result.lacking
    assert choose(BOTH, "cpu", {}).roofs is None
    assert peak(choose(BOTH[:1], "cpu", {})) == 1e9  # one number of threads is everybody's
    assert peak(choose((by_threads(1.0, 5e9), BOTH[1]), "cpu", {})) == pytest.approx(7.25e9)


@pytest.mark.parametrize(
    ("ceilings", "lacking"),
    [
        ((), "no ceilings of this machine's Cpu are recorded"),
        (BOTH[1:], "no ceilings of this machine's Cpu with 1 thread "),
    ],
)
def test_no_roofs_without_ceilings_of_the_threads(ceilings, lacking):
    result = choose(ceilings, "cpu", THREADS_OF, "one")
    assert result.roofs is None and result.lacking.startswith(lacking)


def test_roofs_of_a_gpu_ignore_threads():
    assert peak(choose(BOTH, "cuda", {}, "x")) == 8e9


@pytest.mark.parametrize("text", ["", "many", "9" * 5000, "-1"])
def test_malformed_number_of_threads_is_unknown(text):
    sessions = [("a", {"threads": "2"}), ("b", {"threads": text}), ("c", {}), ("a", {"threads": "4"})]
    assert threads((sha, SessionFacts(began=0.0, facts=facts)) for sha, facts in sessions) == {"a": 4}
