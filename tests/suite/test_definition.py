"""Benchmarks that are defined in a few lines."""

import ctypes
import math
import shutil
import subprocess
import sys
import types

import pytest

from kernel_velocity import benchmark, module, native, normal, problem_file, solution
from kernel_velocity.problem.implementations import KernelFailedError
from kernel_velocity.problem.problem import ProblemError, drawn_anew
from kernel_velocity.suite.benchmark import WrongResultError
from tests.suite.measuring import asv_environment, rounds

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
    options = {"flops": lambda rows, columns: rows * columns, "compiled": True, "counts": ["float32-4x8"]}
    module = define(monkeypatch, {"ours": lambda x: x + x}, **options)
    assert module.Cpu.params == [["eager", "compile", "ours"], CASES]
    assert module.Cpu.error_params[1] == module.Cpu.params[1]  # core: the first and the last
    assert module.Cpu.flops == {CASES[0]: 256, CASES[1]: 512, "float32-4x8": 32}
    assert module.Cpu.bytes == {CASES[0]: 2048, CASES[1]: 4096, "float32-4x8": 256}  # x and the result
    assert module.Cpu.unfused_bytes == module.Cpu.bytes  # one operation
    assert module.Doubled.kernel == "twice" and not hasattr(module.Cpu, "track_code_bytes")


def test_sizes_beside_names_and_bytes_by_formula(monkeypatch):
    costs = {"bytes": lambda rows, columns: 7 * rows, "unfused_bytes": lambda rows, columns: 9 * columns}
    module = define(monkeypatch, {}, cases={"small": (2, 3)}, **costs, devices=["cpu"])
    assert module.Cpu.unfused_bytes == {"small": 27}
    del costs["unfused_bytes"]  # then discovery does not ask PyTorch
    assert define(monkeypatch, {}, cases={"small": (2, 3)}, **costs, devices=["cpu"]).Cpu.unfused_bytes == {}
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


def test_null_answers_are_tried_once_and_flagged_always(asv_environment, monkeypatch):
    verified = []
    members = {name: lambda x: (20 * x).int() for name in ("reference", "ours")}
    members["verify"] = lambda *pair: (verified.append(pair) or True, {})
    module = define(monkeypatch, members)
    counts = []
    for _ in range(2):
        verified.clear()
        bench = set_up(module, "ours")
        counts.append(len(verified))
        bench.measure("twice.Cpu.time_hot", "ours", CASES[0])
    assert counts[0] > 5 and counts[1] == 1
    kinds = ("zeros", "constant", "untouched", "copy", "part", "stale")
    for record in rounds(asv_environment):
        assert {flag for flag in record.flags if "unproven" in flag} == {f"unproven_{kind}" for kind in kinds}


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


