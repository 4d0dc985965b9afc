"""The series that `kv track` measures, and which of them are complete."""

import dataclasses
import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.errors import UsageError
from kernel_velocity.names import COUNTS, DEVICES, FIGURES, TARGETS, counted_case
from kernel_velocity.results.asv_file import StoredSeries
from kernel_velocity.runner import select
from kernel_velocity.runner.select import Selection
from tests.small_suite import SUITE


def test_core_has_two_cases_of_every_kernel_and_implementation():
    for device, name in (("cpu", "Cpu"), ("cuda", "Cuda")):
        series = select.select(SUITE, device, "core", None).series
        kernels = {benchmark for benchmark, _ in series}
        assert {f"{kernel}.{name}.time_hot" for kernel in ("add_mul_exp", "quantize_int8", "matmul")} <= kernels
        for kernel in kernels:
            params = [combination for benchmark, combination in series if benchmark == kernel]
            assert len({case for _, case in params}) == 2
            assert {"eager", "compile", "native"} <= {implementation for implementation, _ in params}


def test_implementations_of_other_devices_are_left_out():
    implementations = {
        device: {params[0] for _, params in select.select(SUITE, device, "full", None).series}
        for device in ("cpu", "cuda")
    }
    assert (
        implementations["cuda"] - implementations["cpu"] == {"triton"}
        and implementations["cpu"] < implementations["cuda"]
    )
    errors = select.select(SUITE, "cpu", "core", None).errors
    assert errors and "triton" not in {params[0] for _, params in errors}


def test_full_contains_core_and_bench_filters():
    core, full = select.select(SUITE, "cpu", "core", None), select.select(SUITE, "cpu", "full", None)
    assert set(core.series) < set(full.series)
    (only,) = select.select(SUITE, "cpu", "full", r"^matmul\..*hot.*'native', 'float32-128x").series
    assert only == ("matmul.Cpu.time_hot", ("native", "float32-128x128x128"))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_cold_timings_are_in_full_only(device):
    core, full = select.select(SUITE, device, "core", None), select.select(SUITE, device, "full", None)
    assert not any(name.endswith("time_cold") for name, _ in core.series)
    hot, cold = (
        {(name.rpartition(".")[0], *params) for name, params in full.series if name.endswith(method)}
        for method in (".time_hot", ".time_cold")
    )
    assert cold < hot
    assert len(cold) <= 0.6 * len(hot)  # a fifth of the time of tier full on two cores
    for problem in SUITE.problems(device):
        result = {case for kernel, _, case in cold if kernel.startswith(f"{problem.name}.")}
        assert result == set(problem.cold[device]) < set(problem.cases[device])
        assert {implementation for kernel, implementation, _ in cold if kernel.startswith(f"{problem.name}.")} == set(
            problem.implementations_on(device)
        )
    assert set(full.versions) == {name for name, _ in (*full.series, *full.tracked)}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_errors_are_those_of_hot_core_cases(device):
    for tier in ("core", "full"):
        result = select.select(SUITE, device, tier, None)
        hot = {(name, params) for name, params in select.select(SUITE, device, "core", None).series}
        assert {(name.replace("track_max_error", "time_hot"), params) for name, params in result.errors} == hot
        assert not {name for name, _ in result.series if "track" in name}
    native = select.select(SUITE, device, "full", r"^matmul\..*native")
    assert {params for _, params in native.errors} == {("native", case) for case in SUITE.core(device)["matmul"]}
    assert select.select(SUITE, device, "full", "time_cold").errors == ()
    expressions = select.expressions(native.tracked)
    for name, params in native.errors + native.figures:
        assert (
            sum(bool(re.search(expression, f"{name}({', '.join(map(repr, params))})")) for expression in expressions)
            == 1
        )


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_compiler_figures_cover_all_devices_of_native_kernels(device):
    names = {
        f"matmul.{class_name}.track_{figure}": {("native", target) for target in TARGETS[code]}
        for code, class_name in DEVICES.items()
        for figure in FIGURES[code]
        if figure != "scalar_registers"  # of AMD
    }
    counted = ("native", counted_case(*SUITE.figures("matmul", "cpu").problem.counts))
    names |= {f"matmul.Cpu.track_{count}": {counted} for count in COUNTS}
    result = select.select(SUITE, device, "core", r"^matmul\.").figures
    assert {name: {params for kernel, params in result if kernel == name} for name, _ in result} == names
    everything = {name for name, _ in select.select(SUITE, device, "core", None).figures}
    for problem in SUITE.problems("cuda"):
        assert f"{problem.kernel}.Cuda.track_spill_bytes" in everything
    kernels = {name.partition(".")[0] for name in everything if ".Cpu." in name}
    assert kernels == {problem.kernel for problem in SUITE.problems()}  # counted, if not timed
    assert select.select(SUITE, device, "core", r"^matmul\..*eager").figures == ()


@pytest.mark.parametrize(("tier", "bench"), [("best", None), ("core", "("), ("core", "no-such")])
def test_malformed_selection_is_refused(tier, bench):
    with pytest.raises(UsageError):
        select.select(SUITE, "cpu", tier, bench)


parts = st.text("ab.('", min_size=1, max_size=4)


