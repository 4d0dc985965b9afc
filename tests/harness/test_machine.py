"""What the host did to a round."""

import mmap

import pytest

from kernel_velocity.harness.machine import HostCounters, activity, page_faults, read_counters


@pytest.mark.parametrize(
    ("switches", "steal", "contended"),
    [(0, 0.0, False), (1, 0.0, False), (11, 0.0, True), (0, 0.5, True), (0, None, False)],
)
def test_contention_of_one_second(switches, steal, contended):
    before = HostCounters(5, 100.0)
    after = HostCounters(5 + switches, None if steal is None else 100.0 + steal)
    found = activity(before, after, 1.0)
    assert (found.switches, found.steal, found.contended) == (switches, steal, contended)


def test_counters_only_grow():
    before, faults = read_counters(), page_faults()
    with mmap.mmap(-1, 8 << 20) as fresh:  # an allocator might hand out pages that were touched before
        fresh[:: 1 << 12] = b"x" * len(range(0, 8 << 20, 1 << 12))
    after = read_counters()
    assert after.switches >= before.switches
    assert page_faults() > faults
