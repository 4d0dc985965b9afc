"""Files of Google Benchmark and nvbench, written after their formats, become series of a commit."""

import json
import math
import platform
import statistics

import pytest

from kernel_velocity.past import packing, past
from kernel_velocity.results import foreign, reader
from kernel_velocity.results.asv_file import StoredFile
from kernel_velocity.results.lines import Failure
from kernel_velocity.verdict import change_points
from tests.commands import kv
from tests.synthetic import make_repository

COPY = ("BM_Copy.Cpu.time_hot", "native", "<float>/1024")


def entry(name, seconds, index=0, **more):
    times = {"real_time": seconds * 1e6, "cpu_time": seconds * 1e6, "time_unit": "us"}
    run = {"name": name, "run_name": name, "run_type": "iteration", "repetition_index": index, "iterations": 100}
    return run | times | more


def aggregate(name, kind, **more):
    return {"name": f"{name}_{kind}", "run_name": name, "run_type": "aggregate", "aggregate_name": kind, **more}


def google_benchmark(*entries, **context):
    return {"context": {"date": "2026-11-23T12:00:00+01:00", "executable": "./suite", **context}, "benchmarks": entries}


COPIES = [entry("BM_Copy<float>/1024", seconds, index) for index, seconds in enumerate((2e-6, 3e-6, 4e-6))]


def state(name, axes=(), device=0, **summaries):
    tags = {"cold": "nv/cold/time/gpu/mean", "median": "nv/cold/time/gpu/median", "batch": "nv/batch/time/gpu/mean"}
    return {
        "name": name,
        "device": device,
        "axis_values": [{"name": axis, "type": "string", "value": value} for axis, value in axes],
        "summaries": [
            {"tag": tags[key], "data": [{"name": "value", "type": "float64", "value": repr(value)}]}
            for key, value in summaries.items()
        ],
        "is_skipped": not summaries,
    }


def nvbench(*states, devices=1):
    gpus = [{"id": number, "name": "A GPU"} for number in range(devices)]
    return {"meta": {}, "devices": gpus, "benchmarks": [{"name": "copy", "states": states}]}


def read(tmp_path, program, *documents):
    paths = []
    for number, document in enumerate(documents):
        paths.append(tmp_path / f"file{number}.json")
        paths[-1].write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return foreign.read(program, paths)


def samples(run):
    """Return the samples of each series, s, or why there are none."""
    return {
        key: outcome.error if isinstance(outcome, Failure) else tuple(round_.estimate for round_ in outcome)
        for key, outcome in run.series.items()
    }


def methods(run):
    return {round_.method for rounds in run.series.values() for round_ in rounds}


@pytest.fixture
def repository(tmp_path):
    """Return a repository of two commits with asv.conf.json, and a function that runs `kv ingest` there."""
    folder = tmp_path / "repository"
    commits = make_repository(folder, ("One", "Two"), "Ada", files={0: {"asv.conf.json": "{}"}})

    def ingest(document, *argv, program="google-benchmark"):
        path = tmp_path / "suite.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        return kv("ingest", "--root", folder, f"--{program}", path, "--machine", "bench", *argv)

    return folder, commits, ingest


# What files say -------------------------------------------------------------------------------------------------------


def test_repetitions_are_samples(tmp_path):
    run = read(tmp_path, "google-benchmark", google_benchmark(*COPIES, aggregate("BM_Copy<float>/1024", "mean")))
    assert samples(run) == {COPY: pytest.approx((2e-6, 3e-6, 4e-6))}
    assert [round_.time for round_ in run.series[COPY]] == [1795431600.0, 1795431600.01, 1795431600.02]


def test_aggregates_count_where_repetitions_are_left_out(tmp_path):
    times = {"cpu_time": 1.0, "time_unit": "ms"}
    both = [aggregate("a/8", "mean", real_time=3.0, **times), aggregate("a/8", "median", real_time=2.0, **times)]
    run = read(tmp_path, "google-benchmark", google_benchmark(*both, aggregate("b", "mean", real_time=5.0, **times)))
    assert samples(run) == {
        ("a.Cpu.time_hot", "native", "8"): (2e-3,),
        ("b.Cpu.time_hot", "native", "default"): (5e-3,),
    }
    assert methods(run) == {"google-benchmark median", "google-benchmark mean"}


