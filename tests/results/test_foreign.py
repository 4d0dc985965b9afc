"""Files of Google Benchmark and nvbench, written after their formats, become series of a commit."""

import io
import json
import math
import statistics

import pytest

from kernel_velocity.__main__ import main
from kernel_velocity.results import foreign
from kernel_velocity.results.asv_file import StoredFile
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


def read(tmp_path, program, document):
    path = tmp_path / "file.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document), encoding="utf-8")
    return foreign.read(program, path)


@pytest.fixture
def repository(tmp_path):
    """Return a repository of two commits with asv.conf.json, and a function that runs `kv ingest` there."""
    folder = tmp_path / "repository"
    commits = make_repository(folder, ("One", "Two"), "Ada", files={0: {"asv.conf.json": "{}"}})

    def ingest(document, *argv, program="google-benchmark"):
        path = tmp_path / "suite.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        out, err = io.StringIO(), io.StringIO()
        argv = ("ingest", "--root", str(folder), f"--{program}", str(path), "--machine", "bench", *argv)
        return main(argv, out, err), out.getvalue(), err.getvalue()

    return folder, commits, ingest


# What files say -------------------------------------------------------------------------------------------------------


def test_repetitions_are_samples(tmp_path):
    run = read(tmp_path, "google-benchmark", google_benchmark(*COPIES, aggregate("BM_Copy<float>/1024", "mean")))
    assert run.series == {COPY: pytest.approx((2e-6, 3e-6, 4e-6))}
    assert run.began == 1795431600.0


def test_aggregates_count_where_repetitions_are_left_out(tmp_path):
    times = {"cpu_time": 1.0, "time_unit": "ms"}
    both = [aggregate("a/8", "mean", real_time=3.0, **times), aggregate("a/8", "median", real_time=2.0, **times)]
    run = read(tmp_path, "google-benchmark", google_benchmark(*both, aggregate("b", "mean", real_time=5.0, **times)))
    assert run.series == {
        ("a.Cpu.time_hot", "native", "8"): (2e-3,),
        ("b.Cpu.time_hot", "native", "default"): (5e-3,),
    }


def test_failed_and_skipped_and_fits(tmp_path):
    broken = entry("a", 0.0, error_occurred=True, error_message="no memory")
    fit = aggregate("a_family", "BigO", cpu_coefficient=1.0, real_coefficient=1.0, big_o="N", time_unit="ns")
    run = read(tmp_path, "google-benchmark", google_benchmark(broken, entry("b", 0.0, skipped=True), fit))
    assert run.series == {("a.Cpu.time_hot", "native", "default"): None, ("b.Cpu.time_hot", "native", "default"): ()}


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
    assert run.series == {
        ("copy.Cuda.time_cold", "native", "N=8,T=F32"): (2e-6,),
        ("copy.Cuda.time_hot", "native", "N=8,T=F32"): (1e-6,),
        ("copy.Cuda.time_cold", "native", "N=9,T=F32"): (),
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
    out, err = io.StringIO(), io.StringIO()
    assert main(("ingest", "--root", str(repository[0]), "--commit", "HEAD"), out, err) == 2
    assert "give --google-benchmark FILE or --nvbench FILE too" in err.getvalue()


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


def test_failed_is_null_and_skipped_is_not_a_number(repository):
    folder, commits, ingest = repository
    ingest(google_benchmark(entry("a/1", 0.0, error_occurred=True), entry("a/2", 0.0, skipped=True)))
    values = StoredFile(next((folder / "results" / "bench").glob(f"{commits[1][:8]}-*"))).values("a.Cpu.time_hot")
    assert values["'native'", "'1'"] is None and math.isnan(values["'native'", "'2'"])


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
    out, err = io.StringIO(), io.StringIO()
    argv = (
        "report",
        "--repository",
        str(folder),
        "--results",
        str(folder / "results"),
        "--out",
        str(tmp_path / "site"),
    )
    assert main(argv, out, err) == 0
    assert err.getvalue() == "" and "1 series over 2 commits" in out.getvalue()
    assert "BM_Copy" in (tmp_path / "site" / "index.html").read_text(encoding="utf-8")


def test_samples_are_those_of_the_file(repository):
    folder, commits, ingest = repository
    ingest(google_benchmark(*COPIES))
    file = StoredFile(folder / "results" / "bench" / f"{commits[1][:8]}-google-benchmark.json")
    ((_, stored),) = file.series()
    assert stored.samples == pytest.approx((2e-6, 3e-6, 4e-6)) and stored.value == statistics.median(stored.samples)
