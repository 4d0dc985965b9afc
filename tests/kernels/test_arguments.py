"""Checks that all kernels share, and the call that `bind` returns."""

from __future__ import annotations

import ctypes
import gc
import re
import weakref
from collections.abc import Iterator
from importlib import import_module

import numpy as np
import pytest

import kernels
from kernels._native import library, multiply_adds, streams
from kernels._native.arguments import read
from kernels._native.errors import ArgumentTypeError, ArgumentValueError, KernelError, LaunchError
from kernels._native.launch import NativeFunction
from kernels._native.library import HAS_CUDA, raise_for_status, status_text
from tests.kernels.numbers import FORMATS, Typed
from tests.kernels.stand_in import HostTensor, float32_values, poisoned

add_mul_exp = import_module("kernels.add_mul_exp")


class Strided(HostTensor):
    """A tensor that tells its layout by strides in bytes, as arrays of other libraries do."""

    is_contiguous = property()  # hasattr() is False

    @property
    def strides(self) -> tuple[int, ...] | None:
        return self.array.strides


def four() -> HostTensor:
    return HostTensor(float32_values(1, (4,)))


@pytest.mark.parametrize("name", kernels.KERNELS)
def test_kernel_keeps_its_api(name):
    module = import_module(f"kernels.{name}")
    assert set(module.SUPPORTS["devices"]) <= {"cpu", "cuda"}
    assert module.SUPPORTS["dtypes"]
    assert {"out", "stream", "threads"} <= set(module.SUPPORTS["keywords"])
    assert callable(module.bind)
    assert getattr(kernels, name) is getattr(module, name)
    assert callable(getattr(kernels, name))  # the second access too


def test_unknown_kernel_is_explained():
    with pytest.raises(AttributeError, match="kernels has no 'softmax'; the kernels of this build are add_mul_exp"):
        _ = kernels.softmax


@pytest.mark.parametrize("kind", [HostTensor, Strided])
def test_gaps_and_transposes_are_refused(kind):
    matrix = float32_values(1, (4, 6))
    for array in (matrix.T, matrix[:, ::2], matrix[:, :3], matrix[::-1]):
        with pytest.raises(ArgumentValueError, match=r"x: got a tensor of shape .* that is not contiguous"):
            kernels.add_mul_exp(kind(array), kind(array))


@pytest.mark.parametrize("kind", [HostTensor, Strided])
def test_axes_of_one_element_are_contiguous(kind):
    matrix = float32_values(1, (4, 6))
    for array in (matrix, matrix[:1], matrix[:1, ::6], matrix[:0].T, matrix[2:3]):
        assert kernels.add_mul_exp(kind(array), kind(array)).shape == array.shape


def test_hidden_layout_is_refused():
    class Mute(HostTensor):
        is_contiguous = property()

    with pytest.raises(ArgumentTypeError, match="x: Mute has neither is_contiguous"):
        kernels.add_mul_exp(Mute(float32_values(1, (4,))), four())


def test_tensor_that_cannot_allocate_needs_out():
    class Fixed(HostTensor):
        new_empty = property()

    with pytest.raises(ArgumentTypeError, match=r"no new_empty\(\) .* pass out= of shape \[4\] and dtype float32"):
        kernels.add_mul_exp(Fixed(float32_values(1, (4,))), four())


def test_kv_threads_is_read_and_checked(monkeypatch):
    monkeypatch.setenv("KV_THREADS", "2")
    assert kernels.add_mul_exp(four(), four()).shape == (4,)
    monkeypatch.setenv("KV_THREADS", "two")
    with pytest.raises(ArgumentValueError, match="KV_THREADS: got 'two'"):
        kernels.add_mul_exp(four(), four())
    assert kernels.add_mul_exp(four(), four(), threads=1).shape == (4,)


def test_bound_call_keeps_its_tensors():
    x, out = four(), HostTensor(poisoned((4,), "float32"))
    call = add_mul_exp.bind(x, x, out=out)
    assert np.all(np.isnan(out.array))
    assert call() == 0
    first = out.array.copy()
    x.array[:] = 0
    assert call() == 0
    assert np.all(out.array == 1)
    assert not np.array_equal(first, out.array)
    alive = weakref.ref(x)
    del x
    gc.collect()
    assert alive() is not None
    del call
    gc.collect()
    assert alive() is None