@given(st.lists(st.tuples(parts, parts), min_size=1, max_size=4, unique=True))
def test_expressions_escape_names(params):
    chosen = Selection(series=tuple(("k.Cpu.time_hot", param) for param in params), versions={})
    (expression,) = select.expressions(chosen.series)
    for combination in itertools.product(*zip(*params, strict=True)):
        text = f"k.Cpu.time_hot({', '.join(map(repr, combination))})"
        assert (re.search(expression, text) is not None) == (combination in params)


NOTHING = StoredSeries(value=None, failed=False, samples=None, count=None, started_at=None, duration=None)
VALUE = dataclasses.replace(NOTHING, value=1.0, count=8)
FAILED = dataclasses.replace(NOTHING, failed=True)
A, B, OTHER_CASE = ("k", ("eager", "c")), ("k", ("native", "c")), ("k", ("eager", "d"))


@pytest.mark.parametrize(
    ("stored", "failures", "measured"),
    [
        ([], {}, False),
        ([(A, VALUE), (B, VALUE)], {}, True),
        ([(A, VALUE), (B, NOTHING)], {B: 1}, True),  # native does not apply
        ([(A, VALUE), (B, NOTHING)], {}, False),  # an earlier run left native out
        ([(A, VALUE), (B, FAILED)], {B: 8}, True),
        ([(A, VALUE), (B, FAILED)], {}, False),  # no reason: the disk was full
        ([(A, NOTHING), (B, FAILED)], {A: 1, B: 8}, True),  # not tried again
        ([(A, FAILED), (B, FAILED)], {B: 8}, False),  # a build that failed in plain `asv run`, or a broken machine
        ([(A, NOTHING), (B, NOTHING)], {A: 1, B: 1}, True),  # the commit is older than the kernel
        ([(A, NOTHING), (B, NOTHING), (OTHER_CASE, VALUE)], {}, False),  # an earlier run measured another case only
        ([(A, dataclasses.replace(VALUE, count=3)), (B, NOTHING)], {B: 1}, False),  # a first look
        ([(A, VALUE), (B, dataclasses.replace(VALUE, count=7))], {B: 1}, True),  # one round crashed
        ([(A, VALUE), (B, dataclasses.replace(VALUE, count=3))], {B: 1}, True),  # and none was taken after that
        ([(A, VALUE), (B, dataclasses.replace(VALUE, count=2))], {B: 1}, False),  # in a first look
        ([(("other", ("eager", "c")), VALUE)], {}, False),
    ],
)
def test_is_measured(stored, failures, measured):
    assert select.is_measured(dict(stored), [A, B], 8, failures=failures, other_method=()) is measured


def test_series_whose_rounds_agree_is_measured():
    stored = {A: VALUE, B: dataclasses.replace(VALUE, count=4)}
    assert not select.is_measured(stored, [A, B], 8, failures={}, other_method=())
    assert select.is_measured(stored, [A, B], 8, failures={}, other_method=(), settled={B})


def test_is_measured_by_another_method():
    assert not select.is_measured({A: VALUE, B: VALUE}, [A, B], 8, failures={}, other_method={B})


HOT, ERROR = ("k.Cpu.time_hot", ("native", "c")), ("k.Cpu.track_max_error", ("native", "c"))


@pytest.mark.parametrize(
    ("stored", "tracked", "wrong"),
    [
        ([], False, []),
        ([(HOT, VALUE)], False, []),  # recorded before errors were tracked
        ([(HOT, VALUE), (ERROR, NOTHING)], False, []),  # an earlier run measured another case
        ([(HOT, VALUE), (ERROR, VALUE)], True, []),
        ([(HOT, VALUE), (ERROR, FAILED)], True, [ERROR]),  # not tried again
        ([(HOT, FAILED), (ERROR, FAILED)], True, []),  # its timing is reported already
        ([(HOT, NOTHING), (ERROR, NOTHING)], True, []),  # does not apply
        ([(ERROR, NOTHING)], False, []),
    ],
)
def test_is_tracked_and_wrong_errors(stored, tracked, wrong):
    assert select.is_tracked(dict(stored), [ERROR]) is tracked
    assert select.wrong_errors(dict(stored), [ERROR]) == wrong


def test_error_with_a_recorded_failure_is_complete():
    stored = {HOT: VALUE, ERROR: NOTHING}
    assert select.is_tracked(stored, [ERROR], failures={ERROR})
    assert not select.is_tracked(stored, [ERROR], failures={HOT})
    assert not select.is_tracked({HOT: VALUE}, [ERROR], failures={ERROR})  # of a results file that is gone


def test_expression_selects_the_series_of_lanes():
    pattern = re.compile(
        select.of_lanes(["matmul float32-2x2x2", "matmul float32-4x4x4", "add float32-1k"], "hot.*native")
    )
    chosen = {
        "matmul.Cpu.time_hot('native', 'float32-2x2x2')": True,
        "add.Cuda.time_hot('native', 'float32-1k')": True,
        "add.Cuda.time_cold('native', 'float32-1k')": False,
        "add.Cuda.time_hot('eager', 'float32-1k')": False,
        "matmul.Cpu.time_hot('native', 'float32-2x2x20')": False,
        "matmul_relu.Cpu.time_hot('native', 'float32-2x2x2')": False,
    }
    assert {name: pattern.search(name) is not None for name in chosen} == chosen