def test_failed_and_skipped_have_their_reason(tmp_path):
    broken = [entry("a", 1e-6), entry("a", 0.0, 1, error_occurred=True, error_message="no memory")]
    skipped = entry("b", 0.0, skipped=True, skip_message="no AVX-512")
    run = read(tmp_path, "google-benchmark", google_benchmark(*broken, skipped))
    assert samples(run) == {
        ("a.Cpu.time_hot", "native", "default"): "no memory",
        ("b.Cpu.time_hot", "native", "default"): "no AVX-512",
    }
    assert [failure.skipped for failure in run.series.values()] == [False, True]
    assert run.notes == (
        "failed: a.Cpu.time_hot native default (no memory)",
        "skipped: b.Cpu.time_hot native default (no AVX-512)",
    )


def test_counters_are_no_fields(tmp_path):
    """Counters stand behind the fields, with any name, and are numbers."""
    counters = {"skipped": 12.0, "error_occurred": 1.0, "run_type": 3.0, "big_o": 2.0, "rms": 0.5}
    row = {key: value for key, value in entry("a", 5e-7).items() if key != "run_type"} | counters
    text = json.dumps(google_benchmark(row))
    text = text.replace('"iterations"', '"real_time": 0.5, "cpu_time": 0.5, "time_unit": "us", "iterations"')
    run = read(tmp_path, "google-benchmark", text)
    assert samples(run) == {("a.Cpu.time_hot", "native", "default"): (5e-7,)}


def old(name, seconds, **more):
    """Return a row as before version 1.4.1, where the name alone tells an aggregate."""
    return {key: value for key, value in entry(name, seconds, **more).items() if "run" not in key and "rep" not in key}


def test_old_aggregates_and_fits_are_no_series(tmp_path):
    rows = [old("a/8", 1e-6), old("a/8", 3e-6), *(old(f"a/8_{end}", 2e-6) for end in ("mean", "stddev", "worst"))]
    alone = [old(f"b_{end}", seconds) for end, seconds in (("mean", 3e-6), ("median", 2e-6), ("stddev", 1e-7))]
    fit = [{"name": "a_BigO", "cpu_coefficient": 1.0, "big_o": "N", "time_unit": "ns"}, {"name": "a_RMS", "rms": 0.02}]
    run = read(tmp_path, "google-benchmark", google_benchmark(*rows, *alone, old("geo_mean", 4e-6), *fit))
    assert samples(run) == {
        ("a.Cpu.time_hot", "native", "8"): (1e-6, 3e-6),
        ("b.Cpu.time_hot", "native", "default"): (2e-6,),
        ("geo_mean.Cpu.time_hot", "native", "default"): (4e-6,),
    }
    assert run.notes == ()


def test_fit_of_new_version_is_no_series(tmp_path):
    fit = aggregate("a_family", "BigO", cpu_coefficient=1.0, real_coefficient=1.0, big_o="N", time_unit="ns")
    assert [*read(tmp_path, "google-benchmark", google_benchmark(*COPIES, fit)).series] == [COPY]


def test_warnings_are_flags_and_a_debug_build_is_a_method(tmp_path):
    facts = {"library_version": "v1.9.5", "library_build_type": "debug", "cpu_scaling_enabled": True, "num_cpus": 8}
    run = read(tmp_path, "google-benchmark", google_benchmark(*COPIES, **facts))
    assert methods(run) == {"google-benchmark median, debug build"}
    assert {round_.flags for round_ in run.series[COPY]} == {("debug_build", "scaling")}
    (session,) = run.sessions
    assert session.facts == {
        "google-benchmark": "v1.9.5",
        "library build": "debug",
        "cpu scaling": "enabled",
        "num_cpu": "8",
    }


def test_files_of_a_command_are_one_set_of_samples(tmp_path):
    halves = [google_benchmark(*COPIES, part="1"), google_benchmark(*COPIES, entry("b", 1e-6), part="2")]
    run = read(tmp_path, "google-benchmark", halves[0], halves[1], halves[0])
    assert samples(run)[COPY] == pytest.approx((2e-6, 3e-6, 4e-6) * 2)
    assert len(run.paths) == 2  # a file that is given twice counts once
    assert run.notes == (
        "BM_Copy<float>/1024: 6 rows in 2 files (2.00 µs, 3.00 µs, 4.00 µs, 2.00 µs and 2 more) are samples of one "
        "series",
    )


def test_rows_of_one_name_are_samples_of_one_series(tmp_path):
    run = read(tmp_path, "nvbench", nvbench(state("N=1", cold=10e-6), state("N=1", cold=12e-6)))
    assert [*samples(run).values()] == [(10e-6, 12e-6)]
    assert run.notes == ("copy N=1: 2 rows in 1 file (10.0 µs, 12.0 µs) are samples of one series",)


