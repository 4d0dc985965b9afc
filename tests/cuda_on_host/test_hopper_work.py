"""How Hopper's matmul shares a product out: every pass of every tile once, and nobody waits for ever."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

EXTENT = st.integers(64, 6000)


@pytest.fixture(scope="module")
def jobs_of_product(on_host):
    return on_host.library(Path(__file__).with_name("hopper_work.cu"))._native.jobs_of_product


def plan_of(jobs_of_product, *arguments: int) -> tuple[list[int], np.ndarray]:
    """Return passes, pairs, whole pairs, shares and clusters of a plan, and its jobs."""
    room = np.empty(1 << 20, np.intc)
    sizes = [ctypes.c_int64(value) for value in arguments[2:5]]
    count = jobs_of_product(*arguments[:2], *sizes, arguments[5], ctypes.c_void_p(room.ctypes.data), room.size)
    assert count <= room.size
    return room[:5].tolist(), room[5:count].reshape(-1, 5)


@settings(deadline=None, max_examples=150)
@given(
    st.sampled_from([1, 2]),
    st.sampled_from([128, 192, 256]),
    st.tuples(EXTENT, EXTENT, st.integers(8, 3000)),
    st.sampled_from([2, 3, 7, 78, 114, 132, 144]) | st.integers(2, 160),
)
def test_every_pass_once_and_no_circle_of_waits(jobs_of_product, size, wide, shape, processors):
    m, n, chunks = shape  # of k: of 16 bytes
    (passes, pairs, whole, shares, clusters), jobs = plan_of(
        jobs_of_product, size, wide, m, n, 16 // size * chunks, processors
    )
    assert clusters * 2 <= processors
    assert pairs == -(-m // (256 if size == 2 else wide)) * -(-n // (wide if size == 2 else 256))
    counts = np.zeros((pairs, passes), int)
    for _, pair, first, count, _ in jobs:
        assert count > 0
        counts[pair, first : first + count] += 1
    assert np.all(counts == 1)

    in_shares = jobs[jobs[:, 4] >= 0]
    assert np.all(jobs[jobs[:, 4] < 0][:, 1] < whole) and np.all(in_shares[:, 1] >= whole)
    loads = np.bincount(in_shares[:, 4], in_shares[:, 3], minlength=shares)
    assert len(loads) == shares and (shares == 0 or np.ptp(loads) <= 1)
    for cluster in np.unique(in_shares[:, 0]):
        of_cluster = in_shares[in_shares[:, 0] == cluster]
        assert len(np.unique(of_cluster[:, 4])) == 1  # a cluster has one share, and a place in the workspace for it
        assert np.all(of_cluster[1:, 2] == 0)  # whoever waits, after a whole pair's first pass, has sent before
    for pair in np.unique(in_shares[:, 1]):
        of_pair = in_shares[in_shares[:, 1] == pair]
        of_pair = of_pair[np.argsort(of_pair[:, 2])]
        assert np.all(np.diff(of_pair[:, 4]) == 1)  # in the order of k: so the first one adds them up
        assert np.all(np.diff(of_pair[:, 0]) == -1)  # and clusters that began before it


# Of an H100's 66 clusters: as many as possible for a few deep tiles, a share each where pairs are more than half of
# them, whole pairs where a share's sums would cost more than the clusters that are idle.
@pytest.mark.parametrize(
    ("shape", "wide", "shares"),
    [
        ((1024, 1024, 1024), 128, 64),
        ((1536, 1536, 1536), 192, 48),
        ((1536, 1536, 8192), 256, 66),
        ((4096, 4096, 4096), 256, 58),
        ((256, 256, 65536), 256, 16),
    ],
)
def test_shares_by_the_rule(jobs_of_product, shape, wide, shares):
    plan, _ = plan_of(jobs_of_product, 2, wide, *shape, 132)
    assert plan[3] == shares
