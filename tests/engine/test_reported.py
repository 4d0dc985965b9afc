"""What the operating system knows of cores and caches, from a made-up sysfs, and what the host did to a round."""

import mmap
import os

import pytest

from kernel_velocity.engine import reported
from kernel_velocity.engine.reported import HostActivity, HostCounters, activity, page_faults, read_counters

MIB = 1 << 20
USUAL = (("1", "Data", "48K", "{cpu}"), ("1", "Instruction", "32K", "{cpu}"), ("2", "Unified", "2048K", "{cpu}"))


@pytest.fixture
def sysfs(tmp_path, monkeypatch):
    """Return a function that plants the caches of cores: level, type, size, and the cores that share it."""

    def plant(allowed, **shared):
        """Plant cores with first and second levels of their own and, by name (cpu0="0-3"), a shared third."""
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(allowed), raising=False)
        for cpu, cores in shared.items():
            caches(tmp_path / cpu / "cache", [*USUAL, ("3", "Unified", "32M", cores)])
        return tmp_path

    return plant


def caches(folder, described):
    for number, description in enumerate(described):
        index = folder / f"index{number}"
        index.mkdir(parents=True)
        for file, text in zip(("level", "type", "size", "shared_cpu_list"), description, strict=True):
            (index / file).write_text(text + "\n")


@pytest.mark.parametrize(
    ("allowed", "shared", "neighbours"),
    [
        ({0, 1, 2, 3}, "0-3", [0, 1, 2, 3]),
        ({0, 1, 2, 3, 8}, "0-1,8", [0, 1, 8]),
        ({0, 3, 9, 10}, "0-3,8,10-11", [0, 3, 10]),
        ({0, 5}, "0", [0]),
    ],
)
def test_neighbours_share_the_last_cache(sysfs, allowed, shared, neighbours):
    assert reported.neighbours(sysfs(allowed, cpu0=shared)) == neighbours


def test_neighbours_are_of_the_first_allowed_core(sysfs):
    cpus = sysfs({6, 7, 4, 2}, cpu0="0-3", cpu2="0-3", cpu4="4-7")
    assert reported.neighbours(cpus) == [2]
    cpus = sysfs({6, 7, 4})
    assert reported.neighbours(cpus) == [4, 6, 7]


def test_unknown_neighbours(sysfs, monkeypatch):
    assert reported.neighbours(sysfs({5}, cpu0="0-3")) == []
    cpus = sysfs({0})
    assert reported.neighbours(cpus) == [0]
    monkeypatch.delattr(os, "sched_getaffinity")
    assert reported.neighbours(cpus) == []


def test_instruction_cache_is_no_last_level(sysfs, tmp_path):
    cpus = sysfs({0, 1})
    caches(cpus / "cpu0" / "cache", [("2", "Unified", "1M", "0-1"), ("3", "Instruction", "8M", "0")])
    assert reported.neighbours(cpus) == [0, 1]


@pytest.mark.parametrize(
    ("described", "private", "last"),
    [
        ([*USUAL, ("3", "Unified", "36M", "0-3")], 2 * MIB, 36 * MIB),
        ([("3", "Unified", "36M", "0-3"), *USUAL, ("3", "Instruction", "512M", "0")], 2 * MIB, 36 * MIB),
        (USUAL, 48 << 10, 2 * MIB),
        ([("2", "Unified", "64M", "0"), ("3", "Unified", "32M", "0-3"), ("1", "Data", "64K", "0")], 64 * MIB, 32 * MIB),
        ([*USUAL[1:2], ("2", "Unified", "1M", "0-3")], None, MIB),  # all of its data caches are shared
        ([], None, None),
    ],
)
def test_private_cache_is_below_the_last_level(tmp_path, described, private, last):
    caches(tmp_path, described)
    assert (reported.private_cache(tmp_path), reported.last_level_cache(tmp_path)) == (private, last)


def test_threads_setting(monkeypatch):
    monkeypatch.setenv("KV_THREADS", "3")
    assert reported.threads() == 3
    assert reported.threads({"KV_THREADS": "2"}) == 2
    assert reported.threads({"KV_THREADS": ""}) == reported.threads({}) == 1


@pytest.mark.parametrize("text", ["", "all", None])
def test_masked_list_of_neighbours_is_empty(sysfs, text):
    cpus = sysfs({0, 1}, cpu0="0-1")
    (path,) = (result for result in cpus.rglob("shared_cpu_list") if "0-1" in result.read_text())
    path.unlink() if text is None else path.write_text(text)
    assert reported.neighbours(cpus) == []


@pytest.mark.parametrize(
    ("switches", "steal", "contended"),
    [(0, 0.0, False), (1, 0.0, False), (11, 0.0, True), (0, 0.5, True), (0, None, False)],
)
def test_contention_of_one_second(switches, steal, contended):
    before = HostCounters(5, 100.0, processor=7.0, threads={"1": 6.0, "2": 1.0}, read=7.0)
    after = HostCounters(
        5 + switches,
        None if steal is None else 100.0 + steal,
        processor=9.0,
        threads={"1": 6.9, "2": 1.05, "3": 0.9},
        read=9.1,
    )
    result = activity(before, after, 1.0)
    assert (result.switches, result.steal, result.contended) == (switches, steal, contended)
    assert result.ran == pytest.approx((0.9, 0.9, 0.15, 0.05))  # .15 of those that have ended
    assert [result.crowds(threads) for threads in (1, 2)] == [True, False]


def test_time_of_reading_the_counters_is_no_threads():
    before = HostCounters(0, None, processor=7.0, threads={"1": 7.2}, read=7.2)
    after = HostCounters(0, None, processor=8.2, threads={"1": 8.4}, read=8.4)
    assert activity(before, after, 1.0).ran == pytest.approx((1.2, 0.0))


@pytest.mark.parametrize(
    ("ran", "crowds"),
    [
        ((1.0,), False),
        ((1.0, 0.02, 0.02), False),  # they look after others
        ((1.0,) * 30, True),
        ((3.0, *[0.12] * 7), True),  # the first waits actively, on a busy machine
    ],
)
def test_call_on_one_thread_is_crowded_by_all_others_together(ran, crowds):
    assert HostActivity(0, None, None, contended=False, ran=ran).crowds(1) is crowds


def test_counters_only_grow():
    before, faults = read_counters(), page_faults()
    with mmap.mmap(-1, 8 << 20) as fresh:  # an allocator might hand out pages that were touched before
        fresh[:: 1 << 12] = b"x" * len(range(0, 8 << 20, 1 << 12))
    after = read_counters()
    assert after.switches >= before.switches
    assert page_faults() > faults
