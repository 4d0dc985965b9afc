"""From an asv class to a telemetry line, without asv: checked before timed, n/a told from failed."""

import importlib
import importlib.util
import json
import os
import subprocess
import sys

import pytest

from benchmarks import add_mul_exp, matmul, quantize_int8, quantize_int8_rows
from kernel_velocity.engine import process_state
from kernel_velocity.engine.sampling import measure
from kernel_velocity.engine.spool import EarlierRoundDiedError
from kernel_velocity.problem import implementations
from kernel_velocity.runner.asv import run_measuring
from kernel_velocity.suite import benchmark, packages
from kernel_velocity.suite.benchmark import WrongResultError, _KernelBenchmark
from kernel_velocity.suite.under_test import WrongPackageError
from tests.small_suite import SUITE
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


@pytest.mark.parametrize(
    ("setting", "is_control"),
    [
        (lambda: torch.backends.mkldnn.set_flags(False), False),
        (lambda: sys.setprofile(lambda *_: None), False),
        (lambda: torch.rand(3), True),  # random numbers have no pace
    ],
)
def test_control_under_other_settings_is_none(asv_environment, kernel, setting, is_control):
    state = process_state.State()

    def setting_and_right(x, y, out):
        setting()
        out.copy_(torch.exp((x + y) * 2))
        return 0

    kernel("add_mul_exp", setting_and_right)
    bench = add_mul_exp.Cpu()
    bench.setup("native", "float32-500k")
    bench.measure("add_mul_exp.Cpu.time_hot", "native", "float32-500k")
    (record,) = rounds(asv_environment)
    assert (record.control_gauge is not None) is is_control
    assert not state.put_back().keys() - {process_state.RANDOM[0], "environment variables"}


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
        assert benchmark.CHECK_STEP not in observed
        observed.clear()
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


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize(
    "spoil", [lambda last: last.view(torch.int32).add_(1), lambda last: last.fill_(float("nan"))], ids=["bit", "nan"]
)
def test_wrong_second_output_is_never_timed(asv_environment, monkeypatch, spoil, is_known):
    if is_known:  # at this commit it was checked in full, and was right: one wrong bit is none of its sums
        RowsOnTheCpu().setup("native", "float32-128x4096")
    rows_kernel(monkeypatch, lambda scales: spoil(scales[-1:]))
    why = r"is wrong: scales: 1 of 128 elements wrong, the first at \(127,\)"
    with pytest.raises(WrongResultError, match=f"quantize_int8_rows native float32-128x4096 {why}"):
        RowsOnTheCpu().setup("native", "float32-128x4096")
    assert not rounds(asv_environment)


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


def test_commit_without_the_kernel_is_na(asv_environment, monkeypatch):
    real = importlib.import_module

    def absent(name, *rest):
        if name == "kernels.matmul":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(NotImplementedError, match=r"this commit has no kernels\.matmul"):
        matmul.Cpu().setup("native", CASE["matmul"])


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
    assert len(list((asv_environment / ".asv" / "cache" / "gauge").glob("[0-9a-f]*.json"))) == 1


@pytest.mark.slow
def test_compile_is_a_package_that_is_made_before(asv_environment, monkeypatch):
    name = "matmul"
    bench, both = MODULES[name].Cpu(), [("matmul.Cpu.time_hot", (how, CASE[name])) for how in ("compile", "native")]
    monkeypatch.chdir(SUITE.folder.parent)
    assert packages.lacking(both) == (both[0],)
    assert run_measuring(packages.MODULE, [name, CASE[name]], print) == 0
    assert packages.lacking(both) == ()
    (package,) = (asv_environment / ".asv" / "cache" / "aoti").glob("*.pt2")
    made = package.stat().st_mtime_ns
    bench.setup("compile", CASE[name])
    bench.measure(f"{name}.Cpu.time_hot", "compile", CASE[name])
    assert package.stat().st_mtime_ns == made
    assert len(rounds(asv_environment)) == 1


def test_package_that_cannot_be_made_is_tried_once(asv_environment, monkeypatch):
    monkeypatch.chdir(SUITE.folder.parent)
    series = ("matmul.Cpu.time_hot", ("compile", CASE["matmul"]))
    monkeypatch.setattr(implementations, "_compile", lambda *_: 1 / 0)
    packages._make("matmul", CASE["matmul"])
    assert packages.lacking([series]) == ()
    with pytest.raises(ZeroDivisionError):
        matmul.Cpu().setup("compile", CASE["matmul"])


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


def test_author_states_the_direction_of_a_plain_benchmark(tmp_path):
    """asv's own discovery, in a process of its own, of a suite that has our types registered."""
    suite = tmp_path / "benchmarks"
    suite.mkdir()
    (suite / "__init__.py").write_text("import kernel_velocity\nkernel_velocity.register()\n")
    (suite / "plain.py").write_text(
        "class Suite:\n    higher_is_better = True\n    def track_score(self): return 1.0\n"
        "def track_cost(): return 1.0\ntrack_cost.higher_is_better = False\ndef track_other(): return 1.0\n"
    )
    discover = f"from asv_runner import discovery as d; d._discover(['benchmarks', {str(tmp_path / 'list.json')!r}])"
    subprocess.run([sys.executable, "-c", discover], cwd=tmp_path, env={**os.environ, "ASV_PROJECT": "p"}, check=True)
    listed = {entry["name"]: entry for entry in json.loads((tmp_path / "list.json").read_text())}
    assert {name: entry.get("higher_is_better") for name, entry in listed.items()} == {
        "plain.Suite.track_score": True,
        "plain.track_cost": False,
        "plain.track_other": None,
    }
    assert "higher_is_better" not in listed["plain.track_other"]
