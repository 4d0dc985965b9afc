"""The CUDA kernels without a GPU (tests/cuda_on_host): results against float64, every access, every barrier."""

from __future__ import annotations

import ctypes
from itertools import pairwise

import numpy as np
import pytest

import kernels
from tests.cuda_on_host.calling import ORDERS, Library, Memory, output
from tests.kernels import references
from tests.kernels.numbers import FORMATS
from tests.kernels.references import Case
from tests.kernels.stand_in import float32_values
from tests.kernels.test_arguments import native_functions, wrong_arguments

IN_ANY_ORDER = pytest.mark.parametrize("order", ORDERS)
ELEMENTWISE = pytest.mark.parametrize("kernel", ["add_mul_exp", "quantize_int8"])
DTYPE = pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
HALVES = pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
TILE = pytest.mark.parametrize("tile", [64, 128])
# float16 is bfloat16's code but for the instruction: where that costs seconds, bfloat16 is enough. Cheaper tests of
# float16 see that each entry point takes its own type.
FACTORS = pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
FLOATS = pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
PER_VECTOR = {"float32": 4, "float16": 8, "bfloat16": 8, "int8": 16}  # of 16 bytes
SHARED_LIMIT = 99 * 1024  # bytes that a block can have on the smallest of these devices, compute capability 8.6
ON_TENSOR_CORES = pytest.mark.parametrize("dtype", ["bfloat16", "int8"])


def stored(dtype: str, numbers: np.ndarray) -> np.ndarray:
    return FORMATS[dtype].encode(numbers) if dtype in FORMATS else numbers.astype(dtype)


def entry_point(kernel: str, dtype: str) -> tuple[str, str]:
    """Return the file of a kernel's entry point for a dtype, and its name up to the device."""
    if dtype == "float32":
        return kernel, f"kv_{kernel}"
    return f"{kernel}_tensor" if kernel.startswith("matmul") else kernel, f"kv_{kernel}_{dtype}"


def arguments(case: Case, shifts: tuple[int, ...] = ()) -> list:
    """Return what the case's entry point takes before device and stream, the output last of the arrays."""
    shifts = shifts or (0,) * (len(case.arrays) + 1)
    inputs = [Memory(stored(case.inputs, array), shift) for array, shift in zip(case.arrays, shifts, strict=False)]
    out = output(case.shape, stored(case.dtype, np.zeros(0)).dtype, shifts[-1])
    if case.kernel.startswith("matmul"):
        return [*inputs, out, *case.shape, case.arrays[0].shape[1]]
    scalars = [ctypes.c_float(case.scalars[0]), ctypes.c_int(int(case.scalars[1]))] if case.scalars else []
    return [*inputs, out, case.arrays[0].size, *scalars]


def call(on_host, case: Case, shifts: tuple[int, ...] = (), **how) -> tuple[Library, np.ndarray]:
    """Run a case on the engine. Return the library, which knows the launches, and the output's numbers."""
    file, name = entry_point(case.kernel, case.inputs)
    library, drawn = on_host.kernel(case.kernel, file), arguments(case, shifts)
    assert library.call(f"{name}_cuda", *drawn, **how) == 0
    numbers = drawn[len(case.arrays)].array
    return library, FORMATS[case.dtype].decode(numbers) if case.dtype in FORMATS else numbers


def run(on_host, case: Case, shifts: tuple[int, ...] = (), **how) -> list[str]:
    """Run a case on the engine, and check its output. Return the names of the kernels that were launched."""
    library, numbers = call(on_host, case, shifts, **how)
    case.check(numbers, "cuda")
    return paths(library)


def paths(library: Library) -> list[str]:
    return [launch.kernel for launch in library.launches]


def one_shifted(tensors: int, shift: int) -> list[tuple[int, ...]]:
    """Return the shifts of tensors of which each in turn, and then all, begin behind an aligned address."""
    alone = [tuple(shift * (index == which) for index in range(tensors)) for which in range(tensors)]
    return [*alone, (shift,) * tensors]


# Around vectors of four or eight, and blocks of 256 threads with one element, one vector, and four vectors each.
SIZES = {4: (1, 2, 3, 4, 5, 7, 8, 255, 256, 257, 1023, 1024, 1025, 1031, 3071, 4095, 4096, 4097, 5130)}
SIZES[8] = (1, 7, 8, 9, 2047, 2048, 2055, 8191, 8192, 8200)


