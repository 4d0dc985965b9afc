"""What the CUDA kernels ask of memory, where arrays are aligned and of usual sizes: no sector too many, no conflict."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from tests.cuda_on_host.calling import Library, Memory, output
from tests.cuda_on_host.traffic import SECTOR, SHARED, traffic
from tests.kernels.numbers import FORMATS

HALVES = ("float16", "bfloat16")
FLOATS = pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
TILE = pytest.mark.parametrize("tile", [64, 128])


def random(dtype: str, *shape: int) -> Memory:
    numbers = np.random.default_rng(len(shape)).normal(0, 20, shape)
    return Memory(FORMATS[dtype].encode(numbers) if dtype in HALVES else numbers.astype(dtype))


def name_of(kernel: str, dtype: str) -> str:
    return f"kv_{kernel}" if dtype == "float32" else f"kv_{kernel}_{dtype}"


def call(
    library: Library, name: str, *arguments: Any, path: str, single: tuple[int, ...] = (), **how: Any
) -> list[int]:
    """Call an entry point, which takes this path of its kernel. Return how many sectors of each array are moved.

    Every request of a warp moves the fewest sectors that hold its bytes, and no bank of shared memory keeps it waiting.

    Args:
        single: arrays of which lanes take single items that are no neighbours.
    """
    assert library.call(f"{name}_cuda", *arguments, note_accesses=True, **how) == 0
    assert [launch.kernel for launch in library.launches] == [f"{name}_{path}"]
    sectors = []
    arrays = [argument for argument in arguments if isinstance(argument, Memory)]
    for memory in (*range(len(arrays)), SHARED):
        both = [traffic(library.accesses, memory, writes=writes) for writes in (False, True)]
        if memory not in single:
            assert [entry.excess for entry in both] == [0, 0], (
                "shared memory" if memory == SHARED else f"array {memory}"
            )
        sectors.append(sum(entry.cost for entry in both))
    return sectors[:-1]


def sectors_of(*arrays: Memory) -> list[int]:
    return [array.array.nbytes // SECTOR for array in arrays]


@FLOATS
def test_elementwise_moves_each_sector_once(on_host, dtype):
    x, y = random(dtype, 2**15), random(dtype, 2**15)
    out, integers = output(x.array.shape, x.array.dtype), output(x.array.shape, np.int8)
    library, scalars = on_host.kernel("add_mul_exp"), (ctypes.c_float(0.5), ctypes.c_int(3))
    moved = call(library, name_of("add_mul_exp", dtype), x, y, out, x.array.size, path="vector")
    assert moved == sectors_of(x, y, out)
    library = on_host.kernel("quantize_int8")
    moved = call(library, name_of("quantize_int8", dtype), x, integers, x.array.size, *scalars, path="vector")
    assert moved == sectors_of(x, integers)


@FLOATS
@pytest.mark.parametrize(("bytes_of_row", "path"), [(2048, "vector_warp"), (2**15, "vector_block")])
def test_rows_move_once(on_host, dtype, bytes_of_row, path):
    itemsize = 2 if dtype in HALVES else 4
    x = random(dtype, 8, bytes_of_row // itemsize)
    out, scales = output(x.array.shape, np.int8), output((8,), np.float32)
    name = name_of("quantize_int8_rows", dtype)
    moved = call(on_host.kernel("quantize_int8_rows"), name, x, out, scales, *x.array.shape, path=path)
    assert moved == [*sectors_of(x, out), 8]  # a scale at a time


def product(on_host, dtype: str, tile: int, kernel: str = "matmul") -> None:
    """Multiply matrices of whole tiles: tiles of A and B are moved once for each of C, and C is moved once."""
    m, n, k = 128, 256, 64 if dtype == "float32" else 128
    a, b = random(dtype, m, k), random(dtype, k, n)
    c = output((m, n), np.int32 if dtype == "int8" else a.array.dtype)
    bias = [random("float32", n)] if kernel == "matmul_bias_relu" else []
    library = on_host.kernel(kernel, None if dtype == "float32" else "matmul_tensor")
    processors, single = 1 if tile == 128 else 1000, (2,) if bias else ()
    arguments = (a, b, *bias, c, m, n, k)
    moved = call(
        library, name_of(kernel, dtype), *arguments, path=f"{tile}_vector", processors=processors, single=single
    )
    of_a, of_b, of_c = sectors_of(a, b, c)
    assert [moved[0], moved[1], moved[-1]] == [of_a * (n // tile), of_b * (m // tile), of_c]


@TILE
@pytest.mark.parametrize("kernel", ["matmul", "matmul_bias_relu"])
def test_products_of_float32(on_host, kernel, tile):
    product(on_host, "float32", tile, kernel)


@TILE
@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_products_on_tensor_cores(on_host, dtype, tile):
    product(on_host, dtype, tile)


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
@pytest.mark.parametrize(("tiles", "passes", "wide"), [(2, 2, 256), (1, 12, 128)])
def test_blocks_of_a_cluster_share_on_hopper(on_host, dtype, tiles, passes, wide):
    """Of pairs of tiles, 256 x `wide`, each factor is loaded once for each pair, and so where clusters share one.

    The matrices have tiles x tiles such pairs. Of int8 they lie the other way around.
    """
    m, n, k = 256 * tiles, wide * tiles, passes * (128 if dtype == "int8" else 64)
    m, n = (n, m) if dtype == "int8" else (m, n)
    a, b = random(dtype, m, k), random(dtype, k, n)
    c = output((m, n), np.int32 if dtype == "int8" else a.array.dtype)
    library, name = on_host.kernel("matmul", "matmul_tensor"), name_of("matmul", dtype)
    moved = call(library, name, a, b, c, m, n, k, path=f"hopper_{wide}", capability=9)
    narrow, of_wide, of_c = sectors_of(*((b, a, c) if dtype == "int8" else (a, b, c)))
    wanted = [narrow * tiles, of_wide * tiles, of_c]
    assert [*(moved[1::-1] if dtype == "int8" else moved[:2]), moved[2]] == wanted
