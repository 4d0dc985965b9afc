"""The output of asv that `kv track` reads, and the report that it prints."""

import dataclasses

import pytest

from kernel_velocity.engine.gpu import GpuActivity
from kernel_velocity.results.lines import Failure
from kernel_velocity.results.measurement import Measurement, Outcome, SeriesKey
from kernel_velocity.runner import report
from kernel_velocity.runner.asv import Reader
from kernel_velocity.runner.report import Cost
from tests.results.spooled import ROUND

OUTPUT = """\
· Discovering benchmarks
[ 0.00%] · For kernel-velocity commit 67b1eb8c <main> (round 1/2):
[ 0.00%] ·· Benchmarking host-py3.11-torch9.9.0
[ 6.25%] ··· Running (scale.Cpu.time_hot--)..
[50.00%] · For kernel-velocity commit 67b1eb8c <main> (round 2/2):
[93.75%] ··· scale.Cpu.time_hot                                      2/6 failed
[93.75%] ··· ================ ============ ============
[100.00%] ···· For parameters: 'native', 'float32-1k'
               Fatal Python error: Segmentation fault

               Current thread 0x1 (most recent call first):

               For parameters: 'native', 'float32-2k'


               asv: benchmark timed out (timeout 180.0s)

               asv: benchmark failed (exit status -256)
"""


def read(text):
    reader = Reader()
    for time, line in enumerate(text.splitlines()):
        reader.read(line, float(time))
    return reader


def test_reader_finds_steps():
    first, second = read(OUTPUT).steps
    assert (first.percent, first.commit, first.round, first.rounds, first.time) == (0.0, "67b1eb8c", 1, 2, 1.0)
    assert (second.percent, second.round) == (50.0, 2)
    (alone,) = read("[12.50%] · For kernel-velocity commit 67b1eb8c:").steps
    assert (alone.round, alone.rounds) == (1, 1)


def test_reader_finds_crashes_and_timeouts():
    (commit, crash), (_, timeout) = read(OUTPUT).deaths
    assert (commit, crash.benchmark, crash.died) == ("67b1eb8c", "scale.Cpu.time_hot", True)
    assert (crash.params, crash.error) == (("native", "float32-1k"), "its process crashed: Segmentation fault")
    assert (timeout.params, timeout.error) == (("native", "float32-2k"), "ran past its timeout of 180 s")


@pytest.mark.parametrize(
    "line",
    [
        "For parameters: ((( x",
        "[50.00%] · For a commit 67b1eb8c (round 99999999999/1):",
        "kernel.py: spool.SpoolError: [Errno 28] no path",
    ],
)
def test_reader_survives_what_a_kernel_prints(line):
    head, _, rest = OUTPUT.partition("\n")
    assert read(f"{head}\n{line}\n{rest}").deaths == read(OUTPUT).deaths


def test_reader_stops_a_run_whose_rounds_cannot_be_kept():
    with pytest.raises(OSError, match=r"No space left on device: '/a/b\.jsonl'") as caught:
        read("    kernel_velocity.engine.spool.SpoolError: [Errno 28] No space left on device: '/a/b.jsonl'")
    assert caught.value.errno == 28


def test_wall_clock_by_commit():
    reader = read(
        "[ 0.00%] · For p commit aaaaaaaa:\nx\n[ 1.00%] · For p commit bbbbbbbb:\n[ 2.00%] · For p commit aaaaaaaa:\n"
    )
    assert report.wall_clock(reader.steps, end=10.0) == {"aaaaaaaa": 9.0, "bbbbbbbb": 1.0}
    assert report.wall_clock([], end=10.0) == {}


def test_time_between_asvs_runs_is_no_commits():
    reader = read("[ 0.00%] · For p commit aaaaaaaa:\n")
    reader.pause(3.0)
    assert report.wall_clock(reader.steps, end=10.0)["aaaaaaaa"] == 3.0 - reader.steps[0].time


def test_cost_table():
    costs = [
        Cost(commit="aaaaaaaa", build=8.0, measuring=20.0, setup=5.0, warmup=1.25, timing=10.0, queue=0.0, waiting=1.5),
        Cost(commit="bbbbbbbb", build=0.0, measuring=1.0, setup=2.0, warmup=0.0, timing=0.0, queue=0.0, waiting=0.0),
    ]
    assert report.cost_table(costs, "core").splitlines() == [
        "cost, s   total  build  set-up  warm-up  timing  waiting  launch and rest",
        "aaaaaaaa   28.0    8.0     5.0      1.2    10.0      1.5              2.2",
        "bbbbbbbb    1.0    0.0     2.0      0.0     0.0      0.0              0.0",
        "all        29.0    8.0     7.0      1.2    10.0      1.5              2.2",
        "limit per commit (tier core, two cores): 150 s; all within",
    ]
    slow = dataclasses.replace(costs[1], measuring=151.0)
    last = report.cost_table([costs[0], slow], "core").splitlines()[-1]
    assert last.endswith("150 s; over it: bbbbbbbb")
    assert report.cost_table([slow], "full").endswith("600 s; all within")
    around = report.cost_table([dataclasses.replace(costs[0], queue=7.5), costs[1]], "core").splitlines()[-1]
    assert around == "of the timing, 7.5 s are queues, spins and flushes around the calls"


