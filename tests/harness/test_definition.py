"""Benchmarks that are defined in a few lines."""

import ctypes
import math
import shutil
import subprocess
import sys
import types

import pytest

from kernel_velocity import benchmark, native
from kernel_velocity.harness.benchmark import WrongResultError
from kernel_velocity.harness.implementations import KernelFailedError
from kernel_velocity.harness.problem import ProblemError
from tests.harness.measuring import asv_environment, rounds

torch = pytest.importorskip("torch", reason="inputs and references are PyTorch's")

__all__ = ["asv_environment"]

CASES = ["float32-8x32", "float32-16x32"]
C_SOURCE = """
#include <xmmintrin.h>
__attribute__((constructor)) static void flush(void) { _mm_setcsr(_mm_getcsr() | 0x8040); }  /* as -Ofast does */
void scale(float* out, const float* x, int rows, int columns) {
    for (int i = 0; i < rows * columns; ++i) out[i] = 2 * x[i];
}
void wrong(float* out, const float* x, int rows, int columns) { out[0] = x[0]; }
void both(float* twice, double* mean, const float* x, int rows, int columns) {
    scale(twice, x, rows, columns);
    *mean = 0;
    for (int i = 0; i < rows * columns; ++i) *mean += x[i];
    *mean /= rows * columns;
}
int refuses(float* out, const float* x) { return 3; }
"""


def inputs(rows, columns):
    return torch.randn(rows, columns)


def reference(x):
    return 2 * x


def define(monkeypatch, members, **options):
    """Return the module of a benchmark whose class has these members."""
    module = types.ModuleType("benchmarks.twice")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    definition = type("Twice", (), {"inputs": inputs, "reference": reference, "__module__": module.__name__, **members})
    module.Doubled = benchmark(**{"cases": CASES, **options})(definition)
    monkeypatch.setattr(module.Doubled, "__module__", __name__)  # where its source is
    monkeypatch.setattr(sys.modules[__name__], "Doubled", module.Doubled, raising=False)
    module.Doubled.__qualname__ = "Source"
    return module


class Source:
    """Stands for the class in a user's file, whose text is part of the key of checked outputs."""


