"""The engine itself: what it computes is right, and a kernel's fault of each kind is found."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from tests.cuda_on_host.calling import ORDERS, KernelError, Library, Memory, output
from tests.kernels.numbers import FORMATS
from tests.kernels.stand_in import float32_values

HERE = Path(__file__).parent
IN_ANY_ORDER = pytest.mark.parametrize("order", ORDERS)


@pytest.fixture(scope="module")
def faulty(on_host) -> Library:
    return on_host.library(HERE / "faulty.cu")


@pytest.fixture(scope="module")
def features(on_host) -> Library:
    return on_host.library(HERE / "features.cu")


def call(library: Library, name: str, n: int = 64, order: str | int = "forward") -> tuple[np.ndarray, np.ndarray]:
    """Call a kernel of faulty.cu with a block's numbers. Return them and the output."""
    x, out = Memory(float32_values(1, (n,))), output((n,), np.float32)
    assert library.call(f"kv_{name}_cuda", x, out, n, order=order) == 0
    return x.array, out.array


@IN_ANY_ORDER
def test_correct_kernels(faulty, order):
    x, out = call(faulty, "barrier", order=order)
    assert np.array_equal(out, x[::-1])
    x, out = call(faulty, "barrier_behind", order=order)
    assert np.array_equal(out, np.roll(x, -2))
    x, out = call(faulty, "warp_barrier", order=order)
    assert np.array_equal(out, np.concatenate([x[31::-1], x[:31:-1]]))
    x, out = call(faulty, "copy_awaited", order=order)
    assert np.array_equal(out, x)


FAULTS = {
    "no_barrier": "reads byte [0-9]+ of shared memory, which nobody wrote|a race: it (reads|writes) byte",
    "no_barrier_behind": "a race: it (reads|writes) byte [0-9]+ of shared memory, which thread [0-9]+ of block 0",
    "no_warp_barrier": "which nobody wrote|a race",
    "reads_beyond": r"thread \(63, 0, 0\): reads 4 bytes at byte 256 of array 0, which has 256",
    "reads_before": r"thread \(0, 0, 0\): reads 4 bytes at byte -4 of array 0, which has 256",
    "writes_beyond": r"thread \(3, 0, 0\): writes 4 bytes at byte 256 of array 1",
    "writes_to_the_input": "writes to array 0, which is only read",
    "reads_beyond_shared": "reads 4 bytes at byte 256 of shared memory, where no variable is",
    "reads_what_nobody_wrote": "reads byte [0-9]+ of shared memory, which nobody wrote",
    "misaligned_vector": "reads 16 bytes at 0x[0-9a-f]+, an address that is not divisible by 16",
    "half_a_barrier": "wait for others for ever: 10 at __syncthreads, 0 for lanes of their warp, 54 have left",
    "barrier_among_those_who_stay": "40 at __syncthreads, 0 for lanes of their warp, 24 have left",
    "half_a_shuffle": "0 at __syncthreads, 32 for lanes of their warp, 32 have left",
    "all_blocks_write_the_same": "a race: it writes byte [0-9]+ of array 1, which thread [0-9]+ of block [01] writes",
    "copy_not_awaited": "touches byte [0-9]+ of shared memory, to which an unawaited copy goes",
    "leaves_another_device": "the device that was current before is not current again",
}


@IN_ANY_ORDER
@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_seen_in_any_order(faulty, name, order):
    with pytest.raises(KernelError, match=FAULTS[name]):
        call(faulty, name, order=order)
    x, out = call(faulty, "barrier", order=order)
    assert np.array_equal(out, x[::-1])


@IN_ANY_ORDER
def test_race_between_blocks_is_seen(faulty, order):
    with pytest.raises(
        KernelError, match=r"a race: it (reads|writes) byte [0-9]+ of array 1, .* of block [01] (reads|writes)"
    ):
        call(faulty, "reads_what_the_next_block_writes", 128, order)


@IN_ANY_ORDER
def test_warps_exchange_and_vote(features, order):
    x, out = Memory(np.arange(-20, 44).astype(np.float32)), output((12,), np.float32)
    assert features.call("kv_sums_cuda", x, out, order=order) == 0
    halves = x.array.reshape(2, 32)
    votes = [np.sum((half[:16] > 0) << np.arange(16)) for half in halves]
    wanted = [
        [half.sum(), x.array.sum(), half.max(), vote, 1, all(half > 0)]
        for half, vote in zip(halves, votes, strict=True)
    ]
    assert np.array_equal(out.array.reshape(2, 6), wanted)


