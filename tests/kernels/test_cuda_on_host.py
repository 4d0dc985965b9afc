"""The CUDA kernels without a GPU (tests/cuda_on_host): results against float64, every access, every barrier."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.cuda_on_host.calling import ORDERS, Library, Memory, output
from tests.kernels import references
from tests.kernels.numbers import FORMATS, Format, worst_exp_error
from tests.kernels.references import Case
from tests.kernels.stand_in import float32_values

KERNELS = pytest.mark.parametrize("kernel", references.KERNELS)
IN_ANY_ORDER = pytest.mark.parametrize("order", ORDERS)
# Around vectors of four, and blocks of 256 threads with one element, one vector, and four vectors each.
SIZES = (1, 2, 3, 4, 5, 7, 8, 255, 256, 257, 1023, 1024, 1025, 1031, 3071, 4095, 4096, 4097, 5130)


def arguments(case: Case, shifts: tuple[int, ...] = ()) -> list:
    """Return what the case's entry point takes before device and stream, the output last of the arrays."""
    shifts = shifts or (0,) * (len(case.arrays) + 1)
    inputs = [Memory(array, shift) for array, shift in zip(case.arrays, shifts, strict=False)]
    out = output(case.shape, case.dtype, shifts[-1])
    if case.kernel == "matmul":
        (m, k), n = case.arrays[0].shape, case.shape[1]
        return [*inputs, out, m, n, k]
    scalars = [ctypes.c_float(case.scalars[0]), ctypes.c_int(int(case.scalars[1]))] if case.scalars else []
    return [*inputs, out, case.arrays[0].size, *scalars]


def run(on_host, case: Case, shifts: tuple[int, ...] = (), **how) -> Library:
    """Run a case on the engine, check its output, and return the library, which knows the launches."""
    library, taken = on_host.kernel(case.kernel), arguments(case, shifts)
    assert library.call(f"kv_{case.kernel}_cuda", *taken, **how) == 0
    case.check(taken[len(case.arrays)].array, "cuda")
    return library


def elementwise(kernel: str, n: int) -> Case:
    x = float32_values(n, (n,), 5)
    return (
        references.quantize_int8(x, 0.05, 3) if kernel == "quantize_int8" else references.add_mul_exp(x, x[::-1].copy())
    )


def product(m: int, n: int, k: int) -> Case:
    return references.matmul(float32_values(m, (m, k)), float32_values(n, (k, n)))


def paths(library: Library) -> list[str]:
    return [launch.kernel for launch in library.launches]


@IN_ANY_ORDER
@pytest.mark.parametrize("kernel", ["add_mul_exp", "quantize_int8"])
def test_elementwise_kernels_of_any_size(on_host, kernel, order):
    for n in SIZES:
        library = run(on_host, elementwise(kernel, n), order=order, device=1, stream=5)
        assert [(one.kernel, one.device, one.stream) for one in library.launches] == [(f"kv_{kernel}_vector", 1, 5)]


@IN_ANY_ORDER
@pytest.mark.parametrize("kernel", ["add_mul_exp", "quantize_int8"])
def test_blocks_go_on_where_there_are_more_parts_than_run_at_once(on_host, kernel, order):
    for n, shift, part in ((17 * 4096 - 3, 0, 4096), (15 * 1024 + 1, 1, 1024)):  # a part: 256 threads, 4 accesses each
        case = elementwise(kernel, n)
        library = run(on_host, case, (shift,) * (len(case.arrays) + 1), order=order, processors=1)
        (launch,) = library.launches
        parts, blocks = -(-n // part), launch.grid[0]
        assert blocks <= 8 < parts
        assert -(-parts // blocks) * (blocks - 1) < parts  # as many parts for each, or one less


@pytest.mark.parametrize("kernel", ["add_mul_exp", "quantize_int8"])
def test_elementwise_kernels_at_any_alignment(on_host, kernel):
    for n in (1, 2, 3, 4, 37, 1026):
        case = elementwise(kernel, n)
        tensors = len(case.arrays) + 1
        for which in range(tensors):
            for shift in range(1, 5):
                run(on_host, case, tuple(shift if tensor == which else 0 for tensor in range(tensors)))
        for shift in range(5):
            library = run(on_host, case, (shift,) * tensors)
            assert paths(library) == [f"kv_{kernel}_{'scalar' if shift % 4 else 'vector'}"]


@IN_ANY_ORDER
def test_add_mul_exp_in_place(on_host, order):
    x, y = float32_values(1, (1030,)), float32_values(2, (1030,))
    case = references.add_mul_exp(x, y)
    for shift in (0, 1):
        for which in (0, 1):
            memories = [Memory(array, shift, is_output=which == place) for place, array in enumerate((x, y))]
            entry = on_host.kernel("add_mul_exp")
            assert entry.call("kv_add_mul_exp_cuda", *memories, memories[which], x.size, order=order) == 0
            case.check(memories[which].array, "cuda")


@np.errstate(all="ignore")
def every_kind(scale: float) -> np.ndarray:
    """Numbers at which a quantisation could go wrong: ties, what lies beside them, bounds, special values, any bits."""
    scale32 = np.float32(scale)
    ties = (np.arange(-300, 300) + np.float32(0.5)).astype(np.float32) * scale32
    beside = [np.nextafter(ties, np.float32(side * np.inf)) for side in (1, -1)]
    bits = np.random.default_rng(1).integers(0, 2**32, 500, dtype=np.uint64).astype(np.uint32).view(np.float32)
    near = np.append(float32_values(2, (500,), 60), np.array([384, -384, 0.5], np.float32)) * scale32
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 2.0**-100, 3e38, -3e38], np.float32)
    return np.concatenate([ties, *beside, bits, near, special])