@IN_ANY_ORDER
@DTYPE
@ELEMENTWISE
def test_elementwise_of_any_size(on_host, kernel, dtype, order):
    for n in SIZES[PER_VECTOR[dtype]]:
        case = references.elementwise(kernel, n, dtype)
        processors = 4 if dtype == "float32" else 1
        library, numbers = call(on_host, case, order=order, device=1, stream=5, processors=processors)
        case.check(numbers, "cuda")
        wanted = [(f"{entry_point(kernel, dtype)[1]}_vector", 1, 5)]
        assert [(launch.kernel, launch.device, launch.stream) for launch in library.launches] == wanted
    assert run(on_host, references.elementwise(kernel, 0, dtype)) == []


@IN_ANY_ORDER
@ELEMENTWISE
def test_each_part_has_a_block(on_host, kernel, order):
    for n, shift, part in ((17 * 2048 - 3, 0, 2048), (15 * 512 + 1, 1, 512)):  # a part: 256 threads, 2 accesses each
        case = references.elementwise(kernel, n)
        library, numbers = call(on_host, case, (shift,) * (len(case.arrays) + 1), order=order, processors=1)
        case.check(numbers, "cuda")
        (launch,) = library.launches
        assert launch.grid[0] == -(-n // part)


@DTYPE
@ELEMENTWISE
def test_elementwise_at_any_alignment(on_host, kernel, dtype):
    name, whole = entry_point(kernel, dtype)[1], PER_VECTOR[dtype]
    for n in (1, 3, 4, 37, 1029):
        case = references.elementwise(kernel, n, dtype)
        for shift in range(1, whole + 1):
            for shifts in one_shifted(len(case.arrays) + 1, shift):
                assert run(on_host, case, shifts) == [f"{name}_{'scalar' if shift % whole else 'vector'}"]


def test_outputs_larger_than_the_cache_leave_it_first(on_host):
    # The pretended device has a second-level cache of 16 KiB.
    for case, is_larger in (
        (references.elementwise("add_mul_exp", 4096), False),
        (references.elementwise("add_mul_exp", 4104), True),
        (references.elementwise("add_mul_exp", 8192, "float16"), False),
        (references.elementwise("quantize_int8", 4096), False),
        (references.elementwise("quantize_int8", 16388), True),
        (references.integer_product("float32", 64, 64, 4), False),
        (references.integer_product("float32", 65, 64, 4), True),
        (references.integer_product("bfloat16", 64, 128, 16), False),
        (references.integer_product("int8", 65, 64, 16), True),
        (references.random_bias_relu(64, 68, 4), True),
    ):
        library, _ = call(on_host, case)
        assert library.streamed == is_larger, (case.kernel, case.shape)


@IN_ANY_ORDER
def test_add_mul_exp_in_place(on_host, order):
    x, y = float32_values(1, (1030,)), float32_values(2, (1030,))
    case = references.add_mul_exp(x, y)
    for shift in (0, 1):
        for which in (0, 1):
            memories = [Memory(array, shift, is_output=which == index) for index, array in enumerate((x, y))]
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
def test_quantize_int8_divides(on_host, zero_point):
    observed = set()
    random = np.exp2(np.random.default_rng(3).uniform(-20, 20, 20)).astype(np.float32)
    for scale in (*SCALES, *map(float, random)):
        observed |= set(run(on_host, references.quantize_int8(every_kind(scale), scale, zero_point)))
    assert observed == {"kv_quantize_int8_vector", "kv_quantize_int8_scalar"}


@HALVES
def test_all_numbers_of_two_bytes(on_host, dtype):
    form = FORMATS[dtype]
    x = form.decode(np.arange(2**16, dtype=np.uint16).view(form.stored))
    run(on_host, references.add_mul_exp(x, np.full_like(x, -3.5), dtype))
    for scale in (0.05, 1 / 3, 300.0):
        run(on_host, references.quantize_int8(x, scale, 3, dtype))


# Tiles of 128 where there are enough for a device's processors, else of 64; vectors where n (on tensor cores, k too) is
# whole vectors, and b and the output are aligned.
SHAPES = [(1, 1, 1), (1, 129, 17), (129, 1, 5), (64, 64, 16), (65, 68, 20), (128, 128, 8), (130, 132, 12), (3, 4, 36)]
SHAPES += [(67, 63, 31), (131, 127, 9), (577, 66, 3)]  # more rows of tiles of 64 than a band has
TENSOR_SHAPES = [(1, 1, 1), (17, 19, 23), (129, 65, 33), (64, 64, 64), (128, 128, 64), (136, 80, 80), (131, 127, 9)]
TENSOR_SHAPES += [(16, 8, 304), (577, 16, 16)]


def of_tiles(tile: int) -> dict[str, int]:
    return {"processors": 1 if tile == 128 else 1000}


def path_of(dtype: str, tile: int, *, by_vectors: bool) -> str:
    return f"{entry_point('matmul', dtype)[1]}_{tile}_{'vector' if by_vectors else 'scalar'}"


@TILE
@FACTORS
def test_matmul_of_any_shape(on_host, dtype, tile):
    whole = PER_VECTOR[dtype]
    for m, n, k in SHAPES if dtype == "float32" else TENSOR_SHAPES:
        case = references.integer_product(dtype, m, n, k)
        library, numbers = call(on_host, case, device=1, stream=5, **of_tiles(tile))
        case.check(numbers, "cuda")
        (launch,) = library.launches
        by_vectors = n % whole == 0 and (dtype == "float32" or k % whole == 0)
        assert (launch.kernel, launch.device, launch.stream) == (path_of(dtype, tile, by_vectors=by_vectors), 1, 5)
        assert launch.grid == (-(-m // tile) * -(-n // tile), 1, 1)
        assert launch.shared <= SHARED_LIMIT


@TILE
@FACTORS
@IN_ANY_ORDER
def test_matmul_in_any_order(on_host, dtype, tile, order):
    for shape in ((72, 80, 144), (67, 65, 37)):
        run(on_host, references.integer_product(dtype, *shape), order=order, **of_tiles(tile))


@TILE
@FACTORS
def test_matmul_at_any_alignment(on_host, dtype, tile):
    for which in range(3):
        for shift in (1, 2, 4, 16):  # elements; 16 of each dtype are a multiple of 16 bytes
            shifts = tuple(shift if tensor == which else 0 for tensor in range(3))
            # C of int8's products is of int32; single numbers of A are copied where they are of float32.
            whole = PER_VECTOR["float32" if which == 2 and dtype == "int8" else dtype]
            by_vectors = shift % whole == 0 or (which == 0 and dtype == "float32")
            launched = run(on_host, references.integer_product(dtype, 48, 32, 64), shifts, **of_tiles(tile))
            assert launched == [path_of(dtype, tile, by_vectors=by_vectors)]


@FACTORS
def test_matmul_error_bound(on_host, dtype):
    if dtype != "int8":
        for tile, shape in ((64, (65, 72, 304)), (128, (33, 35, 203))):
            run(on_host, references.normal_product(dtype, *shape), **of_tiles(tile))


@HALVES
@pytest.mark.parametrize("capability", [8, 9])
def test_matmul_keeps_nan_and_infinity_to_their_row_and_column(on_host, dtype, capability):
    a, b = references.integers(dtype, 1, (70, 72)), references.integers(dtype, 2, (72, 72))
    _, clean = call(on_host, references.exact_matmul(a, b, dtype), capability=capability)
    a[7, 3], b[5, 11] = np.nan, np.inf
    _, numbers = call(on_host, references.exact_matmul(a, b, dtype), capability=capability)
    assert np.isnan(numbers[7]).all()
    assert not np.isfinite(numbers[:, 11]).any()
    assert np.array_equal(np.delete(np.delete(numbers, 7, 0), 11, 1), np.delete(np.delete(clean, 7, 0), 11, 1))


@HALVES
def test_matmul_rounds_once_where_it_stores(on_host, dtype):
    form = FORMATS[dtype]
    most = float(references.rounded(dtype, np.array(np.ldexp(2 - 2.0 ** (1 - form.digits), form.largest - 1))))
    a = np.array([[most, 0], [most, most], [-most, -most], [1, np.ldexp(1.0, -form.digits)]], np.float32)
    _, numbers = call(on_host, references.exact_matmul(a, np.ones((2, 1), np.float32), dtype))
    assert numbers.ravel().tolist() == [most, np.inf, -np.inf, 1.0]


@TILE
@pytest.mark.parametrize("dtype", references.PRODUCTS)
def test_matmul_without_inner_axis_gives_zeros(on_host, dtype, tile):
    for n in (16, 5):
        _, numbers = call(on_host, references.integer_product(dtype, 3, n, 0), **of_tiles(tile))
        assert not np.any(numbers)


@FACTORS
def test_matmul_tiles_by_their_last_round(on_host, dtype):
    case = references.integer_product(dtype, 4 * 128, 3 * 128, 4)
    for processors, tile in ((3, 128), (11, 64), (12, 128), (13, 128), (16, 64)):  # of 12 tiles of 128, or 48
        (launched,) = run(on_host, case, processors=processors)
        assert f"_{tile}_" in launched


# Of 16 bits, and processors: a tile half empty, rounds of pairs, tails of k, and pairs in shares: one in two, one
# behind a round in two and in three, two in three.
HOPPER_SHAPES = [(64, 64, 64, 4), (300, 264, 136, 2), (264, 600, 72, 4), (64, 128, 776, 4), (577, 136, 1040, 4)]
HOPPER_SHAPES += [(800, 200, 1040, 6), (300, 72, 2056, 6)]


def on_hopper(dtype: str, m: int, n: int, k: int) -> tuple[int, int, int]:
    """Return a shape with the same tiles for a dtype. Those of bytes are the other way around, and deeper."""
    return (m, n, k) if dtype != "int8" else (n, -(-m // 16) * 16, 2 * k)


@ON_TENSOR_CORES
def test_matmul_on_hopper_of_any_shape(on_host, dtype):
    observed = set()
    for *shape, processors in HOPPER_SHAPES:
        case = references.integer_product(dtype, *on_hopper(dtype, *shape))
        library, numbers = call(on_host, case, device=1, stream=5, processors=processors, capability=9)
        case.check(numbers, "cuda")
        (launch,) = library.launches
        assert (launch.device, launch.stream, launch.grid[0] <= processors) == (1, 5, True)
        assert launch.shared <= 227 * 1024
        observed.add(launch.kernel)
    assert observed == {f"kv_matmul_{dtype}_hopper_{wide}" for wide in (128, 192, 256)}


def test_float8_on_hopper(on_host):
    shapes = [(*on_hopper("int8", *shape), processors) for *shape, processors in HOPPER_SHAPES[2:5]]
    cases = [(references.integer_product(references.FLOAT8, *shape), processors) for *shape, processors in shapes]
    observed = set()
    for case, processors in [*cases, (references.every_float8(1), 4)]:
        library, numbers = call(on_host, case, processors=processors, capability=9)
        case.check(numbers, "cuda")
        observed |= set(paths(library))
    assert observed == {f"kv_matmul_{references.FLOAT8}_hopper_{wide}" for wide in (128, 192, 256)}


def test_float8_has_no_other_kernel(on_host):
    for shape, capability in (((64, 64, 128), 8), ((64, 64, 128), 10), ((64, 64, 120), 9), ((63, 64, 128), 9)):
        drawn = arguments(references.integer_product(references.FLOAT8, *shape))
        library = on_host.kernel("matmul", "matmul_tensor")
        assert library.call("kv_matmul_float8_e4m3fn_cuda", *drawn, capability=capability) == 1801
        assert library.launches == []


@ON_TENSOR_CORES
@IN_ANY_ORDER
def test_matmul_on_hopper_in_any_order(on_host, dtype, order):
    for shape, processors in (((300, 264, 136), 2), ((64, 128, 776), 4)):
        case = references.integer_product(dtype, *on_hopper(dtype, *shape))
        assert "_hopper_" in run(on_host, case, order=order, processors=processors, capability=9)[0]


def test_workspace_stays_with_a_stream_and_goes_with_a_graph(on_host):
    case = references.integer_product("bfloat16", 64, 128, 776)
    native = on_host.kernel("matmul", "matmul_tensor")._native
    counts = [(native.on_host_allocations(), native.on_host_frees())]
    for stream, captures in ((21, 0), (22, 0), (21, 0), (21, 1), (21, 1), (21, 0)):
        native.on_host_capture(captures)
        run(on_host, case, capability=9, stream=stream)
        counts.append((native.on_host_allocations(), native.on_host_frees()))
    native.on_host_capture(0)
    changes = [(now[0] - last[0], now[1] - last[1]) for last, now in pairwise(counts)]
    assert changes == [(1, 0), (1, 0), (0, 0), (1, 1), (1, 1), (0, 0)]


@HALVES
def test_matmul_on_hopper_error_bound(on_host, dtype):
    for shape in ((136, 200, 304), (64, 128, 776)):
        case = references.normal_product(dtype, *shape)
        outputs = [call(on_host, case, order=order, capability=9)[1] for order in ORDERS[:2]]
        case.check(outputs[0], "cuda")
        assert np.array_equal(*outputs), "another order of threads gave other bits"


@ON_TENSOR_CORES
def test_matmul_on_hopper_takes_what_tma_can(on_host, dtype):
    whole = PER_VECTOR[dtype]
    for shape, shifts in (
        ((64, 64, 128), (1, 0, 0)),
        ((64, 64, 128), (0, 1, 0)),
        ((64, 64, 128), (0, 0, 1)),
        ((64, 64 + whole // 2, 128), ()),
        ((64, 64, 128 + whole // 2), ()),
        ((63, 64, 128), ()),
        ((64, 48, 128), ()),
        ((64, 64, 8 * whole - whole), ()),
    ):
        launched = run(on_host, references.integer_product(dtype, *shape), shifts, capability=9)
        assert launched[0].endswith(("_vector", "_scalar"))


BIAS_SHAPES = [(1, 1, 1), (129, 65, 33), (64, 64, 16), (130, 132, 12), (3, 5, 0), (131, 127, 300)]


@TILE
@FLOATS
def test_bias_relu(on_host, dtype, tile):
    for shape, orders in [((17, 19, 23), ORDERS), *((shape, ORDERS[:1]) for shape in BIAS_SHAPES)]:
        for order in orders:
            for shift in (0, 1):
                case = references.random_bias_relu(*shape, dtype)
                launched = run(on_host, case, (shift,) * 4, order=order, **of_tiles(tile))
                by_vectors = not (shift or shape[1] % PER_VECTOR[dtype] or (dtype != "float32" and shape[2] % 8))
                path = "vector" if by_vectors else "scalar"
                assert launched == [f"{entry_point('matmul_bias_relu', dtype)[1]}_{tile}_{path}"]


@HALVES
def test_bias_relu_on_hopper(on_host, dtype):
    for shift, (*shape, processors) in enumerate(HOPPER_SHAPES[:4]):
        case = references.random_bias_relu(*shape, dtype)
        launched = run(on_host, case, (0, 0, shift, 0), processors=processors, capability=9)
        assert launched[0].startswith(f"kv_matmul_bias_relu_{dtype}_hopper_")


CUDA_NAMES = [
    name
    for name, function in native_functions().items()
    if not name.startswith(("stream", "multiply_adds")) and not name.endswith("64")
]


@pytest.mark.parametrize("name", CUDA_NAMES)
def test_statuses(on_host, name):
    kernel = max((kernel for kernel in kernels.KERNELS if name.startswith(kernel)), key=len)
    library = on_host.kernel(kernel, entry_point(kernel, name.removeprefix(f"{kernel}_").replace(kernel, "float32"))[0])
    types = native_functions()[name]._cuda_types[:-2]

    def status(values: list, **how) -> int:
        memories = [Memory(np.zeros(8, np.float32), is_output=True) for _ in types]
        converted = [
            (memory if value else None) if kind is ctypes.c_void_p else value if kind is ctypes.c_int64 else kind(value)
            for kind, value, memory in zip(types, values, memories, strict=True)
        ]
        return library.call(f"kv_{name}_cuda", *converted, **how)

    assert [status(values) for values, _ in wrong_arguments(types)] == [code for _, code in wrong_arguments(types)]
    assert status([2] * len(types), device=2) == 1101
    if kernel == "matmul" and name != "matmul":
        assert status([2] * len(types), capability=7) == 1801  # no tensor cores that multiply these
    assert status([None if kind is ctypes.c_void_p else 0 for kind in types]) == 0
    assert library.launches == []
    if name.endswith(references.FLOAT8):
        return  # which launches for large matrices alone
    assert status([2] * len(types), device=1) == 0
    assert library.launches[0].device == 1