@IN_ANY_ORDER
@pytest.mark.parametrize("shared", [24 * 4, 100_000])
def test_dynamic_shared_memory_in_three_dimensions(features, order, shared):
    x, out = Memory(float32_values(1, (12 * 24,))), output((12 * 24,), np.float32)
    assert features.call("kv_add_cuda", x, out, ctypes.c_int(shared), order=order, device=1, stream=7) == 0
    assert np.array_equal(out.array, x.array + 1)
    (launch,) = features.launches
    assert (launch.grid, launch.block, launch.shared) == ((3, 2, 2), (4, 3, 2), shared)


def test_too_little_dynamic_shared_memory_is_seen(features):
    x, out = Memory(float32_values(1, (12 * 24,))), output((12 * 24,), np.float32)
    with pytest.raises(KernelError, match="writes 4 bytes at byte 92 of shared memory, where no variable is"):
        features.call("kv_add_cuda", x, out, ctypes.c_int(23 * 4))


def test_launches_beyond_the_limits_are_refused(features):
    x, out = Memory(float32_values(1, (64,))), output((64,), np.float32)
    assert features.call("kv_without_asking_cuda", x, out) == 1
    assert features.call("kv_add_cuda", x, out, ctypes.c_int(200_000)) == 1
    for x_blocks, y_blocks, block in ((1, 65536, 1), (0, 1, 1), (1, 1, 1025)):
        sizes = (ctypes.c_uint(value) for value in (x_blocks, y_blocks, block))
        assert features.call("kv_grid_cuda", x, out, *sizes) == 9
    assert features.launches == []


def test_rounding_to_two_bytes(features):
    special = [0.0, -0.0, np.inf, -np.inf, 65504, 65519.996, 65520, 1e-8, 2.0**-25, 1.5 * 2.0**-24, 3e38, 1 + 2.0**-8]
    x = Memory(np.concatenate([np.array(special, np.float32), float32_values(1, (500,), 1000)]))
    n = x.array.size
    bits = {name: output((n,), np.uint16) for name in ("float16", "bfloat16")}
    back = output((n,), np.float32)
    assert features.call("kv_halves_cuda", x, *bits.values(), back, n) == 0
    wanted = {name: FORMATS[name].encode(x.array.astype(np.float64)) for name in bits}
    for name, memory in bits.items():
        assert np.array_equal(memory.array, wanted[name].view(np.uint16))
    assert np.array_equal(back.array[::2], FORMATS["float16"].decode(wanted["float16"])[::2])
    assert np.array_equal(back.array[1::2], FORMATS["bfloat16"].decode(wanted["bfloat16"])[1::2])


def test_byte_products_wrap_around(features):
    words = np.random.default_rng(1).integers(-(2**31), 2**31, (2, 64), dtype=np.int64).astype(np.int32)
    words[:, 0] = -2139062144  # 0x80808080: -128 four times
    c = np.full(64, 2**31 - 1, np.int32)
    products = words.view(np.int8).astype(np.int64).reshape(2, 64, 4).prod(0).sum(1)
    memory = Memory(c, is_output=True)
    assert features.call("kv_dot_products_cuda", Memory(words[0]), Memory(words[1]), memory, 64) == 0
    assert np.array_equal(memory.array, (c + products).astype(np.int32))


@IN_ANY_ORDER
@pytest.mark.parametrize("name", ["float16", "bfloat16", "int8"])
def test_products_of_tiles(features, name, order):
    # Small integers: exact in every format.
    a, b = (np.random.default_rng(seed).integers(-8, 9, (16, 32)) for seed in (1, 2))
    stored = (lambda x: x.astype(np.int8)) if name == "int8" else (lambda x: FORMATS[name].encode(x.astype(np.float64)))
    before = np.arange(256).reshape(16, 16).astype(np.int32 if name == "int8" else np.float32)
    c = Memory(before, is_output=True)
    assert features.call(f"kv_tile_{name}_cuda", Memory(stored(a)), Memory(stored(b)), c, order=order) == 0
    assert np.array_equal(c.array, 2 * (a @ b.T) + before)


@pytest.mark.parametrize(
    ("name", "stored", "sum_of", "bytes_"), [("int8", np.int8, np.int32, 16), ("float16", np.uint16, np.float32, 32)]
)
def test_misaligned_tile_is_seen(features, name, stored, sum_of, bytes_):
    a, b = Memory(np.zeros((16, 32), stored), 8), Memory(np.zeros((16, 32), stored))
    with pytest.raises(KernelError, match=f"a tile that is not aligned to {bytes_} bytes"):
        features.call(f"kv_tile_{name}_cuda", a, b, Memory(np.zeros((16, 16), sum_of), is_output=True))


def test_copies_are_awaited_by_group(features):
    x, out = Memory(float32_values(1, (10,))), output((12,), np.float32)
    assert features.call("kv_pipelined_cuda", x, out) == 0
    assert np.array_equal(out.array, np.append(x.array, [0, 0]))