# Powers of two, what is just beside them, and usual ones; the first and last are beyond those without a division.
SCALES = [2.0**-149, 2.0**-65, 2.0**-64, 1e-5, 0.05, 1 / 3, 1 - 2.0**-24, 1.0, 1 + 2.0**-23, 3.0, 41.0, 187.0, 2.0**100]
SCALES += [float(np.float32(2.0**100 * (1 + 2.0**-23))), 3e38]


@pytest.mark.parametrize("zero_point", [-128, 3, 127])
def test_quantize_int8_gives_the_integers_of_a_true_division(on_host, zero_point):
    seen = set()
    random = np.exp2(np.random.default_rng(3).uniform(-20, 20, 20)).astype(np.float32)
    for scale in (*SCALES, *map(float, random)):
        case = references.quantize_int8(every_kind(scale), scale, zero_point)
        seen |= set(paths(run(on_host, case)))
    assert seen == {"kv_quantize_int8_vector", "kv_quantize_int8_scalar"}


HALVES = pytest.mark.parametrize("form", [FORMATS["float16"], FORMATS["bfloat16"]], ids=["float16", "bfloat16"])
HALF_SIZES = (0, 1, 7, 8, 9, 2047, 2048, 2055, 8191, 8192, 8200)  # around vectors of eight, 256 and 1024 of them
# Half a unit by rounding, and what CUDA's expf may err in float32 (references.py).
HALF_BOUNDS = {"float16": 0.5 + 2.5 * 2.0**-13, "bfloat16": 0.5 + 2.5 * 2.0**-16}


def halves(form: Format, seed: int, count: int, spread: float = 1.0) -> np.ndarray:
    return form.encode(float32_values(seed, (count,), spread).astype(np.float64))


def exp_of_halves(
    on_host, form: Format, x: np.ndarray, y: np.ndarray, shifts: tuple[int, ...] = (0, 0, 0), **how
) -> None:
    """Run add_mul_exp of numbers of two bytes on the engine, and check its output."""
    memories = [Memory(x, shifts[0]), Memory(y, shifts[1]), output(x.shape, x.dtype, shifts[2])]
    library, kernel = on_host.kernel("add_mul_exp"), f"kv_add_mul_exp_{form.name}"
    assert library.call(f"{kernel}_cuda", *memories, x.size, **how) == 0
    wanted = f"{kernel}_{'scalar' if any(shift % 8 for shift in shifts) else 'vector'}"
    assert paths(library) == ([wanted] if x.size else [])
    assert worst_exp_error(form, memories[2].array, x, y) <= HALF_BOUNDS[form.name]


def quantize_halves(
    on_host, form: Format, x: np.ndarray, scale: float, shifts: tuple[int, ...] = (0, 0), **how
) -> None:
    """Run quantize_int8 of numbers of two bytes on the engine, and check its output."""
    memories = [Memory(x, shifts[0]), output(x.shape, np.int8, shifts[1])]
    library, kernel = on_host.kernel("quantize_int8"), f"kv_quantize_int8_{form.name}"
    scalars = ctypes.c_float(scale), ctypes.c_int(3)
    assert library.call(f"{kernel}_cuda", *memories, x.size, *scalars, **how) == 0
    wanted = f"{kernel}_{'scalar' if any(shift % 8 for shift in shifts) else 'vector'}"
    assert paths(library) == ([wanted] if x.size else [])
    assert np.array_equal(memories[1].array, references.quantize_int8_values(form.decode(x), scale, 3))


