"""track_max_error: the largest error of all results, once, beside the times and out of their way."""

import json
import math
import sys
import types

import pytest

from benchmarks import add_mul_exp, matmul, quantize_int8
from kernel_velocity.harness.accuracy import compare
from kernel_velocity.harness.benchmark import WrongResultError

torch = pytest.importorskip("torch", reason="benchmarks compare torch tensors")
pytest.importorskip("asv_runner", reason="the benchmark type is asv's")

CASE = {add_mul_exp: "float32-1M", matmul: "float32-256x256x256"}
COMMIT = "c" * 40


@pytest.fixture
def root(tmp_path, monkeypatch):
    for name, value in {"ASV_CONF_DIR": str(tmp_path), "ASV_ENV_NAME": "env", "ASV_COMMIT": COMMIT}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("ASV_ENV_DIR", raising=False)
    return tmp_path


def as_asv_runs(module, index=0):
    """Return the benchmark that asv makes of `track_max_error`, set to a combination of its parameters."""
    from kernel_velocity.harness.asv_type import ErrorBenchmark

    instance = module.Cpu()
    function = instance.track_max_error
    bench = ErrorBenchmark("k.Cpu.track_max_error", function, [function, instance, module])
    bench.set_param_idx(index)
    return bench


def failures(root):
    path = root / ".asv" / "spool" / "env" / f"{COMMIT}.failures.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("module", CASE, ids=lambda module: module.__name__)
def test_largest_error_of_all_results(root, module):
    bench = module.Cpu()
    bench.setup("eager", CASE[module])
    found = bench.track_max_error("eager", CASE[module])
    expected = bench.problem.expected(*bench._inputs)
    assert found == compare(expected, bench.problem.reference_solution(*bench._inputs))["max_error"]
    assert 1e-8 < found < 1e-4
    assert not (root / ".asv" / "spool").exists()  # no telemetry: nothing was timed


def test_exact_integers_have_no_error(root):
    bench = quantize_int8.Cpu()
    bench.setup("eager", "float32-1M")
    assert bench.track_max_error("eager", "float32-1M") == 0


def test_every_result_is_checked(root, monkeypatch):
    calls = []

    def first_element_wrong_the_second_time(x, y, out):
        out.copy_(torch.exp((x + y) * 2))
        calls.append(1)
        if len(calls) > 2:  # the native call is bound once, and called once, in each setup
            out[0] = math.nan
        return 0

    planted = types.ModuleType("kernels.add_mul_exp")
    planted.SUPPORTS = {"devices": ("cpu",), "dtypes": ("float32",), "keywords": ("out",)}
    planted.bind = lambda *inputs, out: lambda: first_element_wrong_the_second_time(*inputs, out)
    monkeypatch.setitem(sys.modules, "kernels.add_mul_exp", planted)
    bench = add_mul_exp.Cpu()
    bench.setup("native", "float32-1M")
    assert bench.track_max_error("native", "float32-1M") < 1e-6
    bench.setup("native", "float32-1M")
    with pytest.raises(WrongResultError, match=r"1 of 1000000 elements wrong, the first at \(0,\): got nan"):
        bench.track_max_error("native", "float32-1M")


@pytest.mark.parametrize("module", [add_mul_exp, matmul, quantize_int8], ids=lambda module: module.__name__)
def test_cases_are_those_of_tier_core(module):
    bench = as_asv_runs(module)
    assert bench.params[1] == [repr(case) for case in module.Cpu.problem.core["cpu"]]
    assert bench.param_names == ["implementation", "case"]
    assert (bench.type, bench.version) == ("track", "1")
    assert not hasattr(bench, "rounds")  # asv calls it once


def test_asv_gets_a_number(root):
    bench = as_asv_runs(matmul)
    assert bench.do_setup() is False
    assert 0 < bench.do_run() < 1e-4
    bench.do_teardown()


def test_na_where_setup_is_na(root, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert as_asv_runs(matmul).do_setup() is True
    (said,) = failures(root)
    assert (said["b"], said["skipped"]) == ("k.Cpu.track_max_error", True)
    assert "asv: skipped" in capsys.readouterr().out


def test_problem_without_error_is_na(root, monkeypatch):
    monkeypatch.setattr(matmul.Matmul, "verify_result", lambda *_: (True, {}))
    bench = as_asv_runs(matmul)
    bench.do_setup()
    assert math.isnan(bench.do_run())  # asv's "n/a", which says nothing of why
    (said,) = failures(root)
    assert (said["b"], said["skipped"]) == ("k.Cpu.track_max_error", True)
    assert said["error"] == "the problem's verify_result gives no max_error"


def test_wrong_result_is_recorded(root, monkeypatch):
    bench = as_asv_runs(matmul)
    bench.do_setup()
    monkeypatch.setattr(matmul.Matmul, "verify_result", lambda *_: (False, {"count": 3}))
    with pytest.raises(WrongResultError):
        bench.do_run()
    (said,) = failures(root)
    assert said["error"] == "WrongResultError: matmul eager float32-256x256x256 is wrong: count 3"