def test_statuses_become_errors():
    assert status_text(0) == "ok"
    assert status_text(1) == "a size is negative"
    assert status_text(999) == "a status code that this library does not know"
    raise_for_status("matmul", 0)
    with pytest.raises(LaunchError, match=r"matmul: fewer than one thread asked for \(status 3\)"):
        raise_for_status("matmul", 3)
    assert issubclass(LaunchError, KernelError)


def native_functions() -> dict[str, NativeFunction]:
    """Return the functions of the library by name, those that only the harness calls too."""
    result = [streams._COPY, streams._TRIAD, *multiply_adds._FUNCTIONS.values()]
    for name in kernels.KERNELS:
        native = import_module(f"kernels.{name}")._NATIVE
        result += native.values() if isinstance(native, dict) else [native]
    return {function.name: function for function in result}


def wrong_arguments(types: list[type]) -> Iterator[tuple[list, int]]:
    """Yield what a function takes besides where it runs, one argument of it wrong, and the status that this has."""
    for index, kind in enumerate(types):
        if kind is ctypes.c_void_p:
            yield [None if index == other else 2 for other in range(len(types))], 2
        elif kind is ctypes.c_int64:
            yield [-1 if index == other else 2 for other in range(len(types))], 1


@pytest.mark.parametrize("isa", library.cpu_isas(), indirect=True)
@pytest.mark.parametrize("name", [name for name, function in native_functions().items() if function._cpu])
def test_native_statuses(isa, name):
    function = native_functions()[name]
    types, memory = function._cpu_types[:-1], [np.zeros(8) for _ in function._cpu_types]

    def status(values: list, threads: int) -> int:
        pointers = [array.ctypes.data for array in memory]
        triples = zip(types, values, pointers, strict=False)
        converted = [kind(at if kind is ctypes.c_void_p and value else value) for kind, value, at in triples]
        return function._cpu(*converted, ctypes.c_int(threads))

    assert [status(values, 1) for values, _ in wrong_arguments(types)] == [code for _, code in wrong_arguments(types)]
    assert status([2] * len(types), 0) == 3
    nothing = [None if kind is ctypes.c_void_p else 0 for kind in types]
    assert (status(nothing, 1), status(nothing, 0)) == (0, 3)
    assert not np.any(memory)


def test_missing_native_code_is_an_error_at_declaration():
    with pytest.raises(AttributeError, match="kv_missing_cpu"):
        NativeFunction("missing", [])


@pytest.mark.skipif(not HAS_CUDA, reason="built without CUDA kernels")
def test_cuda_errors_have_texts():
    assert status_text(1000 + 2) == "out of memory"
    if kernels.cuda_status() is not None:
        with pytest.raises(LaunchError, match=r"add_mul_exp: .*(driver|device)"):
            exp(on_cuda(0, 4), on_cuda(64, 4), out=on_cuda(128, 4), stream=0)
        a, b = on_cuda(0, 2, 3, dtype="int8"), on_cuda(64, 3, 4, dtype="int8")
        with pytest.raises(LaunchError, match=r"matmul: .*(driver|device)"):
            product(a, b, out=on_cuda(128, 2, 4, dtype="int32"), stream=0)


@pytest.mark.skipif(HAS_CUDA, reason="built with CUDA kernels")
def test_build_without_cuda_refuses_cuda_tensors():
    x = HostTensor(float32_values(1, (4,)), device="cuda:0")
    with pytest.raises(LaunchError, match="built without CUDA: no CUDA compiler at build time"):
        kernels.add_mul_exp(x, x)


MEMORY = np.zeros(512, np.uint8)


def at(byte: int, *shape: int, dtype: str = "float32", device: str = "cpu") -> HostTensor:
    """Return a tensor that begins at this byte of the memory that all of them share."""
    stored = np.dtype(FORMATS[dtype].stored if dtype in FORMATS else dtype)
    end = byte + int(np.prod(shape)) * stored.itemsize
    return Typed(MEMORY[byte:end].view(stored).reshape(shape), dtype, device)


def on_cuda(byte: int, *shape: int, dtype: str = "float32") -> HostTensor:
    return at(byte, *shape, dtype=dtype, device="cuda:0")