def test_samples_of_two_methods_are_refused(tmp_path):
    debug = google_benchmark(*COPIES, library_build_type="debug")
    with pytest.raises(foreign.UsageError, match=r"file1.json: BM_Copy.* as google-benchmark median, debug"):
        read(tmp_path, "google-benchmark", google_benchmark(*COPIES), debug)


def test_time_of_zero_is_left_out_with_a_note(tmp_path):
    run = read(tmp_path, "google-benchmark", google_benchmark(entry("BM_Empty", 0.0), *COPIES))
    assert list(run.series) == [COPY]
    assert len(run.notes) == 1 and "BM_Empty" in run.notes[0]


@pytest.mark.parametrize(
    ("name", "kernel", "case"),
    [
        ("BM_Gemm/1024/8/real_time", "BM_Gemm", "1024/8/real_time"),
        ("ns::copy<int, 4>", "ns_copy", "<int, 4>"),
        ("Fixture/Case/threads:2", "Fixture", "Case/threads:2"),
        ("2D", "bench_2D", "default"),
    ],
)
def test_names(tmp_path, name, kernel, case):
    run = read(tmp_path, "google-benchmark", google_benchmark(entry(name, 1e-6)))
    assert list(run.series) == [(f"{kernel}.Cpu.time_hot", "native", case)]


def test_nvbench_has_cold_and_hot_times(tmp_path):
    states = [
        state("Device=0 N=8", [("N", "8"), ("T", "F32")], cold=3e-6, median=2e-6, batch=1e-6),
        state("Device=0 N=9", [("N", "9"), ("T", "F32")]),
    ]
    run = read(tmp_path, "nvbench", nvbench(*states))
    assert samples(run) == {
        ("copy.Cuda.time_cold", "native", "N=8,T=F32"): (3e-6,),
        ("copy.Cuda.time_hot", "native", "N=8,T=F32"): (1e-6,),
        ("copy.Cuda.time_cold", "native", "N=9,T=F32"): "nvbench gives no reason",
    }


def test_nvbench_keeps_to_the_estimator_of_all_versions(tmp_path):
    states = [state("N=1", [("N", "1")], cold=3e-6, median=2e-6), state("N=2", [("N", "2")], median=2e-6)]
    run = read(tmp_path, "nvbench", nvbench(*states))
    assert {case: rounds[0].method for (_, _, case), rounds in run.series.items()} == {
        "N=1": "nvbench mean",
        "N=2": "nvbench median",
    }


@pytest.mark.parametrize(
    ("more", "series", "reason", "skipped"),
    [
        ({"is_skipped": True, "skip_reason": "needs sm_100"}, "copy.Cuda.time_cold", "needs sm_100", True),
        (
            {"is_skipped": True, "skip_reason": "Unexpected error: out of memory"},
            "copy.Cuda.time_cold",
            "Unexpected error: out of memory",
            False,
        ),
        ({"is_skipped": False}, "copy.Cuda.time_cold", "no time in the file", False),
        ({"is_skipped": True, "skip_reason": "slow", "device": None}, "copy.Cpu.time_hot", "slow", True),
    ],
)
def test_nvbench_gives_reasons(tmp_path, more, series, reason, skipped):
    run = read(tmp_path, "nvbench", nvbench(state("N=1") | more) | {"devices": None})
    assert {key[0]: (failure.error, failure.skipped) for key, failure in run.series.items()} == {
        series: (reason, skipped)
    }


def test_nvbench_names_the_device_where_there_are_two(tmp_path):
    states = [state(f"Device={device}", device=device, cold=1e-6 * (1 + device)) for device in (0, 1)]
    run = read(tmp_path, "nvbench", nvbench(*states, devices=2))
    assert [case for _, _, case in run.series] == ["Device=0", "Device=1"]