def test_cost_sums_the_rounds():
    gpu = GpuActivity(**dict.fromkeys(field.name for field in dataclasses.fields(GpuActivity)))
    first = dataclasses.replace(
        ROUND, n=30, batch=2, estimate=0.01, gpu=gpu, spent=1.0, setup=2.0, warmup=None, lost=0.5
    )
    result = report.cost("a" * 40, 1.0, 10.0, [first, dataclasses.replace(ROUND, spent=3.0)])
    assert (result.setup, result.warmup, result.timing, result.waiting, result.rest) == (2.0, 0.0, 4.0, 0.5, 3.5)
    assert result.queue == pytest.approx(0.4)  # of the one on a GPU


def measurement(commit, implementation="native", *, outcome=Outcome.MEASURED, seconds=1e-3, flop=1.234e9, case="c"):
    key = SeriesKey(
        machine="m", environment="e", benchmark="k.Cpu.time_hot", implementation=implementation, case=case, version="1"
    )
    done = outcome is Outcome.MEASURED
    return Measurement(key=key, commit=commit, outcome=outcome, seconds=seconds if done else None, flop=flop)


OLD, NEW = "a" * 40, "b" * 40


def test_speed_table():
    measurements = [
        measurement(OLD, "eager"),
        measurement(NEW, "eager", flop=None),
        measurement(OLD, outcome=Outcome.NOT_APPLICABLE),
        measurement(NEW, outcome=Outcome.FAILED),
        measurement(NEW, case="d"),
    ]
    assert report.speed_table(measurements, [OLD, NEW]).splitlines() == [
        "series             aaaaaaaa     bbbbbbbb",
        "k.Cpu eager c   1.23 TFLOPS      1.00 ms",
        "k.Cpu native c          n/a       failed",
        "k.Cpu native d            -  1.23 TFLOPS",
    ]
    assert report.speed_table([], [OLD]) == ""


def test_speed_table_with_integers():
    assert report.speed_table([measurement(OLD, case="int8-1M")], [OLD]).endswith(" TOPS")


def test_failed_lines_have_the_last_reason():
    def failure(error, case="c"):
        return Failure(benchmark="k.Cpu.time_hot", params=("native", case), time=1.0, error=error)

    measurements = [
        measurement(NEW, outcome=Outcome.FAILED),
        measurement(OLD, outcome=Outcome.FAILED),
        measurement(OLD, "eager"),
    ]
    skipped = dataclasses.replace(failure("not here"), skipped=True)
    failures = {NEW: [failure("first"), failure("wrong by 3"), failure("another case", "d"), skipped]}
    assert list(map(str, report.failed(measurements, {}, failures))) == [
        "failed: bbbbbbbb k.Cpu.time_hot native c: wrong by 3",
        "failed: aaaaaaaa k.Cpu.time_hot native c: its process ended without a reason",
    ]


def test_short_lines():
    whole, short = measurement(OLD), dataclasses.replace(measurement(NEW), rounds=5)
    whole = dataclasses.replace(whole, rounds=8)
    death = Failure(benchmark="k.Cpu.time_hot", params=("native", "c"), time=0.0, error="crashed", died=True)
    line = "incomplete: bbbbbbbb k.Cpu.time_hot native c: 3 of 8 rounds ended without a value"
    assert list(map(str, report.short([whole, short], 8, []))) == [line]
    assert list(map(str, report.short([whole, short], 8, [(NEW[:8], death)]))) == [f"{line}: crashed"]
    (died,) = report.short([whole], 8, [(OLD[:8], death)])
    assert died.why == "1 of 8 rounds ended without a value: crashed"  # although what was there before is put back
    assert report.short([measurement(OLD, outcome=Outcome.FAILED)], 8, []) == []  # it has a line of its own


