"""asv's own commands on our suite: what `asv run` measures, and what its tables show."""

import itertools
import json
import math
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from asv import util
from asv.commands.show import Show
from asv.results import Results
from asv.runner import BenchmarkResult

from kernel_velocity import asv_plugin, lock
from kernel_velocity.errors import UsageError
from kernel_velocity.names import DEVICES
from kernel_velocity.runner import select
from tests.small_suite import SUITE

CONTRACT = Path(__file__).parent / "benchmarks" / "golden" / "contract.json"
CONF = SimpleNamespace(benchmark_dir=str(SUITE.folder))
BENCHMARKS = json.loads(CONTRACT.read_text())
FOREIGN = {"name": "device_memory.time_copy", "params": [["'a'", "'b'"]]}  # of asv alone, in the same suite
NA = math.nan


@pytest.fixture(autouse=True)
def plain(monkeypatch):
    """asv as a user starts it on a machine without a GPU."""
    for name in (lock.HOLDER, "KV_TIER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KV_DEVICE", "cpu")


def selected(regex=None):
    """Return what `asv run` measures, as asv names it."""
    benchmarks = asv_plugin.TierBenchmarks(CONF, [*BENCHMARKS, FOREIGN], regex)
    names = set()
    for name, benchmark in benchmarks.items():
        combinations = list(itertools.product(*benchmark["params"]))
        chosen = benchmarks.benchmark_selection[name]
        names |= {f"{name}({', '.join(combinations[number])})" for number in ([0] if chosen is None else chosen)}
    return names


def tracked_by_kv(device, tier):
    selection = select.select(SUITE, device, tier, None)
    return {f"{name}({', '.join(map(repr, params))})" for name, params in (*selection.series, *selection.tracked)}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("tier", ["core", "full"])
def test_run_measures_what_track_does(monkeypatch, device, tier):
    monkeypatch.setenv("KV_DEVICE", device)
    monkeypatch.setenv("KV_TIER", "" if tier == "core" else tier)
    timed = {f"{benchmark['name']}(" for benchmark in BENCHMARKS}
    wanted = {name for name in tracked_by_kv(device, tier) if f"{name.partition('(')[0]}(" in timed}
    ceilings = {
        f"{benchmark['name']}()"
        for benchmark in BENCHMARKS
        if benchmark["name"].startswith(f"device.{DEVICES[device]}.")
    }
    assert wanted and ceilings
    assert selected() == wanted | ceilings | {"device_memory.time_copy('a')", "device_memory.time_copy('b')"}


def test_bench_selects_within_the_tier(monkeypatch):
    assert selected(r"matmul\.Cpu\.time_.*'native'") == {
        f"matmul.Cpu.time_hot('native', 'float32-{n}x{n}x{n}')" for n in (256, 512)
    }
    for regex in ("float32-50M", "Cuda.time_hot"):
        with pytest.raises(util.UserError, match=r"none of the .* in tier core on CPU: KV_TIER=full"):
            selected(regex)
    assert selected("just-discover") == set()  # asv's word for discovery alone
    monkeypatch.setenv("KV_TIER", "full")
    assert "add_mul_exp.Cpu.time_hot('native', 'float32-50M')" in selected("float32-50M")


def test_run_that_kv_started_measures_what_it_is_told(monkeypatch):
    monkeypatch.setenv(lock.HOLDER, "1")
    assert len(selected()) > 2 * len(tracked_by_kv("cpu", "core"))
    monkeypatch.setenv(lock.HOLDER, str(os.getpid()))  # asv's own lock
    assert len(selected()) < 2 * len(tracked_by_kv("cpu", "core"))


@pytest.mark.parametrize(("variable", "words"), [("KV_TIER", "TIER must be core"), ("KV_DEVICE", "DEVICE='some'")])
def test_unknown_tier_or_device_is_one_line(monkeypatch, variable, words):
    monkeypatch.setenv(variable, "some")
    with pytest.raises(util.UserError, match=words):
        selected()