@IN_ANY_ORDER
@HALVES
def test_numbers_of_two_bytes_of_any_size(on_host, form, order):
    for n in HALF_SIZES:
        exp_of_halves(on_host, form, halves(form, n, n), halves(form, n + 1, n), order=order, processors=1)
        quantize_halves(on_host, form, halves(form, n, n, 60), 1.0, order=order, processors=1)


@HALVES
def test_numbers_of_two_bytes_at_any_alignment(on_host, form):
    for shift in range(1, 9):
        for which in range(3):
            shifts = tuple(shift if tensor == which else 0 for tensor in range(3))
            exp_of_halves(on_host, form, halves(form, 1, 1029), halves(form, 2, 1029), shifts)
            if which < 2:
                quantize_halves(on_host, form, halves(form, 1, 1029, 60), 1.0, shifts[:2])


@HALVES
def test_all_numbers_of_two_bytes(on_host, form):
    x = np.arange(2**16, dtype=np.uint16).view(form.stored)
    exp_of_halves(on_host, form, x, form.encode(np.full(x.shape, -3.5)))
    for scale in (0.05, 1 / 3, 300.0):
        quantize_halves(on_host, form, x, scale)


# Tiles of 128 where they are as many as the device has processors, else of 64; vectors where n is a multiple of four
# and b and the output are aligned.
SHAPES = [
    (1, 1, 1),
    (1, 129, 17),
    (129, 1, 5),
    (64, 64, 16),
    (65, 68, 20),
    (128, 128, 8),
    (130, 132, 12),
    (3, 4, 36),
    (67, 63, 31),
    (131, 127, 9),
    (577, 66, 3),  # more rows of tiles of 64 than a band has
]


@IN_ANY_ORDER
@pytest.mark.parametrize("tile", [64, 128])
def test_matmul_of_any_shape(on_host, tile, order):
    for m, n, k in SHAPES:
        case = product(m, n, k)
        library = run(on_host, case, order=order, processors=1000 if tile == 64 else 1)
        assert paths(library) == [f"kv_matmul_{tile}_{'scalar' if n % 4 else 'vector'}"]


@pytest.mark.parametrize("tile", [64, 128])
def test_matmul_at_any_alignment(on_host, tile):
    for which in range(3):
        for shift in (1, 2, 3, 4):
            shifts = tuple(shift if tensor == which else 0 for tensor in range(3))
            library = run(on_host, product(66, 72, 20), shifts, processors=1000 if tile == 64 else 1)
            assert paths(library) == [f"kv_matmul_{tile}_{'vector' if which == 0 or shift == 4 else 'scalar'}"]


@pytest.mark.parametrize("processors", [1, 1000])
def test_matmul_without_an_inner_axis_writes_zeros(on_host, processors):
    for n in (4, 5):
        out = output((3, n), np.float32)
        assert on_host.kernel("matmul").call("kv_matmul_cuda", None, None, out, 3, n, 0, processors=processors) == 0
        assert np.array_equal(out.array, np.zeros((3, n)))


@KERNELS
def test_nothing_is_launched_for_nothing(on_host, kernel):
    empty = {
        "add_mul_exp": elementwise("add_mul_exp", 0),
        "quantize_int8": elementwise("quantize_int8", 0),
        "matmul": product(0, 5, 3),
    }
    assert run(on_host, empty[kernel]).launches == []


ENTRY_POINTS = [(kernel, kernel) for kernel in references.KERNELS]
ENTRY_POINTS += [(k, f"{k}_{dtype}") for k in ("add_mul_exp", "quantize_int8") for dtype in ("float16", "bfloat16")]


@pytest.mark.parametrize(("kernel", "name"), ENTRY_POINTS)
def test_statuses(on_host, kernel, name):
    case = references.random_case(kernel, 1)
    library, entry, taken = on_host.kernel(kernel), f"kv_{name}_cuda", arguments(case)  # twice the bytes of the others
    tensors = len(case.arrays) + 1
    for which in range(tensors):
        assert library.call(entry, *taken[:which], None, *taken[which + 1 :]) == 2
    for which in range(tensors, len(taken)):
        if isinstance(taken[which], int):
            assert library.call(entry, *taken[:which], -1, *taken[which + 1 :]) == 1
    assert library.call(entry, *taken, device=2) == 1101
    assert library.launches == []
    assert library.call(entry, *taken, device=1) == 0
    assert library.launches[0].device == 1
