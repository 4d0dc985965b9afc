"""What accesses cost: counted as the definition says, and of kernels whose cost is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cuda_on_host.calling import Library, Memory, output
from tests.cuda_on_host.traffic import SHARED, traffic
from tests.kernels.stand_in import float32_values


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
