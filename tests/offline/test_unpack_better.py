"""Of two measurements of one series, the better one stays, whole."""

import dataclasses
import json
import math
import subprocess

import pytest

from kernel_velocity.harness import telemetry
from kernel_velocity.results import failures
from kernel_velocity.results.asv_file import StoredFile
from kernel_velocity.results.failures import Failure
from kernel_velocity.site import report
from tests import synthetic
from tests.offline import node
from tests.offline.unpacking import (
    NAME,
    SERIES,
    add_column,
    change,
    commit,
    edit_version,
    lines,
    named_rows,
    packed_after,
    results_path,
    run,
    series,
    state,
)


@pytest.mark.parametrize("here", ["nothing", "less"])
def test_values_stats_and_samples_come_whole(tmp_path, home, tar, here):
    """Of a file that asv itself wrote in full, nothing but the machine's name differs."""

    def edit(folder):
        (path,) = (folder / "results/node").glob(f"{home.commits[0][:8]}*.json")
        add_column(path, "stats_repeat", lambda value: 9)
        add_column(path, "samples", lambda value: [value] * 9)
        data = json.loads(path.read_text())
        data["result_columns"].append("profile")
        for row in data["results"].values():
            row[data["result_columns"].index("started_at")] += 1
            row.append("abc")
        path.write_text(json.dumps(data))
        wanted.append(named_rows(path))

    wanted = []
    if here == "less":
        run(home, tar)
    run(home, packed_after(tmp_path, home, edit))
    path = results_path(home, 0)
    assert repr(named_rows(path)) == repr(wanted[0])
    assert len(named_rows(path)[NAME]) == 10


def test_a_second_unpack_changes_nothing(home, tar):
    run(home, tar)
    before = state(home.root)
    status, out, err = run(home, tar)
    assert (status, err) == (0, "")
    assert "nothing new: what the tar holds is here already" in out
    assert state(home.root) == before


@pytest.mark.parametrize("name", ["benchmarks.json", "h200/runs/*/summary.md", "h200/*-*.json"])
def test_what_was_lost_since_comes_back_and_is_something_new(home, tar, name):
    run(home, tar)
    before = state(home.results)
    for path in home.results.glob(name):
        path.unlink()
    assert state(home.results) != before
    status, out, _ = run(home, tar)
    assert status == 0 and "nothing new" not in out
    assert state(home.results) == before


def test_series_by_series_the_better_one_wins(tmp_path, home):
    """Here: 8 rounds of add_mul_exp and none of matmul; the tar: 5 rounds of both."""
    run(home, node.tar(tmp_path, home.commits, measured=(0,)))
    path = results_path(home, 0)
    before, before_lines = series(path), lines(home, 0)
    change(path, field="result", to=lambda values: [None] * len(values))
    status, out, _ = run(home, node.tar(tmp_path, home.commits, measured=(0,), rounds=5, written=node.WRITTEN + 60))
    assert status == 0
    assert f"{path.name}: 4 series taken, 4 kept as they are here" in out
    assert "add_mul_exp.Cpu.time_hot: fewer rounds in the tar; what is here stays (eager, float32-500k;" in out
    after = series(path)
    for key, item in after.items():
        if key[0] != NAME:
            assert item.value == before[key].value or item.value is before[key].value is None
    assert after[SERIES].value is not None and after[SERIES].value != before[SERIES].value
    kept, taken = set(lines(home, 0)) & set(before_lines), set(lines(home, 0))
    of_matmul = [item for item in map(telemetry.decode, taken) if item.benchmark == NAME]
    assert len(of_matmul) == 4 * 5  # the failed series' old rounds went with it
    assert {telemetry.decode(item).benchmark for item in kept if "add_mul" in item} == {"add_mul_exp.Cpu.time_hot"}
    assert len([item for item in taken if "add_mul" in item]) == 4 * 8


def test_more_rounds_win_and_their_telemetry_with_them(tmp_path, home):
    run(home, node.tar(tmp_path, home.commits, measured=(0,), rounds=5))
    assert len(lines(home, 0)) == 8 * 5
    _, out, _ = run(home, node.tar(tmp_path, home.commits, measured=(0,), rounds=8))
    assert "8 series taken, 0 kept" in out
    assert len(lines(home, 0)) == 8 * 8


