"""matmul_bias_relu against float64: on the CPU with each instruction set, on a GPU, and without one (cuda_on_host)."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

import kernels
from kernels._native.errors import ArgumentTypeError, ArgumentValueError
from kernels._native.library import LIBRARY
from tests.cuda_on_host.calling import ORDERS, Memory, output
from tests.kernels import guarded
from tests.kernels.instruction_sets import ISAS
from tests.kernels.references import UNIT_ROUNDOFF, Case
from tests.kernels.stand_in import HostTensor, float32_values, poisoned

NAME = "matmul_bias_relu"
SHAPES = [(1, 1, 1), (17, 19, 23), (129, 65, 33), (64, 64, 16), (130, 132, 12), (3, 5, 0), (131, 127, 300)]
SHAPE = pytest.mark.parametrize("shape", SHAPES, ids=str)


def case_of(a: np.ndarray, b: np.ndarray, bias: np.ndarray) -> Case:
    """k products and the addition of bias, each within a unit of roundoff of |A||B| + |bias| (Higham, section 3.5)."""

    def check(found: np.ndarray, _device: str) -> None:
        exact = np.maximum(a.astype(np.float64) @ b.astype(np.float64) + bias, 0)
        size = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64) + np.abs(bias)
        wrong = np.argwhere(~(np.abs(found - exact) <= (a.shape[1] + 2) * UNIT_ROUNDOFF * size))
        assert wrong.size == 0, f"{len(wrong)} of {exact.size} wrong, first at {wrong[0]}"

    return Case(NAME, (a, b, bias), (), (a.shape[0], b.shape[1]), "float32", check)


def random_case(m: int, n: int, k: int) -> Case:
    return case_of(float32_values(m, (m, k)), float32_values(n, (k, n)), float32_values(k, (n,), 3))


def on_cpu(case: Case, threads: int | None = None) -> np.ndarray:
    out = HostTensor(poisoned(case.shape, "float32"))
    kernels.matmul_bias_relu(*map(HostTensor, case.arrays), out=out, threads=threads)
    return out.array


@pytest.mark.parametrize("isa", ISAS, indirect=True, scope="module")
@pytest.mark.parametrize("shape", [*SHAPES, (13, 1030, 257), (400, 33, 513), (2, 0, 3), (0, 2, 3)], ids=str)
def test_any_shape_on_the_cpu_by_any_number_of_threads(isa, shape):
    case = random_case(*shape)
    found = on_cpu(case)
    case.check(found, "cpu")
    assert np.array_equal(on_cpu(case, threads=3), found)
    product = HostTensor(poisoned(case.shape, "float32"))
    kernels.matmul(*map(HostTensor, case.arrays[:2]), out=product)
    assert np.array_equal(found, np.maximum(product.array + case.arrays[2], 0))  # the same sums


def test_special_values_on_the_cpu():
    a = np.array([[np.nan], [1], [-1], [0]], np.float32)
    b, bias = np.ones((1, 3), np.float32), np.array([0, np.inf, -1], np.float32)
    found = on_cpu(Case(NAME, (a, b, bias), (), (4, 3), "float32", lambda *_: None))
    assert np.array_equal(found, [[np.nan] * 3, [1, np.inf, 0], [0, np.inf, 0], [0, np.inf, 0]], equal_nan=True)


@SHAPE
@pytest.mark.parametrize("tile", [64, 128])
def test_any_shape_without_a_gpu(on_host, shape, tile):
    case = random_case(*shape)
    for shift in (0, 1):
        arrays = [Memory(array, shift) for array in case.arrays]
        out = output(case.shape, np.float32, shift)
        library, processors = on_host.kernel(NAME), 1 if tile == 128 else 1000
        (m, n), k = case.shape, shape[2]
        for order in ORDERS[: 4 if shape == (17, 19, 23) else 1]:
            status = library.call(f"kv_{NAME}_cuda", *arrays, out, m, n, k, processors=processors, order=order)
            path = "scalar" if shift or n % 4 else "vector"
            assert (status, [one.kernel for one in library.launches]) == (0, [f"kv_{NAME}_{tile}_{path}"])
            case.check(out.array, "cuda")


def test_statuses():
    case = random_case(5, 6, 7)
    a, b, bias = (array.ctypes.data for array in case.arrays)
    out = np.zeros(case.shape, np.float32)
    function = import_module(f"kernels.{NAME}")._NATIVE
    assert function.name == NAME
    for pointers in ((None, b, bias), (a, None, bias), (a, b, None)):
        assert raw(*pointers, out.ctypes.data, 5, 6, 7, 1) == 2
    assert raw(a, b, bias, None, 5, 6, 7, 1) == 2
    assert raw(None, None, None, None, 0, 0, 7, 1) == 0
    assert [raw(a, b, bias, out.ctypes.data, *sizes, 1) for sizes in ((-1, 6, 7), (5, -1, 7), (5, 6, -1))] == [1] * 3
    assert raw(a, b, bias, out.ctypes.data, 5, 6, 7, 0) == 3


def raw(*arguments: int | None) -> int:
    import ctypes

    types = [ctypes.c_void_p] * 4 + [ctypes.c_int64] * 3 + [ctypes.c_int]
    return LIBRARY[f"kv_{NAME}_cpu"](*(kind(value) for kind, value in zip(types, arguments, strict=True)))


def test_statuses_without_a_gpu(on_host):
    case, library = random_case(5, 6, 7), on_host.kernel(NAME)
    taken = [*map(Memory, case.arrays), output(case.shape, np.float32), 5, 6, 7]
    for place in range(7):
        wrong = None if place < 4 else -1
        expected = 2 if place < 4 else 1
        assert library.call(f"kv_{NAME}_cuda", *taken[:place], wrong, *taken[place + 1 :]) == expected
    assert library.call(f"kv_{NAME}_cuda", None, None, None, None, 0, 6, 7) == 0
    assert library.launches == []


def test_what_does_not_fit_is_refused():
    a, b, bias = map(HostTensor, random_case(5, 6, 7).arrays)
    with pytest.raises(ArgumentValueError, match=r"bias: got shape \[5\], wanted \[6\] \(columns of b\)"):
        kernels.matmul_bias_relu(a, b, HostTensor(float32_values(1, (5,))))
    with pytest.raises(ArgumentTypeError, match=r"bias: got dtype float64, wanted float32$"):
        kernels.matmul_bias_relu(a, b, HostTensor(np.zeros(6)))
    with pytest.raises(ArgumentTypeError, match=r"a: got dtype int8, wanted float32$"):
        kernels.matmul_bias_relu(HostTensor(np.zeros((5, 7), np.int8)), b, bias)
    memory = float32_values(1, (30,))
    with pytest.raises(ArgumentValueError, match=r"out: got bytes .* overlap bias"):
        kernels.matmul_bias_relu(a, b, HostTensor(memory[:6]), out=HostTensor(memory.reshape(5, 6)))
    assert kernels.matmul_bias_relu(a, b, bias).shape == (5, 6)


@pytest.mark.cuda
@pytest.mark.parametrize("shape", [*SHAPES, (2051, 2049, 67)], ids=str)
@pytest.mark.parametrize("offset", [0, 1])
def test_any_shape_and_alignment(shape, offset):
    guarded.run(random_case(*shape), "cuda", (offset,) * 4)
