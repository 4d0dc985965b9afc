"""matmul of float16, bfloat16 and int8: on a GPU, and without one by tests/cuda_on_host."""

from __future__ import annotations

import numpy as np
import pytest

import kernels
from kernels._native.arguments import read
from kernels._native.errors import ArgumentTypeError, ArgumentValueError, LaunchError
from kernels._native.launch import NativeFunction
from kernels._native.library import HAS_CUDA, LIBRARY
from tests.cuda_on_host.calling import ORDERS, Library, Memory, output
from tests.kernels import guarded, products
from tests.kernels.numbers import FORMATS, Typed
from tests.kernels.products import DTYPES, OUTPUTS, SHAPES
from tests.kernels.references import Case
from tests.kernels.stand_in import HostTensor

DTYPE = pytest.mark.parametrize("dtype", DTYPES)
# float16 is bfloat16's code but for the instruction: where that costs seconds, it waits for the slow tests.
SOME = pytest.mark.parametrize("dtype", [pytest.param("float16", marks=pytest.mark.slow), "bfloat16", "int8"])
FLOATS = pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
TILE = pytest.mark.parametrize("tile", [64, 128])
CHUNKS = {"float16": 8, "bfloat16": 8, "int8": 16}  # elements of 16 bytes
STORED = {"bfloat16": np.uint16, "float16": np.float16, "int32": np.int32}
SHARED_LIMIT = 99 * 1024  # bytes that a block can have on the smallest of these devices, compute capability 8.6


def stored(dtype: str, numbers: np.ndarray) -> np.ndarray:
    return numbers if dtype == "int8" else FORMATS[dtype].encode(numbers.astype(np.float64))


def numbers_of(dtype: str, array: np.ndarray) -> np.ndarray:
    return array if dtype == "int32" else FORMATS[dtype].decode(array)


def arguments(case: Case, shifts: tuple[int, ...] = (0, 0, 0)) -> list:
    """Return what the entry point takes before device and stream."""
    a, b = (Memory(stored(case.inputs, array), shift) for array, shift in zip(case.arrays, shifts, strict=False))
    out = output(case.shape, STORED[case.dtype], shifts[2])
    return [a, b, out, *case.shape, case.arrays[0].shape[1]]


def run(on_host, case: Case, shifts: tuple[int, ...] = (0, 0, 0), tile: int = 64, **how) -> tuple[Library, np.ndarray]:
    """Run a case without a GPU by tiles of this size and check its output; return the library and the output."""
    library, taken = on_host.kernel("matmul", "matmul_tensor"), arguments(case, shifts)
    how = {"processors": 1 if tile == 128 else 1000, **how}
    assert library.call(f"kv_matmul_{case.inputs}_cuda", *taken, **how) == 0
    found = numbers_of(case.dtype, taken[2].array)
    case.check(found, "cuda")
    return library, found


def path_of(dtype: str, tile: int, *, by_chunks: bool) -> str:
    return f"kv_matmul_{dtype}_{tile}_{'vector' if by_chunks else 'scalar'}"


