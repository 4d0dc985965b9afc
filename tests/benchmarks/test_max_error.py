"""track_max_error: the largest error of all results, once, beside the times and out of their way."""

import math
import sys

import pytest

from benchmarks import add_mul_exp, matmul, quantize_int8
from kernel_velocity.problem.accuracy import compare
from kernel_velocity.suite.benchmark import WrongResultError
from tests.suite.measuring import as_asv_runs, asv_environment, failure, kernel

torch = pytest.importorskip("torch", reason="benchmarks compare torch tensors")
pytest.importorskip("asv_runner", reason="the benchmark type is asv's")

__all__ = ["asv_environment", "kernel"]

CASE = {add_mul_exp: "float32-1M", matmul: "float32-256x256x256", quantize_int8: "float32-1M"}


def error_of_asv(module):
    """Return `track_max_error` of a module as asv runs it, set to the first combination of its parameters."""
    return as_asv_runs("TrackBenchmark", module, "track_max_error")


@pytest.mark.parametrize("module", CASE, ids=lambda module: module.__name__)
def test_largest_error_of_all_results(asv_environment, module):
    bench = module.Cpu()
    bench.setup("eager", CASE[module])
    result = bench.track_max_error("eager", CASE[module])
    expected = bench.problem.expected(*bench._inputs)
    assert result == compare(expected, bench.problem.reference_solution(*bench._inputs))["max_error"]
    assert result == 0 if module is quantize_int8 else 1e-8 < result < 1e-4
    assert not (asv_environment / ".asv" / "spool").exists()  # no telemetry: nothing was timed


def test_every_result_is_checked(asv_environment, kernel):
    calls = []

    def first_element_wrong_the_second_time(x, y, out):
        out.copy_(torch.exp((x + y) * 2))
        calls.append(1)
        if len(calls) > 2:  # the native call is bound once, and called once, in each setup
            out[0] = math.nan
        return 0

    kernel("add_mul_exp", first_element_wrong_the_second_time)
    bench = add_mul_exp.Cpu()
    bench.setup("native", "float32-1M")
    assert bench.track_max_error("native", "float32-1M") < 1e-6
    with pytest.raises(WrongResultError, match=r"1 of 1000000 elements wrong, the first at \(0,\): got nan"):
        bench.setup("native", "float32-1M")


@pytest.mark.parametrize("module", CASE, ids=lambda module: module.__name__)
def test_cases_are_those_of_tier_core(module):
    bench = error_of_asv(module)
    assert bench.params[1] == [repr(case) for case in module.Cpu.problem.core["cpu"]]
    assert bench.param_names == ["implementation", "case"]
    assert (bench.type, bench.version) == ("track", "1")
    assert not hasattr(bench, "rounds")  # asv calls it once


def test_asv_gets_a_number(asv_environment):
    bench = error_of_asv(matmul)
    assert bench.do_setup() is False
    assert 0 < bench.do_run() < 1e-4
    bench.do_teardown()


def test_na_where_setup_is_na(asv_environment, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert error_of_asv(matmul).do_setup() is True
    text = failure(asv_environment)
    assert (text["b"], text["skipped"]) == ("matmul.Cpu.track_max_error", True)
    assert "asv: skipped" in capsys.readouterr().out


def test_problem_without_error_is_na(asv_environment, monkeypatch):
    monkeypatch.setattr(matmul.Matmul, "verify_result", lambda *_: (True, {}))
    bench = error_of_asv(matmul)
    bench.do_setup()
    assert math.isnan(bench.do_run())  # asv's "n/a", which says nothing of why
    text = failure(asv_environment)
    assert (text["b"], text["skipped"]) == ("matmul.Cpu.track_max_error", True)
    assert text["error"] == "the problem's verify_result gives no max_error"


def test_wrong_result_is_recorded(asv_environment, monkeypatch):
    bench = error_of_asv(matmul)
    bench.do_setup()
    monkeypatch.setattr(matmul.Matmul, "verify_result", lambda *_: (False, {"count": 3}))
    with pytest.raises(WrongResultError):
        bench.do_run()
    text = failure(asv_environment)
    assert text["error"] == "WrongResultError: matmul eager float32-256x256x256 is wrong: count 3"
