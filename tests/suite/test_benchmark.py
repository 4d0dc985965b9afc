"""From an asv class to a telemetry line, without asv: checked before timed, n/a told from failed."""

import dataclasses
import importlib
import importlib.util
import json
import os
import statistics
import sys

import pytest

from benchmarks import add_mul_exp, matmul, quantize_int8, quantize_int8_rows
from kernel_velocity.engine.reported import HostActivity
from kernel_velocity.engine.sampling import measure
from kernel_velocity.engine.spool import EarlierRoundDiedError
from kernel_velocity.problem.implementations import KernelFailedError, bind
from kernel_velocity.suite import benchmark
from kernel_velocity.suite.benchmark import WrongResultError, _KernelBenchmark
from kernel_velocity.suite.under_test import WrongPackageError
from tests.suite.measuring import as_asv_runs, asv_environment, failure, kernel, rounds

torch = pytest.importorskip("torch", reason="benchmarks measure torch tensors")

__all__ = ["asv_environment", "kernel"]

CASE = {"add_mul_exp": "float32-500k", "quantize_int8": "float32-500k", "matmul": "float32-128x128x128"}
MODULES = {"add_mul_exp": add_mul_exp, "quantize_int8": quantize_int8, "matmul": matmul}


@pytest.mark.parametrize("implementation", ["eager", "native"])
@pytest.mark.parametrize("name", sorted(MODULES))
def test_round_from_setup_to_telemetry(asv_environment, name, implementation):
    bench = MODULES[name].Cpu()
    bench.setup(implementation, CASE[name])
    result = bench.measure(f"{name}.Cpu.time_hot", implementation, CASE[name])
    (record,) = rounds(asv_environment)
    assert result == {"samples": [record.estimate], "number": 1}
    assert record.params == (implementation, CASE[name])
    assert 1e-7 < record.estimate < 1
    assert record.stop in {"converged", "budget", "budget+drift", "noise_floor"}
    assert 0 < record.core_gauge < 1e-2
    assert (record.control_gauge is not None) is (implementation == "native")  # a control is no witness of itself
    assert record.lost == 0


def test_second_round_is_checked_in_part(asv_environment, kernel):
    observed = []
    original = add_mul_exp.AddMulExp.subset

    def right(x, y, out):
        out.copy_(torch.exp((x + y) * 2))
        return 0

    kernel("add_mul_exp", right)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(add_mul_exp.AddMulExp, "subset", lambda *a: (observed.append(a[-1]), original(*a))[1])
        add_mul_exp.Cpu().setup("native", "float32-500k")
        assert observed == []
        add_mul_exp.Cpu().setup("native", "float32-500k")
        assert observed == [benchmark.CHECK_STEP]


def all_but_the_last(x, y, out):
    out[:-1] = torch.exp((x + y) * 2)[:-1]
    return 0


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda x, y, out: out.copy_(torch.exp(x + y)) is None, r"\d+ of 500000 elements wrong, the first at \(0,\)"),
        (all_but_the_last, r"1 of 500000 elements wrong, the first at \(499999,\): got nan, .*nan 1"),
    ],
)
def test_wrong_kernel_is_never_timed(asv_environment, kernel, function, why):
    kernel("add_mul_exp", function)
    with pytest.raises(WrongResultError, match=f"add_mul_exp native float32-500k is wrong: {why}"):
        add_mul_exp.Cpu().setup("native", "float32-500k")
    assert not rounds(asv_environment)


class RowsOnTheCpu(_KernelBenchmark):
    """quantize_int8_rows, which has two outputs, where tests run."""

    problem = quantize_int8_rows.QuantizeInt8Rows()
    device = "cpu"


def rows_kernel(monkeypatch, spoil):
    """Have what `spoil` does to the scales follow every call of the native kernel."""
    native = importlib.import_module("kernels.quantize_int8_rows")
    bind_native = native.bind

    def bind_spoiled(x, scales, *, out):
        call = bind_native(x, scales, out=out)

        def spoiled():
            status = call()
            spoil(scales)
            return status

        return spoiled

    monkeypatch.setattr(native, "bind", bind_spoiled)


@pytest.mark.parametrize(("is_known", "looked_at"), [(False, 128), (True, 2)])
@pytest.mark.parametrize(
    "spoil", [lambda last: last.view(torch.int32).add_(1), lambda last: last.fill_(float("nan"))], ids=["bit", "nan"]
)
def test_wrong_second_output_is_never_timed(asv_environment, monkeypatch, spoil, is_known, looked_at):
    if is_known:  # at this commit it was checked in full, and was right
        RowsOnTheCpu().setup("native", "float32-128x4096")
    rows_kernel(monkeypatch, lambda scales: spoil(scales[-1:]))
    why = rf"is wrong: scales: 1 of {looked_at} elements wrong, the first at \({looked_at - 1},\)"
    with pytest.raises(WrongResultError, match=f"quantize_int8_rows native float32-128x4096 {why}"):
        RowsOnTheCpu().setup("native", "float32-128x4096")
    assert not rounds(asv_environment)