FOUR, INTEGERS = at(0, 4), at(64, 4, dtype="int8")
MATRIX, ROWS, SCALES = at(0, 4, 8), at(128, 4, 8, dtype="int8"), at(256, 4)
exp, quantize, rows = kernels.add_mul_exp, kernels.quantize_int8, kernels.quantize_int8_rows
product, bias_relu = kernels.matmul, kernels.matmul_bias_relu
WRONG_TYPES = {
    "x: got list without shape; wanted a tensor with data_ptr": lambda: exp([1.0], FOUR),
    "x: got dtype int32, wanted float32 or float64 or float16 or bfloat16$": lambda: exp(at(0, 4, dtype="int32"), FOUR),
    "x: got dtype float64, wanted float32 or float16 or bfloat16$": lambda: exp(
        on_cuda(0, 4, dtype="float64"), on_cuda(64, 4, dtype="float64")
    ),
    "y: got dtype float32, wanted float64$": lambda: exp(at(0, 4, dtype="float64"), FOUR),
    "out: got dtype int8, wanted float32$": lambda: exp(FOUR, FOUR, out=INTEGERS),
    "x: got dtype int8, wanted float32 or float16 or bfloat16$": lambda: quantize(INTEGERS, 1.0, 0),
    "out: got dtype float32, wanted int8$": lambda: quantize(FOUR, 1.0, 0, out=at(64, 4)),
    "scale: got 'a', wanted a number": lambda: quantize(FOUR, "a", 0),
    r"zero_point: got 1\.5, wanted an integer": lambda: quantize(FOUR, 1.0, 1.5),
    "x: got dtype int32, wanted float32 or float16 or bfloat16": lambda: rows(at(0, 2, 2, dtype="int32")),
    "scales: got dtype int8, wanted float32": lambda: rows(MATRIX, INTEGERS),
    "bias: got dtype int8, wanted float32$": lambda: bias_relu(at(0, 4, 4), at(64, 4, 4), INTEGERS),
    "b: got dtype float32, wanted int8$": lambda: product(on_cuda(0, 2, 3, dtype="int8"), on_cuda(64, 3, 4)),
    "out: got dtype int8, wanted int32$": lambda: product(
        on_cuda(0, 2, 3, dtype="int8"), on_cuda(64, 3, 4, dtype="int8"), out=on_cuda(128, 2, 4, dtype="int8")
    ),
    "a: got dtype float64, wanted float32 or float16 or bfloat16 or int8 or float8_e4m3fn$": lambda: product(
        on_cuda(0, 2, 3, dtype="float64"), on_cuda(64, 3, 4, dtype="float64")
    ),
    "out: got dtype float64, wanted float32": lambda: streams.bind_copy(FOUR, at(64, 4, dtype="float64")),
    "items: got dtype int8, wanted float32 or float64": lambda: multiply_adds.bind(INTEGERS, 1.0, 1.0, 1),
}
WRONG_VALUES = {
    "x: got device 'mps:0', wanted 'cpu' or 'cuda:N'": lambda: exp(at(0, 4, device="mps:0"), FOUR),
    "out: got device cuda:0, wanted cpu as x": lambda: quantize(FOUR, 1.0, 0, out=on_cuda(64, 4, dtype="int8")),
    "b: got device cuda:0, wanted cpu as a": lambda: product(at(0, 2, 2), on_cuda(64, 2, 2)),
    "bias: got device cuda:0, wanted cpu as a": lambda: bias_relu(at(0, 2, 2), at(64, 2, 2), on_cuda(128, 2)),
    "y: got device cuda:1, wanted cpu as x": lambda: exp(FOUR, at(0, 4, device="cuda:1")),
    r"y: got shape \[5\], wanted \[4\]": lambda: exp(FOUR, at(0, 5)),
    r"out: got bytes .* overlap x .* wanted separate memory, or exactly x": lambda: exp(FOUR, at(64, 4), out=at(4, 4)),
    r"out: got bytes .* overlap x .* wanted separate memory$": lambda: quantize(
        FOUR, 1.0, 0, out=at(8, 4, dtype="int8")
    ),
    r"x: got shape \[4\], wanted two axes": lambda: rows(FOUR),
    r"scales: got shape \[3\], wanted \[4\] \(one for each row of x\)": lambda: rows(MATRIX, at(256, 3)),
    "scales: got device cuda:0, wanted cpu as x": lambda: rows(MATRIX, on_cuda(256, 4)),
    "out: got bytes .* overlap x": lambda: rows(MATRIX, SCALES, out=at(8, 4, 8, dtype="int8")),
    "out: got bytes .* overlap scales": lambda: rows(MATRIX, SCALES, out=at(256, 4, 8, dtype="int8")),
    "scales: got bytes .* overlap x": lambda: rows(MATRIX, FOUR, out=ROWS),
    r"b: got shape \[4, 5\], wanted \[3, n\]": lambda: product(at(0, 2, 3), at(64, 4, 5)),
    r"a: got shape \[4\], wanted two axes": lambda: product(FOUR, MATRIX),
    r"out: got shape \[2, 2\], wanted \[2, 3\]": lambda: product(at(0, 2, 2), at(64, 2, 3), out=at(128, 2, 2)),
    "overlap a .* wanted separate memory$": lambda: product(at(0, 2, 2), at(64, 2, 2), out=at(0, 2, 2)),
    r"bias: got shape \[5\], wanted \[6\] \(columns of b\)": lambda: bias_relu(at(0, 1, 4), at(64, 4, 6), at(256, 5)),
    "overlap bias": lambda: bias_relu(at(0, 1, 4), at(64, 4, 4), at(256, 4), out=at(256, 1, 4)),
    r"wanted \[3\] \(the shape of out\)": lambda: streams.bind_triad(FOUR, FOUR, at(64, 3)),
    "out: got bytes .* overlap source": lambda: streams.bind_copy(FOUR, at(4, 4)),
    "steps: got -1": lambda: multiply_adds.bind(FOUR, 1.0, 1.0, -1),
    "stream: got one for tensors on the CPU": lambda: exp(FOUR, FOUR, stream=0),
    "threads: got 2 for tensors on cuda:0, wanted None": lambda: exp(on_cuda(0, 4), on_cuda(0, 4), threads=2),
    **{
        f"threads: got {threads}, wanted 1 to 1024": lambda threads=threads: exp(FOUR, FOUR, threads=threads)
        for threads in (0, -1, 1025)
    },
    **{
        rf"scale: got {re.escape(str(scale))}.* wanted a finite": lambda scale=scale: quantize(FOUR, scale, 0)
        for scale in (0.0, -1.0, float("nan"), float("inf"), 1e-46, 1e39)
    },
    **{
        f"zero_point: got {zero}, wanted -128 to 127": lambda zero=zero: quantize(FOUR, 1.0, zero)
        for zero in (-129, 128)
    },
}


