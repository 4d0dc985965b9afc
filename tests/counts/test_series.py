"""Counts as series of asv: their names and parameters, and what is recorded of a definition's C function."""

import json
import math
import re
import sys

import pytest

from kernel_velocity import module, native
from kernel_velocity.counts import callgrind
from kernel_velocity.names import COUNTS as NAMES
from kernel_velocity.problem.problem import ProblemError
from kernel_velocity.suite.benchmark import WrongResultError
from tests.counts.counting import COUNTS, compiled
from tests.small_suite import SUITE
from tests.suite.measuring import as_asv_runs, asv_environment, failure
from tests.suite.test_definition import CASES, define

pytest.importorskip("torch", reason="inputs and references are PyTorch's")

__all__ = ["asv_environment"]

DOUBLES = """
void doubles(float *out, const float *x, int rows, int columns) {
    for (int i = 0; i < rows * columns; i++) out[i] = 2 * x[i];
}
void wrong(float *out, const float *x, int rows, int columns) { out[0] = x[0]; }
"""
SIGNATURE = "void doubles(float* out, const float* x, int rows, int columns)"
OURS = native("libsmall.so", SIGNATURE)


@pytest.fixture
def built(asv_environment, monkeypatch):
    compiled(asv_environment / "build", DOUBLES)
    monkeypatch.setenv("KV_ARTEFACTS", str(asv_environment / "build"))
    return asv_environment


def tracked(module, name, index=0):
    return as_asv_runs("TrackBenchmark", module, f"track_{name}", index)


def test_series_of_counts(asv_environment, monkeypatch):
    module = define(monkeypatch, {"ours": OURS, "python": lambda x: 2 * x}, counts=["float32-4x8", CASES[0]])
    bench = tracked(module, "instructions", 1)
    assert bench.params == [["'ours'"], ["'float32-4x8-avx2'", f"'{CASES[0]}-avx2'"]]
    assert (bench.name, bench.type, bench.unit) == ("twice.Cpu.track_instructions", "track", "instructions of a call")
    assert bench.version == f"1-{callgrind.METHOD}"
    assert {name for name in dir(module.Cpu) if name.startswith("track_")} == {"track_max_error"} | {
        f"track_{name}" for name in NAMES
    }
    assert not [name for name in dir(module.Cuda) if name.removeprefix("track_") in NAMES]


def test_definition_without_counts_has_none(monkeypatch):
    module = define(monkeypatch, {"ours": OURS})
    assert not hasattr(module.Cpu, "track_instructions")


def test_kernel_that_is_timed_elsewhere_is_counted(monkeypatch):
    module = define(monkeypatch, {"ours": OURS}, counts=["float32-4x8"], devices=["cuda"])
    assert not hasattr(module.Cpu, "time_hot") and hasattr(module.Cpu, "track_reads")
    for kernel in ("matmul_bias_relu", "quantize_int8_rows"):
        assert SUITE.benchmark(kernel, "cpu") is None and SUITE.figures(kernel, "cpu") is not None


@pytest.mark.parametrize("counts", ["float32-4x8", ["4x8"], [3], ["float32-4G"]])
def test_malformed_counts_are_refused(monkeypatch, counts):
    with pytest.raises(ProblemError, match=r"class Twice: counts: wanted a list of cases of the CPU, or names such as"):
        define(monkeypatch, {"ours": OURS}, counts=counts)


@COUNTS
def test_c_function_is_counted(built, monkeypatch):
    module = define(monkeypatch, {"ours": OURS}, counts=["float32-4x8", CASES[0]])
    small, large = (tracked(module, "instructions", index).do_run() for index in range(2))
    assert 32 < small < large < 20 * 256
    assert tracked(module, "l1_misses", 1).do_run() == 2 * 256 * 4 / 64  # x and out


@COUNTS
@pytest.mark.parametrize(
    ("implementation", "words"),
    [
        (native("libgone.so", SIGNATURE), r"the build of this commit made no libgone\.so"),
        (native("libsmall.so", SIGNATURE.replace("doubles", "triples")), "has no function triples"),
        (module("fake_counted_module"), r"only C functions are counted: wanted kv\.native.*bind"),
    ],
)
def test_what_cannot_be_counted_is_na(built, monkeypatch, implementation, words):
    fake = type(sys)("fake_counted_module")
    fake.bind = lambda x, out: lambda: out.copy_(2 * x) is None
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    bench = tracked(define(monkeypatch, {"ours": implementation}, counts=["float32-4x8"]), "reads")
    assert math.isnan(bench.do_run())
    recorded = failure(built)
    assert recorded["skipped"] is True and re.search(words, recorded["error"])


@COUNTS
def test_wrong_function_is_not_counted(built, monkeypatch):
    ours = native("libsmall.so", SIGNATURE.replace("doubles", "wrong"))
    bench = tracked(define(monkeypatch, {"ours": ours}, counts=["float32-4x8"]), "reads")
    with pytest.raises(WrongResultError, match="twice ours float32-4x8 is wrong: "):
        bench.do_run()


@COUNTS
@pytest.mark.parametrize("kernel", ["add_mul_exp", "matmul", "matmul_bias_relu", "quantize_int8", "quantize_int8_rows"])
def test_kernels_of_this_repository_are_counted(kernel, tmp_path, monkeypatch):
    pytest.importorskip("kernels", reason="the native library is not built")
    monkeypatch.setenv("ASV_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("KV_THREADS", "2")  # counts are of one
    bench = SUITE.figures(kernel, "cpu")
    (case,) = bench.problem.counts
    counts, _ = bench().count("native", case)
    lines = bench.problem.get_bytes(bench.problem.test_case(case)) / 64
    assert lines <= counts["ll_misses"] < 1.7 * lines  # matmul packs its factors, too
    # valgrind counts each element that a multiply-add of vectors reads, so there may be more reads than instructions
    assert counts["ll_misses"] <= counts["l1_misses"] < counts["reads"] + counts["writes"] < 8 * counts["instructions"]
    assert json.dumps(counts)