def test_as_many_rounds_here_stay_and_it_is_said(tmp_path, home, tar):
    run(home, tar)
    before = results_path(home, 0).read_bytes()

    def edit(folder):
        for path in (folder / "results/node").glob(f"{home.commits[0][:8]}*.json"):
            change(path, field="result", to=lambda values: [value and value * 2 for value in values])
            add_column(path, "stats_repeat", lambda value: 8)

    _, out, _ = run(home, packed_after(tmp_path, home, edit))
    assert f"{NAME}: as many rounds here and in the tar; what is here stays (eager, float32-256x256x256;" in out
    assert "nothing new" in out
    assert results_path(home, 0).read_bytes() == before


def test_a_failure_on_the_node_removes_no_value(tmp_path, home, tar):
    run(home, tar)
    before = state(home.results)

    def edit(folder):
        for path in (folder / "results/node").glob(f"{home.commits[0][:8]}*.json"):
            change(path, field="result", to=lambda values: [None] * 4 + values[4:])
            stem = path.parent / "telemetry" / path.stem
            told = Failure(benchmark=NAME, params=SERIES[1], time=4e9, error="RuntimeError: wrong")
            failures.append(stem.with_name(f"{stem.name}.failures.jsonl"), told)

    _, out, _ = run(home, packed_after(tmp_path, home, edit))
    assert f"{NAME}: failed on the node; the values here stay (eager, float32-256x256x256; " in out
    assert "and 1 more)" in out
    assert state(home.results) == before


def test_a_value_whose_telemetry_is_of_another_run_counts_no_rounds(tmp_path, home, tar):
    run(home, tar)
    path = results_path(home, 0)
    change(path, field="result", to=lambda values: [value * 2 for value in values])
    assert "4 series taken, 4 kept" in run(home, tar)[1]
    change(path, field="result", to=lambda values: [value * (1 + 1e-9) for value in values])
    assert "0 series taken, 8 kept" in run(home, tar)[1]


@pytest.mark.parametrize("stored", ["stats_repeat", "samples"])
def test_what_asv_counted_counts_before_telemetry(tmp_path, home, tar, stored):
    """asv may know of more rounds than the telemetry that came through."""

    def edit(folder):
        (path,) = (folder / "results/node").glob(f"{home.commits[0][:8]}*.json")
        add_column(path, stored, lambda value: 9 if stored == "stats_repeat" else [value] * 9)

    run(home, tar)
    _, out, _ = run(home, packed_after(tmp_path, home, edit))
    assert f"{results_path(home, 0).name}: 8 series taken" in out
    assert "8 kept" in run(home, tar)[1]


def test_failures_come_with_what_failed(tmp_path, home):
    told = Failure(benchmark=NAME, params=SERIES[1], time=4e9, error="RuntimeError: wrong")

    def edit(folder):
        (path,) = (folder / "results/node").glob(f"{home.commits[0][:8]}*.json")
        change(path, field="result", to=lambda values: [None] * len(values))
        for benchmark in (NAME, "unknown.Cpu.time_hot"):
            stored = path.parent / "telemetry" / f"{path.stem}.failures.jsonl"
            failures.append(stored, dataclasses.replace(told, benchmark=benchmark))

    run(home, packed_after(tmp_path, home, edit))
    assert lines(home, 0, ".failures.jsonl") == [failures.encode(told)]  # of no stored series: not taken
    run(home, node.tar(tmp_path, home.commits))
    assert series(results_path(home, 0))[SERIES].value is not None
    assert lines(home, 0, ".failures.jsonl") == []


def test_the_reason_why_a_series_does_not_apply_comes_too(tmp_path, home, tar):
    """asv stores "does not apply" and "was not asked for" alike; only the line tells them apart."""
    told = Failure(benchmark=NAME, params=("triton", SERIES[1][1]), time=4e9, error="no GPU", skipped=True)

    def edit(folder):
        (path,) = (folder / "results/node").glob(f"{home.commits[0][:8]}*.json")
        failures.append(path.parent / "telemetry" / f"{path.stem}.failures.jsonl", told)

    run(home, tar)
    before = results_path(home, 0).read_bytes()
    explained = packed_after(tmp_path, home, edit)
    assert "1 series taken, 8 kept" in run(home, explained)[1]
    assert lines(home, 0, ".failures.jsonl") == [failures.encode(told)]
    assert results_path(home, 0).read_bytes() == before
    assert "nothing new" in run(home, explained)[1]
    assert "nothing new" in run(home, tar)[1]
    assert lines(home, 0, ".failures.jsonl") == [failures.encode(told)]