def test_unwritten_second_output_is_caught(asv_environment, monkeypatch):
    native = importlib.import_module("kernels.quantize_int8_rows")
    bind_native = native.bind
    monkeypatch.setattr(native, "bind", lambda x, scales, *, out: bind_native(x, scales.clone(), out=out))
    with pytest.raises(WrongResultError, match=r"scales: 128 of 128 elements wrong, .*: got nan"):
        RowsOnTheCpu().setup("native", "float32-128x4096")


@pytest.mark.parametrize("implementation", ["eager", pytest.param("compile", marks=pytest.mark.slow)])
def test_pytorch_returns_all_outputs(asv_environment, implementation):
    bench = RowsOnTheCpu()
    bench.setup(implementation, "float32-128x4096")
    integers, scales = bench._bound.output()
    assert (integers.dtype, integers.shape, scales.dtype, scales.shape) == (
        *(torch.int8, (128, 4096)),
        *(torch.float32, (128,)),
    )


def test_kernel_right_only_once_is_wrong(asv_environment, kernel):
    calls = []

    def lazy(x, scale, zero_point, out):
        calls.append(1)
        if len(calls) <= 3:
            out.copy_(quantize_int8.QuantizeInt8().reference_solution(x, scale, zero_point))
        return 0

    kernel("quantize_int8", lazy)
    bench = quantize_int8.Cpu()
    bench.setup("native", "float32-500k")
    with pytest.raises(WrongResultError, match="quantize_int8 native float32-500k is wrong"):
        bench.measure("quantize_int8.Cpu.time_hot", "native", "float32-500k")
    assert not rounds(asv_environment)


def test_nonzero_status_is_a_failure(asv_environment, kernel):
    kernel("matmul", lambda a, b, out: 3)
    with pytest.raises(KernelFailedError, match=r"kernels\.matmul returned status 3"):
        matmul.Cpu().setup("native", CASE["matmul"])


def test_commit_without_the_kernel_is_na(asv_environment, monkeypatch):
    real = importlib.import_module

    def absent(name, *rest):
        if name == "kernels.matmul":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(NotImplementedError, match=r"this commit has no kernels\.matmul"):
        matmul.Cpu().setup("native", CASE["matmul"])


def test_kernel_without_the_device_is_na(asv_environment, kernel):
    kernel("matmul", lambda a, b, out: 0, devices=("cuda",))
    with pytest.raises(NotImplementedError, match="at this commit matmul runs on"):
        matmul.Cpu().setup("native", CASE["matmul"])
    kernel("matmul", lambda a, b, out: 0, devices=())
    with pytest.raises(NotImplementedError, match=r"kernels\.matmul is not written yet: SUPPORTS names no device"):
        matmul.Cpu().setup("native", CASE["matmul"])


def test_unsupported_dtype_is_na(asv_environment, kernel):
    kernel("add_mul_exp", lambda x, y, out: 0)
    with pytest.raises(NotImplementedError, match="at this commit add_mul_exp takes float32 on cpu, not float16"):
        add_mul_exp.Cpu().setup("native", "float16-5M")
    sys.modules["kernels.add_mul_exp"].SUPPORTS["dtypes_cuda"] = ("float16",)
    with pytest.raises(NotImplementedError, match="takes float32 on cpu, not float16"):
        add_mul_exp.Cpu().setup("native", "float16-5M")
    kernel("matmul", lambda a, b, out: 0, devices=("cuda",))
    problem = matmul.Cuda.problem  # says on which device the inputs are; none are made
    with pytest.raises(NotImplementedError, match="at this commit matmul takes float32 on cuda, not int8"):
        bind("native", problem, "int8-1024x1024x1024", (), asv_environment)


@pytest.mark.parametrize("case", ["float64-5M", "float16-5M", "bfloat16-5M"])
def test_kernel_is_right_on_every_dtype(asv_environment, case):
    add_mul_exp.Cpu().setup("native", case)
    if case != "float64-5M":
        quantize_int8.Cpu().setup("native", case)