def test_selection_leaves_the_list_of_benchmarks_as_it_is(tmp_path):
    conf = SimpleNamespace(**vars(CONF), results_dir=str(tmp_path))
    asv_plugin.TierBenchmarks(conf, BENCHMARKS, "matmul").save()
    listed = json.loads((tmp_path / "benchmarks.json").read_text())
    assert [listed[benchmark["name"]] for benchmark in BENCHMARKS] == BENCHMARKS


# Tables ---------------------------------------------------------------------------------------------------------------


def table(values, axes=(("'eager'", "'native'", "'triton'"), ("'float32-1M'", "'float32-5M'", "'float32-50M'"))):
    """Return what asv prints of a benchmark with these values."""
    params = [list(axis) for axis in axes]
    benchmark = {"name": "k.Cpu.time_hot", "params": params, "param_names": ["implementation", "case"][: len(params)]}
    benchmark |= {"version": "1", "unit": "seconds"}
    results = Results.unnamed()
    nothing = [None] * len(values)
    results.add_result(benchmark, BenchmarkResult(values, nothing, nothing, 0, "", None))
    return asv_plugin.format_result(results, benchmark)


def test_table_has_no_row_and_no_column_of_na():
    info, details = table([1.0, NA, NA, NA, 2.0, NA, NA, NA, NA])
    assert info == "ok"
    rows = [line.split() for line in details.splitlines() if not set(line) <= set("= -")]
    assert rows[-3:-1] == [["eager", "1.00s", "n/a"], ["native", "n/a", "2.00s"]]
    assert details.splitlines()[-1] == "no value: implementation triton; case float32-50M"


def test_failure_is_shown():
    info, details = table([None, NA, NA, NA, 2.0, NA, NA, NA, NA])
    assert info == "1/4 failed"
    assert "failed" in details and details.count("n/a") == 2


def test_benchmark_without_any_value_is_one_word():
    assert table([NA] * 9) == ("n/a", None)
    assert table([NA], axes=()) == ("n/a", None)


def test_show_leaves_out_a_benchmark_without_any_value(capsys):
    benchmark = {"name": "k.Cuda.time_hot", "params": [], "param_names": [], "version": "1", "unit": "seconds"}
    results = Results.unnamed()
    results.add_result(benchmark, BenchmarkResult([NA], [None], [None], 0, "", None))
    asv_plugin.print_benchmark(Show, "box", results, benchmark)
    assert capsys.readouterr().out == ""
    asv_plugin.print_benchmark(Show, "box", results, benchmark, show_details=True)
    assert "k.Cuda.time_hot" in capsys.readouterr().out


def test_comparison_has_no_line_of_what_is_na():
    rows = asv_plugin.unroll_result("k", [["'a'", "'b'", "'c'"]], [1.0, NA, None], [None] * 3, [None] * 3)
    assert [(name, value) for name, value, *_ in rows] == [("k('a')", 1.0), ("k('c')", None)]


# The working tree -----------------------------------------------------------------------------------------------------


def test_stale_library_is_refused_before_measuring(monkeypatch):
    def refuse(package, kernel):
        raise UsageError(f"{package}/{kernel} was changed")

    monkeypatch.chdir(SUITE.folder.parent)
    monkeypatch.setattr(asv_plugin, "hold_locks", lambda: None)
    monkeypatch.setattr(asv_plugin, "check_build", refuse)
    with pytest.raises(util.UserError, match=r"^kernels/add_mul_exp was changed$"):
        asv_plugin.create_existing(SimpleNamespace())


def test_variables_of_asv_reach_the_working_tree(monkeypatch, tmp_path):
    """Without them the suite's benchmark types are not registered: discovery would write another list of benchmarks."""
    ran = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASV_PYTHONPATH", "more")
    monkeypatch.setattr(asv_plugin, "_run_existing", lambda environment, args, env: ran.append(env))
    environment = SimpleNamespace(_global_env_vars={"ASV_PROJECT": "p"})
    asv_plugin.run_existing(environment, [], env={"PATH": "x"})
    assert ran[0].items() >= {"PATH": "x", "ASV_PROJECT": "p", "KV_ARTEFACTS": str(tmp_path)}.items()
    assert ran[0]["ASV_PYTHONPATH"] == f"{tmp_path}{os.pathsep}more" and ran[0]["OMP_NUM_THREADS"] == "1"