def test_function_of_what_is_not_there_is_na(asv_environment, monkeypatch):
    def module(x):
        import no_such_module  # noqa: F401

    def name(x):
        from kernel_velocity import no_such_name  # noqa: F401

    for function in (module, name):
        with pytest.raises(NotImplementedError, match=r"neither this commit nor this Python has it: .*no_such"):
            set_up(define(monkeypatch, {"ours": function}), "ours")


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("0 active drivers ([]). There should only be one."),  # Triton's, and Helion's
        TypeError("*obj* doesn't implement the cuda array interface."),  # Numba's
        type("CudaSupportError", (ImportError,), {"__module__": "numba"})(
            "Error: \n\nCUDA driver cannot be loaded:\n  no"
        ),
        type("DSLCudaRuntimeError", (Exception,), {"__module__": "cutlass"})("error: cudaErrorInsufficientDriver"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_function_that_needs_a_gpu_is_na_on_a_cpu(asv_environment, monkeypatch, error):
    def ours(x):
        raise error

    with pytest.raises(NotImplementedError, match=f"^needs CUDA: {type(error).__name__}: .* "):
        set_up(define(monkeypatch, {"ours": ours}), "ours")


def test_function_of_another_device_is_na(asv_environment, monkeypatch, library):
    ours = native(library, "void scale(float* out, float* x)", device="cuda")
    with pytest.raises(NotImplementedError, match="Ours needs a CUDA device"):
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


def test_cases_of_each_device(monkeypatch):
    cases = {"cpu": CASES, "cuda": ["float32-4x4", "float16-2x2"]}
    options = {"cases": cases, "core": {"cuda": ["float16-2x2"]}, "cold": {"cpu": CASES[:1]}, "devices": ["cuda"]}
    doubled = define(monkeypatch, {}, **options)
    assert doubled.Cuda.params[1] == cases["cuda"] and doubled.Cuda.error_params[1] == doubled.Cuda.cold_params[1]
    assert doubled.Cuda.error_params[1] == ["float16-2x2"]
    assert not hasattr(doubled, "Cpu")
    problem = doubled.Doubled()  # its cases of the CPU are there for a comparison
    assert [test["name"] for test in problem.generate_test_cases()] == list(problem.core["cpu"]) == CASES


def test_dtype_and_device_of_a_case(monkeypatch):
    def inputs(rows, dtype, device):
        return torch.ones(rows, dtype=getattr(torch, dtype)), device

    members = {"inputs": inputs, "reference": lambda x, device: 2 * x, "ours": lambda x, rows: x * rows / (rows / 2)}
    cost = {"flops": {"int8-4": 4}, "bytes": lambda rows, dtype: rows * len(dtype)}
    doubled = define(monkeypatch, members, cases=["int8-4", "float64-2"], **cost)
    x, device = doubled.Doubled().inputs_of("int8-4")
    assert (x.dtype, device) == (torch.int8, "cpu")
    assert (doubled.Cpu.flops, doubled.Cpu.bytes) == ({"int8-4": 4}, {"int8-4": 16, "float64-2": 14})
    set_up(doubled, "ours", "float64-2")


def test_own_expectation_verdict_and_outputs(asv_environment, monkeypatch):
    called = []
    members = {
        "expected": lambda x: 2 * x.double(),
        "verify": lambda expected, actual: (called.append(expected.dtype) or True, {"max_error": 0.25}),
        "empty": lambda x: called.append("empty") or torch.empty_like(x),
        "ours": lambda x, out: torch.mul(x, 2, out=out),
    }
    bench = set_up(define(monkeypatch, members), "ours")
    assert called[:2] == ["empty", torch.float64] and "empty" not in called[1:]
    assert bench.track_max_error("ours", CASES[0]) == 0.25


@pytest.mark.parametrize(("rows", "lengths"), [((), (8, 8)), (("x",), (4, 4))])
def test_rows_of_a_part(monkeypatch, rows, lengths):
    members = {"inputs": lambda n, m: (torch.randn(n, m), torch.randn(m)), "reference": lambda x, y: (x + y, x.sum(1))}
    monkeypatch.setattr("kernel_velocity.problem.problem.FEWEST_ROWS", 2)
    problem = define(monkeypatch, members, rows=rows).Doubled()
    x, y = problem.inputs_of(CASES[0])
    results = problem.reference_solution(x, y)
    (part, same), outputs = problem.subset((x, y), results, 2)
    assert (len(part), same is y) == (lengths[0], True) and [len(output) for output in outputs] == [*lengths]
    assert problem.verify_result(problem.expected(part, same), outputs)[0]
    assert problem.subset((x, y), (results[0][:3], results[1]), 2)[1][0].shape == (3, *x.shape[1:])  # is named as it is


def test_inputs_leave_random_numbers_as_they_were(monkeypatch):
    problem, before = define(monkeypatch, {}).Doubled(), torch.get_rng_state()
    problem.inputs_of(CASES[0])
    assert torch.equal(torch.get_rng_state(), before)


def test_normal_values_repeat_and_are_drawn_anew():
    assert torch.equal(normal(5, "a"), normal(7, "a")[:5]) and not torch.equal(normal(5, "a"), normal(5, "b"))
    assert torch.equal(normal(25, "a", period=10)[10:20], normal(10, "a"))
    with drawn_anew("of an audit"):
        other = normal(5, "a")
    assert not torch.equal(other, normal(5, "a"))


def a_module(monkeypatch, bind, **supports):
    """Put a Python module of a build in place."""
    made = types.ModuleType("twice_package.ours")
    made.bind = bind
    if supports:
        made.SUPPORTS = supports
    package = types.ModuleType("twice_package")
    package.cuda_status = lambda: "no driver"
    monkeypatch.setitem(sys.modules, "twice_package", package)
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return module(made.__name__)


def test_module_gets_what_the_signature_says(asv_environment, monkeypatch):
    def bind(x, factor, *, out):
        assert type(factor) is float
        return lambda: torch.mul(x, factor, out=out) is None

    members = {
        "inputs": lambda rows, columns: (torch.tensor(0.0), torch.ones(rows, columns), torch.tensor(2.0)),
        "reference": lambda unused, x, factor: x * factor,
        "native": a_module(monkeypatch, bind),
    }
    doubled = define(
        monkeypatch, members, signature="void solution(const float* x, float factor, float* out, size_t n)"
    )
    bench = set_up(doubled, "native")
    bench.measure("twice.Cpu.time_hot", "native", CASES[0])
    assert rounds(asv_environment)[0].estimate > 0
    assert doubled.Doubled().output_names() == ("out",)
    assert doubled.Cpu.track_code_bytes.unit == "bytes"  # what a build-info.json says of it


@pytest.mark.parametrize(
    ("supports", "device", "message"),
    [
        ({"devices": ()}, "cpu", "twice_package.ours is not written yet: SUPPORTS names no device"),
        ({"devices": ("cuda",)}, "cpu", r"twice runs on \('cuda',\), not cpu"),
        ({"devices": ("cpu",), "dtypes": ("float16",)}, "cpu", "twice takes float16 on cpu, not float32"),
        ({}, "cuda", "no driver"),
    ],
)
def test_module_that_does_not_run_here_is_na(monkeypatch, supports, device, message):
    problem = define(monkeypatch, {"native": a_module(monkeypatch, None, **supports)}).Doubled()
    problem.device = device
    with pytest.raises(NotImplementedError, match=message):
        problem.functions["native"].check(problem, CASES[0])


def test_failing_module_and_device_that_is_none(monkeypatch):
    problem = define(monkeypatch, {"native": a_module(monkeypatch, lambda x, *, out: lambda: 7)}).Doubled()
    with pytest.raises(KernelFailedError, match=r"twice_package\.ours returned status 7"):
        problem.functions["native"](problem, CASES[0], problem.inputs_of(CASES[0]))
    with pytest.raises(ProblemError, match="wanted cpu or cuda"):
        module("twice_package.ours", device="tpu")


def test_public_problem_keeps_its_own_reference(monkeypatch):
    file = problem_file("nowhere/def.py", {"float32-a": "a"})
    members = {"problem": file, "native": solution("twice.so"), "inputs": None, "reference": None}
    doubled = define(monkeypatch, members, cases=["float32-a"], flops={"float32-a": 3})
    assert doubled.Cpu.params == [["eager", "native"], ["float32-a"]] and doubled.Cpu.flops == {"float32-a": 3}
    with pytest.raises(ProblemError, match=r"nowhere/def\.py: no such file"):
        doubled.Doubled().generate_test_cases()[0]["create_inputs"]()
    for options, message in (({"flops": len}, "wanted flops by case"), ({}, r"wanted solution\(\.\.\.\) or module")):
        with pytest.raises(ProblemError, match=message):
            define(monkeypatch, {**members, "native": len} if not options else members, cases=["float32-a"], **options)


def test_native_in_a_class_that_has_one():
    with pytest.raises(ProblemError, match=r"call kv\.native"):
        native("l.so", "void f(float* out)")("l.so", "void g(float* out)")


@pytest.mark.parametrize("signature", ["scale", "void f(float* out, widget n)", "void f(float** out)", "void f()"])
def test_signature_that_is_no_declaration(signature):
    with pytest.raises(ProblemError, match='wanted one such as "void scale'):
        native("libtwice.so", signature)