def test_missing_gpu_is_na(asv_environment, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(NotImplementedError, match="sees no CUDA device"):
        matmul.Cuda().setup("native", "float32-512x512x512")


def test_package_of_another_environment_is_refused(asv_environment, monkeypatch):
    (asv_environment / "kernels").mkdir()
    (asv_environment / "kernels" / "__init__.py").touch()
    monkeypatch.setenv("KV_ARTEFACTS", str(asv_environment))
    with pytest.raises(WrongPackageError, match=r"kernels comes from .*, not from the build of the commit under test"):
        matmul.Cpu().setup("native", CASE["matmul"])


def test_no_telemetry_without_a_commit(asv_environment, monkeypatch, capsys):
    monkeypatch.delenv("ASV_COMMIT")
    bench = matmul.Cpu()
    bench.setup("eager", CASE["matmul"])
    bench.measure("matmul.Cpu.time_hot", "eager", CASE["matmul"])
    assert not rounds(asv_environment)
    assert "no telemetry is kept" in capsys.readouterr().err


def test_round_is_gated_and_releases_its_thread(asv_environment, monkeypatch):
    monkeypatch.delenv("KV_PATIENCE")
    before = os.sched_getaffinity(0)
    bench = matmul.Cpu()
    bench.setup("eager", CASE["matmul"])
    observed = []
    monkeypatch.setattr(benchmark, "measure", lambda *args: observed.append(args[-1]) or measure(*args))
    bench.measure("matmul.Cpu.time_hot", "eager", CASE["matmul"])
    (record,) = rounds(asv_environment)
    assert record.lost == pytest.approx(observed[0].lost, rel=0.1)
    assert os.sched_getaffinity(0) == before
    assert len(list((asv_environment / ".asv" / "cache" / "gauge").glob("*.json"))) == 1


def test_contended_flag_is_set_once(asv_environment, monkeypatch):
    def disturbed(*args):
        return dataclasses.replace(measure(*args), flags=("contended",))

    monkeypatch.setattr(benchmark, "measure", disturbed)
    monkeypatch.setattr(benchmark, "activity", lambda *_: HostActivity(9999, None, None, contended=True, threads=1))
    bench = matmul.Cpu()
    bench.setup("eager", CASE["matmul"])
    bench.measure("matmul.Cpu.time_hot", "eager", CASE["matmul"])
    (record,) = rounds(asv_environment)
    assert record.flags == ("contended",)


@pytest.mark.parametrize("is_requested", [True, False])
def test_block_means_on_request(asv_environment, monkeypatch, is_requested):
    monkeypatch.setenv("KV_BLOCKS", "1" if is_requested else "")
    bench = matmul.Cpu()
    bench.setup("eager", CASE["matmul"])
    bench.measure("matmul.Cpu.time_hot", "eager", CASE["matmul"])
    (record,) = rounds(asv_environment)
    stored = [json.loads(path.read_text()) for path in (asv_environment / ".asv" / "blocks" / "env").glob("*.jsonl")]
    assert [(line["b"], line["l"]) for line in stored] == ([(record.benchmark, record.launch)] if is_requested else [])
    ratios = [statistics.median(line["seconds"]) / record.estimate for line in stored]
    assert all(0.01 < ratio < 100 for ratio in ratios)  # s, not ms, on however busy a machine


@pytest.mark.slow
def test_compile_is_a_cached_package(asv_environment):
    name = "matmul"
    bench = MODULES[name].Cpu()
    bench.setup("compile", CASE[name])
    (package,) = (asv_environment / ".asv" / "cache" / "aoti").glob("*.pt2")
    made = package.stat().st_mtime_ns
    bench.setup("compile", CASE[name])
    bench.measure(f"{name}.Cpu.time_hot", "compile", CASE[name])
    assert package.stat().st_mtime_ns == made
    assert len(rounds(asv_environment)) == 1


def matmul_of_asv():
    """Return `time_hot` of matmul as asv runs it, set to native and the first of its five cases."""
    return as_asv_runs("RoundBenchmark", matmul, "time_hot", 2 * 5)


def test_failure_is_recorded(asv_environment, kernel):
    kernel("matmul", lambda a, b, out: 0)
    with pytest.raises(WrongResultError):
        matmul_of_asv().do_setup()
    text = failure(asv_environment)
    assert text["b"] == "matmul.Cpu.time_hot"
    assert text["p"] == ["native", CASE["matmul"]]
    assert text["error"].startswith("WrongResultError: matmul native float32-128x128x128 is wrong: 16384 of 16384")
    assert "skipped" not in text


def test_na_is_skipped_with_its_reason(asv_environment, kernel, capsys):
    kernel("matmul", lambda a, b, out: 0, devices=("cuda",))
    assert matmul_of_asv().do_setup() is True
    text = failure(asv_environment)
    assert text["skipped"] is True
    assert text["error"] == "at this commit matmul runs on ('cuda',), not cpu"
    assert "asv: skipped: NotImplementedError" in capsys.readouterr().out


def test_series_of_a_dead_process_is_given_up(asv_environment):
    died = matmul_of_asv()
    died.do_setup()  # and no teardown: its process is gone
    with pytest.raises(EarlierRoundDiedError):
        matmul_of_asv().do_setup()
    assert failure(asv_environment)["died"] is True


def test_series_that_ended_is_tried_again(asv_environment, kernel):
    bench = matmul_of_asv()
    assert bench.do_setup() is False
    (sample,) = bench.do_run()["samples"]
    assert sample > 0
    bench.do_teardown()
    kernel("matmul", lambda a, b, out: 0)
    for _ in range(2):
        with pytest.raises(WrongResultError):
            matmul_of_asv().do_setup()