def test_absent_lines_group_by_implementation():
    measurements = [measurement(NEW, outcome=Outcome.NOT_APPLICABLE, case=case) for case in ("c", "d")]
    skipped = Failure(
        benchmark="k.Cpu.time_hot", params=("native", "d"), time=1.0, error="no such kernel", skipped=True
    )
    failed = dataclasses.replace(skipped, skipped=False, error="wrong")
    line = "n/a: bbbbbbbb k.Cpu.time_hot native (c, d)"
    assert report.absent_lines(measurements, {NEW: [skipped, failed]}) == [f"{line}: no such kernel"]
    assert report.absent_lines(measurements, {OLD: [skipped], NEW: [failed]}) == [line]


def test_gpu_code_without_any_figure_has_a_line_of_its_reason():
    def of(kernel, figure, why="no numba", **changes):
        fields = {"benchmark": f"{kernel}.Cuda.track_{figure}", "params": ("ours", "sm_90"), "time": 1.0}
        return Failure(**fields | {"error": why, "skipped": True} | changes)

    codes = ("registers", "occupancy")
    figures = [(failure.benchmark, failure.params) for kernel in "abc" for failure in (of(kernel, f) for f in codes)]
    absent = [of(kernel, figure) for kernel in "ab" for figure in codes]
    partly = [of("c", "occupancy", "no launch bounds"), of("c", "registers", "wrong", skipped=False)]
    assert report.uncompiled_lines(figures, {OLD: [], NEW: absent + partly}) == [
        "n/a: bbbbbbbb figures of code of a ours sm_90, b ours sm_90: no numba"
    ]


def test_check_that_null_answers_pass_has_a_line():
    doubted = dataclasses.replace(
        measurement(NEW), warnings=("contended in 1 of 8 rounds", "unproven: zeros would pass")
    )
    line = "bbbbbbbb k.Cpu.time_hot native c: unproven: zeros would pass"
    assert report.unproven_lines([measurement(OLD), doubted]) == [line]


@pytest.mark.parametrize("count", [1, 7])
def test_speed_table_shows_the_newest_commits(count):
    commits = [str(number) * 40 for number in range(count)]
    header = report.speed_table([measurement(commits[-1])], commits).splitlines()[0].split()
    assert header[1:] == [commit[:8] for commit in commits[-report.COMMITS_SHOWN :]]


@pytest.mark.parametrize(
    ("times", "line"),
    [
        ([100.0, 106.0, 102.0, 104.0, 900.0], "about 4 minutes: 100 timings of 2.0 s, as in this machine's records"),
        ([], "about 3 minutes: 100 timings of 1.5 s, as on other machines"),
    ],
)
def test_forecast_is_made_from_what_rounds_took(times, line):
    rounds = [dataclasses.replace(ROUND, time=time) for time in times]
    ahead = report.Ahead(commits=["c"], series=[NATIVE], rounds=100, builds=2)
    assert report.forecast(ahead, report.pace(rounds)) == line


NATIVE, COMPILED = [("k.Cpu.time_hot", (name, "float32-1M")) for name in ("native", "compile")]
COMMITS = ["c0ffee00" + "0" * 32, "b" * 40, "a" * 40]


@pytest.mark.parametrize(
    ("commits", "series", "rounds", "line"),
    [
        (3, [NATIVE, COMPILED], 8, "shorter, in minutes: `--range c0ffee00` 3, `--rounds 3` 3, `--bench native` 4"),
        (1, [COMPILED], 40, "shorter, in minutes: `--rounds 3` 1"),
        (1, [NATIVE], 8, ""),
    ],
)
def test_forecast_says_what_to_leave_out(commits, series, rounds, line):
    ahead = report.Ahead(commits=COMMITS[:commits], series=series, rounds=rounds, builds=3)
    assert report.shorter(ahead, report.Pace(a_round=10.0, a_build=0.0)) == line


def test_forecast_has_the_first_page_and_what_is_compiled():
    pace = report.Pace(a_round=3.0, a_build=30.0, a_compilation=60.0, a_cuda=120.0)
    ahead = report.Ahead(commits=COMMITS[:2], series=[NATIVE, COMPILED], rounds=100, builds=2, has_look=True)
    of = "400 timings of 3.0 s, as on other machines"
    assert report.forecast(ahead, pace) == f"about 21 minutes, a first page after 1: {of}"
    ahead = dataclasses.replace(ahead, compilations=1, cuda=2, series=[NATIVE] * 40 + [COMPILED] * 60, rounds=2)
    assert report.forecast(ahead, pace).splitlines() == [
        f"about 26 minutes, a first page after 5: {of}",
        "besides: what PyTorch compiles of 1 test case, CUDA code of 2 commits",
    ]
    assert report.shorter(ahead, pace) == "shorter, in minutes: `--range c0ffee00` 14, `--bench native` 13"
