"""What accesses cost: counted as the definition says, and of kernels whose cost is known."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cuda_on_host.calling import Library, Memory, output
from tests.cuda_on_host.traffic import ACCESS, SHARED, Traffic, traffic
from tests.kernels.stand_in import float32_values


def request(addresses: list[int], size: int, memory: int = 0) -> np.ndarray:
    """Return the accesses of a warp whose lane i reads `size` bytes at addresses[i]."""
    accesses = np.zeros(len(addresses), ACCESS)
    accesses["address"], accesses["thread"] = addresses, np.arange(len(addresses))
    accesses["memory"], accesses["bytes"] = memory, size
    return accesses


def turns_of_banks(addresses: list[int], size: int) -> list[int]:
    """Return how often a bank must give a word, for each part of a request, as the definition says it."""
    lanes, turns = {4: 32, 8: 16, 16: 8}[size], []
    for first in range(0, len(addresses), lanes):
        words = {(at + i) // 4 for at in addresses[first : first + lanes] for i in range(0, size, 4)}
        turns.append(max(Counter(word % 32 for word in words).values()))
    return turns


SIZE = st.sampled_from([4, 8, 16])
INDICES = st.lists(st.integers(0, 100), min_size=1, max_size=32)


@given(SIZE, INDICES)
def test_conflicts_by_definition(size, indices):
    addresses = [index * size for index in indices]
    result = traffic(request(addresses, size, SHARED), SHARED, writes=False)
    turns = turns_of_banks(addresses, size)
    assert result == Traffic(1, (size,), sum(turns), len(turns))


@given(SIZE, INDICES)
def test_sectors_by_definition(size, indices):
    result = traffic(request([index * size for index in indices], size), 0, writes=False)
    requested = {index * size + i for index in indices for i in range(size)}
    assert result == Traffic(1, (size,), len({byte // 32 for byte in requested}), -(-len(requested) // 32))


def test_stride_shares_banks():
    for stride in range(33):
        costs = traffic(request([lane * stride * 4 for lane in range(32)], 4, SHARED), SHARED, writes=False)
        assert costs.excess == (math.gcd(stride, 32) - 1 if stride else 0)  # one word is given to all


@pytest.fixture(scope="module")
def counting(on_host) -> Library:
    return on_host.library(Path(__file__).parent / "traffic.cu")


# Of each kernel: what reads and writes of shared memory, of the input and of the output cost more than they must.
EXPECTED = {
    "padded": {},
    "unpadded": {(SHARED, False): 2 * 32 * 31},
    "by_rows": {(0, False): 64 * (32 - 4)},  # 32 sectors for each 128 bytes
    "by_vectors_of_rows": {(0, False): 16 * (32 - 16)},  # half of each sector
    "copies": {(SHARED, False): 64 * (4 - 1)},
    # Of 8 lanes the last is 128 bytes behind the first: rows are 80 bytes apart.
    "copies_to_padded_rows": {(SHARED, False): 64 * (4 - 1), (SHARED, True): 8 * 8},
}


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("order", ["forward", 1])
def test_known_kernels(counting, name, order):
    x, out = Memory(float32_values(1, (2048,))), output((2048,), np.float32)
    assert counting.call(f"kv_{name}_cuda", x, out, 2048, order=order, note_accesses=True) == 0
    result = {
        (memory, writes): traffic(counting.accesses, memory, writes=writes).excess
        for memory in (SHARED, 0, 1)
        for writes in (False, True)
    }
    assert {key: excess for key, excess in result.items() if excess} == EXPECTED[name]


def test_accesses_are_noted_on_request(counting):
    x, out = Memory(float32_values(1, (2048,))), output((2048,), np.float32)
    assert counting.call("kv_by_rows_cuda", x, out, 2048, note_accesses=True) == 0
    noted = counting.accesses
    assert len(noted) == 2 * 2048
    assert counting.call("kv_by_rows_cuda", x, out, 2048) == 0
    assert len(counting.accesses) == 0
    assert len(noted) == 2 * 2048
