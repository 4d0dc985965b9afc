"""Checks that all kernels share, and the call that `bind` returns."""

from __future__ import annotations

import gc
import weakref
from importlib import import_module

import numpy as np
import pytest

import kernels
from kernels._native.errors import ArgumentTypeError, ArgumentValueError, KernelError, LaunchError
from kernels._native.launch import NativeFunction
from kernels._native.library import HAS_CUDA, LIBRARY, raise_for_status, status_text
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
def test_every_kernel_keeps_its_api(name):
    module = import_module(f"kernels.{name}")
    assert set(module.SUPPORTS["devices"]) <= {"cpu", "cuda"}
    assert module.SUPPORTS["dtypes"]
    assert {"out", "stream", "threads"} <= set(module.SUPPORTS["keywords"])
    assert callable(module.bind)
    assert getattr(kernels, name) is getattr(module, name)
    assert callable(getattr(kernels, name))  # the second access too


@pytest.mark.parametrize("name", ["add_mul_exp", "matmul", "quantize_int8"])
def test_the_kernels_of_the_first_commit_are_there(name):
    supports = import_module(f"kernels.{name}").SUPPORTS
    assert name in kernels.KERNELS
    assert supports["devices"] == ("cpu", "cuda")
    assert "float32" in supports["dtypes"]


def test_an_unknown_kernel_is_explained():
    with pytest.raises(AttributeError, match="kernels has no 'softmax'; the kernels of this build are add_mul_exp"):
        _ = kernels.softmax


def test_what_is_no_tensor_is_refused():
    with pytest.raises(ArgumentTypeError, match="x: got list without shape; wanted a tensor with data_ptr"):
        kernels.add_mul_exp([1.0], four())
    with pytest.raises(ArgumentTypeError, match="a: got dtype float64, wanted float32"):
        kernels.matmul(HostTensor(np.zeros((4, 4))), four())


def test_an_unknown_device_is_refused():
    with pytest.raises(ArgumentValueError, match="x: got device 'mps:0', wanted 'cpu' or 'cuda:N'"):
        kernels.add_mul_exp(HostTensor(float32_values(1, (4,)), device="mps:0"), four())


@pytest.mark.parametrize("kind", [HostTensor, Strided])
def test_gaps_and_transposes_are_refused(kind):
    matrix = float32_values(1, (4, 6))
    for array in (matrix.T, matrix[:, ::2], matrix[:, :3], matrix[::-1]):
        with pytest.raises(ArgumentValueError, match=r"x: got a tensor of shape .* that is not contiguous"):
            kernels.add_mul_exp(kind(array), kind(array))


@pytest.mark.parametrize("kind", [HostTensor, Strided])
def test_axes_of_one_element_and_empty_tensors_are_contiguous(kind):
    matrix = float32_values(1, (4, 6))
    for array in (matrix, matrix[:1], matrix[:1, ::6], matrix[:0].T, matrix[2:3]):
        assert kernels.add_mul_exp(kind(array), kind(array)).shape == array.shape


def test_a_tensor_that_hides_its_layout_is_refused():
    class Mute(HostTensor):
        is_contiguous = property()

    with pytest.raises(ArgumentTypeError, match="x: Mute has neither is_contiguous"):
        kernels.add_mul_exp(Mute(float32_values(1, (4,))), four())


def test_a_library_that_cannot_allocate_is_asked_for_out():
    class Fixed(HostTensor):
        new_empty = property()

    with pytest.raises(ArgumentTypeError, match=r"no new_empty\(\) .* pass out= of shape \[4\] and dtype float32"):
        kernels.add_mul_exp(Fixed(float32_values(1, (4,))), four())


def test_stream_and_threads_belong_to_their_devices():
    with pytest.raises(ArgumentValueError, match="stream: got one for tensors on the CPU"):
        kernels.add_mul_exp(four(), four(), stream=0)
    for threads in (0, -1, 1025):
        with pytest.raises(ArgumentValueError, match=f"threads: got {threads}, wanted 1 to 1024"):
            kernels.add_mul_exp(four(), four(), threads=threads)


def test_kv_threads_is_read_and_checked(monkeypatch):
    monkeypatch.setenv("KV_THREADS", "2")
    assert kernels.add_mul_exp(four(), four()).shape == (4,)
    monkeypatch.setenv("KV_THREADS", "two")
    with pytest.raises(ArgumentValueError, match="KV_THREADS: got 'two'"):
        kernels.add_mul_exp(four(), four())
    assert kernels.add_mul_exp(four(), four(), threads=1).shape == (4,)


def test_a_bound_call_computes_at_each_call_and_keeps_its_tensors():
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


def test_status_codes_have_texts_and_become_errors():
    assert status_text(0) == "ok"
    assert status_text(1) == "a size is negative"
    assert status_text(999) == "a status code that this library does not know"
    raise_for_status("matmul", 0)
    with pytest.raises(LaunchError, match=r"matmul: fewer than one thread asked for \(status 3\)"):
        raise_for_status("matmul", 3)
    assert issubclass(LaunchError, KernelError)


def test_the_native_code_checks_for_itself():
    function = LIBRARY["kv_add_mul_exp_cpu"]
    assert [function(None, None, None, n, threads) for n, threads in ((-1, 1), (4, 1), (0, 1), (0, 0))] == [1, 2, 0, 3]


def test_a_kernel_without_native_code_is_found_out_when_it_is_declared():
    with pytest.raises(AttributeError, match="kv_missing_cpu"):
        NativeFunction("missing", [])


@pytest.mark.skipif(not HAS_CUDA, reason="built without CUDA kernels")
def test_cuda_errors_have_cudas_texts():
    assert status_text(1000 + 2) == "out of memory"
    if kernels.cuda_status() is not None:
        x = HostTensor(float32_values(1, (4,)), device="cuda:0")
        with pytest.raises(LaunchError, match=r"add_mul_exp: .*(driver|device)"):
            kernels.add_mul_exp(x, x, out=HostTensor(poisoned((4,), "float32"), device="cuda:0"), stream=0)


@pytest.mark.skipif(HAS_CUDA, reason="built with CUDA kernels")
def test_cuda_tensors_are_refused_by_a_build_without_cuda():
    x = HostTensor(float32_values(1, (4,)), device="cuda:0")
    with pytest.raises(LaunchError, match="built without CUDA: no CUDA compiler at build time"):
        kernels.add_mul_exp(x, x)


def test_cuda_arguments_that_do_not_fit_are_refused():
    x = HostTensor(float32_values(1, (4,)), device="cuda:0")
    with pytest.raises(ArgumentValueError, match="threads: got 2 for tensors on cuda:0, wanted None"):
        kernels.add_mul_exp(x, x, threads=2)
    if HAS_CUDA:
        with pytest.raises(ArgumentTypeError, match="stream: got str"):
            kernels.add_mul_exp(x, x, stream="fast")