def test_two_commits_of_the_same_first_digits_are_not_mixed(home, tar):
    path = results_path(home, 0)
    synthetic.write_commit(home.results, home.commits[0], 0, machine="h200", rounds=1)
    other = home.commits[0][:8] + "0" * 32
    path.write_text(path.read_text().replace(home.commits[0], other))
    before = path.read_bytes()
    status, _, err = run(home, tar)
    assert status == 0 and f"{path}: of commit {other}, the tar's is of {home.commits[0]}; not merged" in err
    assert path.read_bytes() == before and results_path(home, 1).exists()


def test_the_version_of_the_suite_wins(tmp_path, home, tar):
    newer = packed_after(tmp_path, home, lambda folder: edit_version(folder, "2"))
    run(home, tar)
    _, out, _ = run(home, newer)
    assert f"{NAME}: version 2 is the suite's: 4 values of another went with their row" in out
    assert StoredFile(results_path(home, 0)).version(NAME) == "2"
    assert json.loads((home.results / "benchmarks.json").read_text())[NAME]["version"] == "2"
    summary = report.write_site(results=home.results, repository=home.root, out=tmp_path / "site")
    assert summary.notes == ()


def test_lines_of_a_case_that_the_new_version_dropped_go_too(tmp_path, home, tar):
    def edit(folder):
        edit_version(folder, "2")
        (path,) = (folder / "results/node").glob(f"{home.commits[0][:8]}*.json")
        for field in ("result", "stats_ci_99_a", "stats_ci_99_b"):
            change(path, field=field, to=lambda values: values[::2])
        change(path, field="params", to=lambda axes: [axes[0], axes[1][:1]])

    run(home, tar)
    run(home, packed_after(tmp_path, home, edit))
    found = {telemetry.decode(line).params[1] for line in lines(home, 0) if NAME in line}
    assert found == {"float32-256x256x256"}


@pytest.mark.parametrize("behind", [False, True])
def test_a_suite_that_is_today_s_wins_whatever_else_was_committed(tmp_path, home, tar, behind):
    """Since the folder was packed, nothing of the suite changed; or the clone here is behind what was packed."""
    run(home, tar)
    head = commit(home) if behind else home.commits[-1]
    newer = packed_after(tmp_path, home, lambda folder: edit_version(folder, "2"), head=head)
    if behind:
        subprocess.run(["git", "checkout", "-q", "HEAD~1"], cwd=home.root, check=True)
    else:
        commit(home, "README.md")
    run(home, newer)
    assert StoredFile(results_path(home, 0)).version(NAME) == "2"


def test_an_older_suite_s_version_loses(tmp_path, home, tar):
    """Since the folder was packed, the suite here moved on: what it measured is not overwritten."""
    newer = packed_after(tmp_path, home, lambda folder: edit_version(folder, "2"))
    run(home, newer)
    commit(home)
    before = state(home.results)
    _, out, _ = run(home, tar)
    assert f"{NAME}: version 1 in the tar, 2 here; what is here stays" in out
    assert state(home.results) == before


def test_two_tars_of_different_commits_may_come_in_any_order(tmp_path, home):
    other = node.home(tmp_path / "other")
    one = node.tar(tmp_path, home.commits, "one.tar.xz", measured=(0, 1))
    two = node.tar(tmp_path, home.commits, "two.tar.xz", measured=(2, 3), written=node.WRITTEN + 60)
    for clone, tars in ((home, (one, two)), (other, (two, one))):
        for path in tars:
            assert run(clone, path)[0] == 0
    assert state(home.results) == state(other.results)
    assert math.isnan(json.loads(results_path(home, 0).read_text())["results"][NAME][0][-1])