@pytest.mark.parametrize(
    ("error", "message"),
    [*((ArgumentTypeError, message) for message in WRONG_TYPES), *((ArgumentValueError, key) for key in WRONG_VALUES)],
)
def test_wrong_argument_is_refused(error, message):
    with pytest.raises(error, match=message):
        (WRONG_TYPES | WRONG_VALUES)[message]()


@pytest.mark.skipif(not HAS_CUDA, reason="built without CUDA kernels")
def test_wrong_stream_is_refused():
    with pytest.raises(ArgumentTypeError, match="stream: got str"):
        exp(on_cuda(0, 4), on_cuda(0, 4), stream="fast")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8"])
def test_cpu_multiplies_float32_alone(dtype):
    with pytest.raises(ArgumentTypeError, match=f"a: got dtype {dtype}, wanted float32$"):
        product(at(0, 2, 3, dtype=dtype), at(64, 3, 4, dtype=dtype))
    function = NativeFunction(f"matmul_{dtype}", [], cpu=False)
    with pytest.raises(LaunchError, match=f"matmul_{dtype}: the tensors are on the CPU, for which there is no kernel"):
        function.bind((read("a", at(0, 4, dtype=dtype), dtype),), (), None, None)


def test_outputs_are_allocated():
    for dtype in ("float32", "float64", "float16", "bfloat16"):
        x = at(0, 2, 3, dtype=dtype)
        assert (exp(x, x).shape, exp(x, x).dtype) == ((2, 3), dtype)
        if dtype != "float64":
            integers, (out, scales) = quantize(x, 1.0, 0), rows(x)
            assert (integers.shape, integers.dtype, out.shape, out.dtype) == ((2, 3), "int8", (2, 3), "int8")
            assert (scales.shape, scales.dtype) == ((2,), "float32")
    assert exp(at(0, 3, 0, 2), at(0, 3, 0, 2)).shape == (3, 0, 2)
    assert product(at(0, 2, 3), at(64, 3, 5)).shape == bias_relu(at(0, 2, 3), at(64, 3, 5), at(256, 5)).shape == (2, 5)