@pytest.fixture
def library(tmp_path, monkeypatch):
    if shutil.which("gcc") is None:
        pytest.skip("no compiler")
    (tmp_path / "twice.c").write_text(C_SOURCE)
    command = ["gcc", "-O2", "-shared", "-fPIC", "twice.c", "-o", "libtwice.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    monkeypatch.setenv("KV_ARTEFACTS", str(tmp_path))
    return "libtwice.so"


def set_up(module, implementation, case=CASES[0]):
    bench = module.Cpu()
    bench.setup(implementation, case)
    return bench


def test_costs_are_computed_when_they_are_read(monkeypatch):
    devices = []
    module = define(monkeypatch, {"reference": lambda x: devices.append(x.device.type) or 2 * x})
    assert devices == []
    for _ in range(2):
        assert module.Cpu.bytes == {CASES[0]: 2048, CASES[1]: 4096}
    assert devices == ["meta"] * 2  # once a case


def test_axes_and_costs(monkeypatch):
    module = define(monkeypatch, {"ours": lambda x: x + x}, flops=lambda rows, columns: rows * columns, compiled=True)
    assert module.Cpu.params == [["eager", "compile", "ours"], CASES]
    assert module.Cpu.error_params[1] == module.Cpu.params[1]  # core: the first and the last
    assert module.Cpu.flops == {CASES[0]: 256, CASES[1]: 512}
    assert module.Cpu.bytes == {CASES[0]: 2048, CASES[1]: 4096}  # x and the result
    assert module.Doubled.kernel == "twice" and not hasattr(module.Cpu, "track_code_bytes")


def test_sizes_beside_names_and_bytes_by_formula(monkeypatch):
    module = define(monkeypatch, {}, cases={"small": (2, 3)}, bytes=lambda rows, columns: 7 * rows, devices=["cpu"])
    assert module.Cpu.params == [["eager"], ["small"]] and module.Cpu.bytes == {"small": 14}
    assert not hasattr(module, "Cuda")


def test_bytes_of_a_reference_that_must_compute_are_unknown(monkeypatch):
    module = define(monkeypatch, {"reference": lambda x: x[x > 0]})
    assert module.Cpu.bytes == {}


@pytest.mark.parametrize("case", ["float64-4x4", "bfloat16-4x4", "int8-4x4"])
def test_inputs_have_the_dtype_of_the_case_and_the_same_values(monkeypatch, case):
    problem = define(monkeypatch, {}, cases=[case]).Doubled()
    (first,), (second,) = problem.inputs_of(case), problem.inputs_of(case)
    assert str(first.dtype) == "torch." + case.partition("-")[0].replace("int8", "float32")  # no default dtype
    assert torch.equal(first, second) and torch.get_default_dtype() is torch.float32


@pytest.mark.parametrize(
    "ours",
    [lambda x: 2 * x, lambda x, out: torch.mul(x, 2, out=out), lambda x, rows: x * (2 + rows - rows)],
    ids=["returns", "writes", "size"],
)
def test_python_function_is_measured(asv_environment, monkeypatch, ours):
    bench = set_up(define(monkeypatch, {"ours": ours}), "ours")
    bench.measure("twice.Cpu.time_hot", "ours", CASES[0])
    assert rounds(asv_environment)[0].estimate > 0


def test_numpy_is_compared_as_tensors(asv_environment, monkeypatch):
    set_up(define(monkeypatch, {"ours": lambda x: x.numpy() * 2}), "ours")


def test_c_function_is_measured(asv_environment, monkeypatch, library):
    ours = native(library, "void scale(float *out, const float* __restrict__ x, int rows, int columns);")
    bench = set_up(define(monkeypatch, {"ours": ours}), "ours")
    bench.measure("twice.Cpu.time_hot", "ours", CASES[0])
    assert rounds(asv_environment)[0].params == ("ours", CASES[0])


def test_several_outputs(asv_environment, monkeypatch, library):
    ours = native(library, "void both(float* twice, double* mean, const float x[], int rows, int columns)")
    members = {"ours": ours, "reference": lambda x: (2 * x, x.double().mean())}
    set_up(define(monkeypatch, members), "ours")


def test_loading_leaves_subnormal_numbers(monkeypatch, library):
    native(library, "void scale(float* out, float* x, int rows, int columns)").load()
    assert ctypes.c_float(math.ldexp(1, -140)).value * 1.0 == math.ldexp(1, -140)
    assert (torch.full((4,), 2.0**-126) / 16).sum().item() > 0


@pytest.mark.parametrize(
    ("signature", "error", "message"),
    [
        (
            "void wrong(float* out, float* x, int rows, int columns)",
            WrongResultError,
            "twice ours float32-8x32 is wrong",
        ),
        ("int refuses(float* out, float* x)", KernelFailedError, "refuses of libtwice.so returned status 3"),
        ("void absent(float* out, float* x)", NotImplementedError, "libtwice.so of this commit has no function absent"),
        ("void scale(double* out, float* x)", ProblemError, r"double\* out gets a tensor of float32"),
        ("void both(float* out, double* mean, float* x)", ProblemError, "2 arguments are outputs .* returns 1"),
        ("void scale(float* out, int x)", ProblemError, "int x gets a tensor"),
    ],
)
@pytest.mark.usefixtures("asv_environment", "library")
def test_c_function_that_does_not_fit(monkeypatch, signature, error, message):
    module = define(monkeypatch, {"ours": native("libtwice.so", signature)})
    with pytest.raises(error, match=message):
        set_up(module, "ours")


def test_missing_artefact_is_na(asv_environment, monkeypatch, library):
    module = define(monkeypatch, {"ours": native("libgone.so", "void scale(float* out, float* x)")})
    with pytest.raises(NotImplementedError, match=r"made no libgone\.so"):
        set_up(module, "ours")
    monkeypatch.delenv("KV_ARTEFACTS")
    with pytest.raises(NotImplementedError, match="KV_ARTEFACTS names no folder"):
        set_up(module, "ours")


def test_function_of_another_device_is_na(asv_environment, monkeypatch, library):
    ours = native(library, "void scale(float* out, float* x)", device="cuda")
    with pytest.raises(NotImplementedError, match="ours runs on cuda, not cpu"):
        set_up(define(monkeypatch, {"ours": ours}), "ours")


@pytest.mark.parametrize(
    ("members", "options", "message"),
    [
        ({"inputs": None}, {}, "class Twice: wanted a function inputs"),
        ({"ours": 5}, {}, r"class Twice, ours: wanted a function, native\(\.\.\.\) or module\(\.\.\.\) \(got 5\)"),
        ({}, {"cases": []}, "class Twice: wanted cases"),
        ({}, {"core": ["float32-9x9"]}, "and core and cold among them"),
        (
            {"ours": native("l.so", "void f(float* out, float* x, int n)")},
            {},
            r"class Twice, ours: int n is neither a size \(rows, columns\) nor an input \(x\)",
        ),
        ({"ours": native("l.so", "void f(float* x)")}, {}, "no argument is an output"),
    ],
)
def test_definition_that_contradicts_itself(monkeypatch, members, options, message):
    with pytest.raises(ProblemError, match=message):
        define(monkeypatch, members, **options)


def test_second_benchmark_of_a_file_is_refused(monkeypatch):
    module = define(monkeypatch, {})
    again = type("Again", (), {"inputs": inputs, "reference": reference, "__module__": module.__name__})
    with pytest.raises(ProblemError, match="class Again: a second benchmark; wanted one file for each kernel"):
        benchmark(cases=CASES)(again)


def test_native_in_a_class_that_has_one():
    with pytest.raises(ProblemError, match=r"call kv\.native"):
        native("l.so", "void f(float* out)")("l.so", "void g(float* out)")


@pytest.mark.parametrize("signature", ["scale", "void f(float* out, widget n)", "void f(float** out)", "void f()"])
def test_signature_that_is_no_declaration(signature):
    with pytest.raises(ProblemError, match='wanted one such as "void scale'):
        native("libtwice.so", signature)