@pytest.mark.parametrize(
    ("program", "document", "text"),
    [
        ("google-benchmark", "{", "not JSON"),
        ("google-benchmark", [], "not a file of google-benchmark"),
        ("google-benchmark", google_benchmark(entry("a", 1e-6, time_unit="weeks")), "not a file of google-benchmark"),
        ("google-benchmark", google_benchmark(entry("a::b", 1e-6), entry("a_b", 1e-6)), "'a::b' and 'a_b' both become"),
        ("google-benchmark", google_benchmark(date="yesterday"), "not a file of google-benchmark"),
        ("google-benchmark", google_benchmark(), "no benchmark in it"),
        ("nvbench", google_benchmark(*COPIES), "not a file of nvbench"),
    ],
)
def test_other_files_are_refused(repository, program, document, text):
    folder, _, ingest = repository
    if isinstance(document, str):
        with pytest.raises(foreign.UsageError, match=text):
            read(folder, program, document)
        return
    status, out, err = ingest(document, program=program)
    assert (status, out, err.count("\n")) == (2, "", 1) and text in err
    assert not (folder / "results").exists()


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("--commit", "nowhere"), "names no commit"),
        (("--machine", "findings"), "reserved for a folder"),
        (("--google-benchmark", "missing.json"), "missing.json: No such file"),
    ],
)
def test_bad_options_are_one_line(repository, argv, text):
    folder, _, ingest = repository
    status, out, err = ingest(google_benchmark(*COPIES), *argv)
    assert (status, out, err.count("\n")) == (2, "", 1) and text in err
    assert not (folder / "results").exists()


def test_commit_without_a_file_is_refused(repository):
    status, _, err = kv("ingest", "--root", repository[0], "--commit", "HEAD")
    assert status == 2 and "give --google-benchmark FILE or --nvbench FILE too" in err


# What is recorded -----------------------------------------------------------------------------------------------------


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*.json")}


def test_second_ingest_changes_nothing(repository):
    folder, commits, ingest = repository
    status, out, err = ingest(google_benchmark(*COPIES, entry("BM_Add", 1e-6)))
    assert (status, err) == (0, "") and f"series of {commits[1][:8]} on bench: 2 new, 0 changed, 0 as before" in out
    before = contents(folder / "results")
    assert "0 new, 0 changed, 2 as before" in ingest(google_benchmark(*COPIES, entry("BM_Add", 1e-6)))[1]
    assert contents(folder / "results") == before


def test_later_file_replaces_its_series_and_no_other(repository):
    folder, commits, ingest = repository
    ingest(google_benchmark(*COPIES, entry("BM_Add/8", 1e-6)), "--commit", "HEAD~1")
    again = google_benchmark(entry("BM_Add/8", 2e-6), entry("BM_Add/16", 4e-6))
    assert "1 new, 1 changed, 0 as before" in ingest(again, "--commit", "HEAD~1")[1]
    file = StoredFile(folder / "results" / "bench" / f"{commits[0][:8]}-google-benchmark.json")
    assert file.commit == commits[0]
    values = {name: file.values(name) for name in file.benchmarks()}
    assert values == {
        "BM_Copy.Cpu.time_hot": {("'native'", "'<float>/1024'"): pytest.approx(3e-6)},
        "BM_Add.Cpu.time_hot": {("'native'", "'8'"): 2e-6, ("'native'", "'16'"): 4e-6},
    }


def test_failed_is_null_skipped_is_nan_both_have_a_reason(repository):
    folder, commits, ingest = repository
    failed = entry("a/1", 0.0, error_occurred=True, error_message="no memory")
    ingest(google_benchmark(failed, entry("a/2", 0.0, skipped=True, skip_message="no AVX-512"), entry("a/3", 1e-6)))
    path = folder / "results" / "bench" / f"{commits[1][:8]}-google-benchmark.json"
    values = StoredFile(path).values("a.Cpu.time_hot")
    assert values["'native'", "'1'"] is None and math.isnan(values["'native'", "'2'"])
    notes = []
    file = reader.read_file(path, notes)
    assert notes == []
    remarks = [packing.measured(file, at, row, pair)[0] for at, (row, pair) in enumerate(file.series())]
    assert [(remark.outcome.value, remark.reason, remark.method) for remark in remarks] == [
        ("failed", "no memory", None),
        ("n/a", "no AVX-512", None),
        ("measured", None, "google-benchmark median"),
    ]


def test_failure_goes_when_the_series_is_measured(repository):
    folder, _, ingest = repository
    ingest(google_benchmark(entry("a/1", 0.0, error_occurred=True), entry("a/2", 0.0, error_occurred=True)))
    assert "0 new, 1 changed, 0 as before" in ingest(google_benchmark(entry("a/1", 1e-6)))[1]
    beside = folder / "results" / "bench" / "telemetry"
    failures, rounds = (next(beside.glob(f"*benchmark{suffix}")) for suffix in (".failures.jsonl", ".jsonl"))
    assert len(failures.read_text().splitlines()) == len(rounds.read_text().splitlines()) == 1