@SOME
@TILE
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_any_shape_without_a_gpu(on_host, dtype, tile, shape):
    chunk = CHUNKS[dtype]
    library, _ = run(on_host, products.integer_case(dtype, *shape), tile=tile, device=1, stream=5)
    (launch,) = library.launches
    by_chunks = shape[1] % chunk == shape[2] % chunk == 0
    assert (launch.kernel, launch.device, launch.stream) == (path_of(dtype, tile, by_chunks=by_chunks), 1, 5)
    assert launch.grid == (-(-shape[0] // tile) * -(-shape[1] // tile), 1, 1)
    assert launch.shared <= SHARED_LIMIT


@SOME
@TILE
@pytest.mark.parametrize("order", ORDERS)
def test_any_order_of_threads_without_a_gpu(on_host, dtype, tile, order):
    for shape in ((72, 80, 144), (67, 65, 37)):
        run(on_host, products.integer_case(dtype, *shape), tile=tile, order=order)


@SOME
@TILE
def test_any_alignment_without_a_gpu(on_host, dtype, tile):
    for which in range(3):
        for shift in (1, 4, 16):  # elements; 16 of each dtype are a multiple of 16 bytes
            shifts = tuple(shift if tensor == which else 0 for tensor in range(3))
            library, _ = run(on_host, products.integer_case(dtype, 48, 32, 64), shifts, tile)
            by_chunks = shift == 16 or (which == 2 and dtype == "int8" and shift == 4)  # of int32
            assert [one.kernel for one in library.launches] == [path_of(dtype, tile, by_chunks=by_chunks)]


@FLOATS
def test_the_error_bound_without_a_gpu(on_host, dtype):
    for tile, shape in ((64, (65, 72, 304)), (128, (33, 35, 203))):
        run(on_host, products.normal_case(dtype, *shape), tile=tile)


@FLOATS
def test_nan_and_infinity_reach_exactly_their_row_and_column_without_a_gpu(on_host, dtype):
    a, b = products.integers(dtype, 1, (70, 40)), products.integers(dtype, 2, (40, 72))
    _, clean = run(on_host, products.exact(dtype, a, b))
    a[7, 3], b[5, 11] = np.nan, np.inf
    case = products.exact(dtype, a, b)
    taken = arguments(case)
    assert on_host.kernel("matmul", "matmul_tensor").call(f"kv_matmul_{dtype}_cuda", *taken) == 0
    assert_spread(numbers_of(dtype, taken[2].array), clean)


def assert_spread(found: np.ndarray, clean: np.ndarray) -> None:
    """NaN at row 7 of A and infinity at column 11 of B are in that row and column, and nowhere else."""
    assert np.isnan(found[7]).all()
    assert not np.isfinite(found[:, 11]).any()
    assert np.array_equal(np.delete(np.delete(found, 7, 0), 11, 1), np.delete(np.delete(clean, 7, 0), 11, 1))


@FLOATS
def test_results_beyond_the_range_are_infinite_or_rounded_as_they_are_stored_without_a_gpu(on_host, dtype):
    form = FORMATS[dtype]
    most = float(form.decode(form.encode(np.array(np.ldexp(2 - 2.0 ** (1 - form.digits), form.largest - 1)))))
    a = np.array([[most, 0], [most, most], [-most, -most], [1, np.ldexp(1.0, -form.digits)]], np.float32)
    _, found = run(on_host, products.exact(dtype, a, np.ones((2, 1), np.float32)))
    assert found.ravel().tolist() == [most, np.inf, -np.inf, 1.0]


@DTYPE
def test_no_inner_axis_gives_zeros_and_no_output_no_launch_without_a_gpu(on_host, dtype):
    library, name = on_host.kernel("matmul", "matmul_tensor"), f"kv_matmul_{dtype}_cuda"
    for n in (16, 5):
        out = output((3, n), STORED[OUTPUTS[dtype]])
        assert library.call(name, None, None, out, 3, n, 0) == 0
        assert not np.any(out.array)
    for m, n in ((0, 5), (5, 0), (0, 0)):
        assert library.call(name, None, None, None, m, n, 3) == 0
        assert library.launches == []


@DTYPE
def test_statuses_without_a_gpu(on_host, dtype):
    library, name = on_host.kernel("matmul", "matmul_tensor"), f"kv_matmul_{dtype}_cuda"
    taken = arguments(products.integer_case(dtype, 5, 6, 7))
    for place, status in ((0, 2), (1, 2), (2, 2), (3, 1), (4, 1), (5, 1)):
        wrong = None if place < 3 else -1
        assert library.call(name, *taken[:place], wrong, *taken[place + 1 :]) == status
        assert library.launches == []
    assert library.call(name, *taken, device=2) == 1101
    assert library.call(name, *taken, capability=7) == 1801  # no tensor cores that multiply these
    assert library.launches == []


def tensor(dtype: str, shape: tuple[int, ...], device: str = "cpu") -> HostTensor:
    kind = np.int8 if dtype == "int8" else np.int32 if dtype == "int32" else FORMATS[dtype].stored
    made = Typed(np.zeros(shape, kind), dtype)
    made.device = device
    return made


@DTYPE
def test_the_cpu_multiplies_float32_alone(dtype):
    with pytest.raises(ArgumentTypeError, match=f"a: got dtype {dtype}, wanted float32$"):
        kernels.matmul(tensor(dtype, (2, 3)), tensor(dtype, (3, 4)))
    with pytest.raises(AttributeError):
        _ = LIBRARY[f"kv_matmul_{dtype}_cpu"]


@DTYPE
def test_dtypes_must_fit_together(dtype):
    a, b = tensor(dtype, (2, 3), "cuda:0"), tensor(dtype, (3, 4), "cuda:0")
    with pytest.raises(ArgumentTypeError, match=f"b: got dtype float32, wanted {dtype}$"):
        kernels.matmul(a, tensor("float32", (3, 4), "cuda:0"))
    with pytest.raises(ArgumentTypeError, match=f"out: got dtype float32, wanted {OUTPUTS[dtype]}$"):
        kernels.matmul(a, b, out=tensor("float32", (2, 4), "cuda:0"))
    with pytest.raises(
        ArgumentTypeError, match=r"a: got dtype float64, wanted float32 or float16 or bfloat16 or int8$"
    ):
        kernels.matmul(tensor("float64", (2, 3), "cuda:0"), b)
    with pytest.raises(ArgumentValueError, match=r"out: got bytes .* overlap a"):
        kernels.matmul(a, b, out=view(a, OUTPUTS[dtype]))


def view(a: HostTensor, dtype: str) -> HostTensor:
    """A tensor of shape (2, 4) that begins where `a` does."""
    memory = np.zeros(64, np.uint8)
    a.array = memory[: a.array.nbytes].view(a.array.dtype).reshape(a.array.shape)
    kind = STORED[dtype]
    made = Typed(memory[: 8 * np.dtype(kind).itemsize].view(kind).reshape(2, 4), dtype)
    made.device = a.device
    return made


@DTYPE
@pytest.mark.skipif(kernels.cuda_status() is None, reason="the CUDA kernels run here")
def test_without_a_gpu_it_is_said_why(dtype):
    a, b = tensor(dtype, (2, 3), "cuda:0"), tensor(dtype, (3, 4), "cuda:0")
    out = tensor(OUTPUTS[dtype], (2, 4), "cuda:0")
    wanted = r"matmul: .*(driver|device)" if HAS_CUDA else "built without CUDA"
    with pytest.raises(LaunchError, match=wanted):
        kernels.matmul(a, b, out=out, stream=0 if HAS_CUDA else None)


def test_an_entry_point_of_cuda_alone_is_not_called_for_the_cpu():
    function = NativeFunction("matmul_int8", [], cpu=False)
    argument = read("a", HostTensor(np.zeros(4, np.int8)), "int8")
    with pytest.raises(LaunchError, match="matmul_int8: the tensors are on the CPU, for which there is no kernel"):
        function.bind((argument,), (), None, None)


@pytest.mark.skipif(not HAS_CUDA, reason="built without CUDA kernels")
def test_the_build_says_what_the_kernels_of_both_files_take():
    figures = kernels.build_info()["kernels"]["matmul"]["ptxas"]
    found = {(figure["function"], figure["architecture"]) for figure in figures}
    paths = [f"{tile}_{path}" for tile in (64, 128) for path in ("vector", "scalar")]
    names = {f"kv_matmul_{dtype}{path}" for dtype in ("", *(f"{dtype}_" for dtype in DTYPES)) for path in paths}
    assert {name for name, _ in found} == names
    assert len(found) == len(figures) == len(names) * len(kernels.build_info()["cuda_architectures"])


@pytest.mark.cuda
@DTYPE
@pytest.mark.parametrize("shape", [*SHAPES, (2051, 2049, 67), (2048, 2176, 256)], ids=str)
@pytest.mark.parametrize("offset", [0, 1])
def test_any_shape_and_alignment(dtype, shape, offset):
    for case in (products.integer_case, products.normal_case)[: 1 if dtype == "int8" else 2]:
        guarded.run(case(dtype, *shape), "cuda", (offset,) * 3)


@pytest.mark.cuda
@DTYPE
def test_no_inner_axis_gives_zeros(dtype):
    found = guarded.run(products.integer_case(dtype, 3, 5, 0), "cuda")
    assert not np.any(found)


@pytest.mark.cuda
@FLOATS
def test_nan_and_infinity_reach_exactly_their_row_and_column(dtype):
    a, b = products.integers(dtype, 1, (140, 131)), products.integers(dtype, 2, (131, 150))
    clean = guarded.run(products.exact(dtype, a, b), "cuda")
    a[7, 3], b[5, 11] = np.nan, np.inf
    dirty = guarded.Prepared(products.exact(dtype, a, b), "cuda")
    dirty.call()
    assert_spread(dirty.out.read(dirty.out.host()), clean)


@pytest.mark.cuda
def test_sums_of_int8_wrap_around():
    k = 131072 + 16
    a, b = np.full((1, k), -128, np.int8), np.full((k, 16), -128, np.int8)
    case = Case("matmul", (a, b), (), (1, 16), "int32", lambda _output, _device: None, inputs="int8")
    assert np.all(guarded.run(case, "cuda") == k * 2**14 - 2**32)


@pytest.mark.cuda
@DTYPE
def test_an_output_that_is_not_given_is_allocated(dtype):
    prepared = guarded.Prepared(products.integer_case(dtype, 17, 19, 23), "cuda")
    made = kernels.matmul(*prepared.inputs)
    assert str(made.dtype) == f"torch.{OUTPUTS[dtype]}"
    prepared.case.check(guarded.to_numpy(made), "cuda")