def test_names_of_any_length_are_recorded(repository):
    folder, _, ingest = repository
    name = f"BM_x<{'std::pair<int, float>, ' * 40}>/8"
    assert ingest(google_benchmark(entry(name, 1e-6), entry("b", 1e-6)))[0] == 0
    assert "1 new, 0 changed, 0 as before" in ingest(google_benchmark(entry("c", 1e-6)))[1]
    path = next((folder / "results" / "bench").glob("*-google-benchmark.json"))
    assert len(reader.read_file(path, []).rounds) == 3


def test_file_of_another_host_asks_for_the_machine(repository, tmp_path):
    folder, _, _ = repository
    path = tmp_path / "suite.json"
    path.write_text(json.dumps(google_benchmark(*COPIES, host_name="gpu-node-7")), encoding="utf-8")
    argv = ("ingest", "--root", folder, "--google-benchmark", path)
    status, _, err = kv(*argv)
    assert status == 2 and not (folder / "results").exists()
    assert err == (
        f"error: {path}: context, host_name: {platform.node()!r}, this machine, is wanted, got 'gpu-node-7': name the "
        "machine that measured it, such as --machine gpu-node-7\n"
    )
    part = tmp_path / "part.json"
    part.write_text(json.dumps(google_benchmark(entry("b", 1e-6), host_name="gpu-node-7")), encoding="utf-8")
    status, out, _ = kv(*argv, part, "--machine", "gpu-node-7")
    assert status == 0 and "on gpu-node-7: 2 new" in out


def test_machine_is_described_as_asv_does(repository):
    folder, _, ingest = repository
    ingest(google_benchmark(*COPIES))
    assert json.loads((folder / "results" / "bench" / "machine.json").read_text()) == {"machine": "bench", "version": 1}
    listed = json.loads((folder / "results" / "benchmarks.json").read_text())
    assert listed["BM_Copy.Cpu.time_hot"]["params"] == [["'native'"], ["'<float>/1024'"]]


def test_results_are_where_asv_conf_says(repository):
    folder, _, ingest = repository
    (folder / "asv.conf.json").write_text('{"results_dir": "perf/results"}')
    assert ingest(google_benchmark(*COPIES))[0] == 0
    assert (folder / "perf" / "results" / "bench" / "machine.json").exists() and not (folder / "results").exists()


def test_report_shows_them(repository, tmp_path):
    folder, _, ingest = repository
    ingest(google_benchmark(*COPIES), "--commit", "HEAD~1")
    ingest(google_benchmark(*COPIES, entry("BM_Copy<float>/1024", 5e-6, 3)))
    argv = ("--repository", folder, "--results", folder / "results", "--out", tmp_path / "site")
    status, out, err = kv("report", *argv)
    assert (status, err) == (0, "") and "1 series over 2 commits" in out
    assert "BM_Copy" in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")


def test_change_of_the_estimator_is_no_change_of_the_code(tmp_path):
    """Halfway nvbench's files lose the mean. Before and after are two methods, which no verdict compares."""
    folder = tmp_path / "repository"
    commits = make_repository(folder, [f"Commit {number}" for number in range(24)], "Ada")
    machine, facts = foreign.machine(folder / "results", "bench")
    for number, commit in enumerate(commits):
        time = 1e-5 * (1 + 0.001 * (number * 7 % 5))
        summaries = {"median": time} if number >= 12 else {"cold": 1.05 * time}
        (tmp_path / "file.json").write_text(json.dumps(nvbench(state("N=1", [("N", "1")], **summaries))))
        run = foreign.read("nvbench", [tmp_path / "file.json"])
        foreign.record(run, machine, commit=commit, date=1e9 + number, facts=facts)
    recorded = past.open(folder / "results", folder)
    (key,) = recorded.keys
    assert recorded.columns(key).methods == ("nvbench mean", "nvbench median")
    assert change_points.of_all([key], recorded.columns)[key].points == ()


def test_samples_are_those_of_the_file(repository):
    folder, commits, ingest = repository
    ingest(google_benchmark(*COPIES))
    file = StoredFile(folder / "results" / "bench" / f"{commits[1][:8]}-google-benchmark.json")
    ((_, stored),) = file.series()
    assert stored.samples == pytest.approx((2e-6, 3e-6, 4e-6)) and stored.value == statistics.median(stored.samples)
