"""What a node measured comes home: whole, once, under one name, and never over something better."""

import argparse
import dataclasses
import io
import json
import math
import shutil
import subprocess

import pytest
from asv.results import iter_results

from benchmarks.harness import telemetry
from tests.tools import synthetic
from tests.tools.offline import node
from tools import atomic, failures, lock, report
from tools.errors import HistoryError, ResultsError, UsageError
from tools.failures import Failure
from tools.offline import placing, unpack
from tools.stored_file import StoredFile

NAME = "matmul.Cpu.time_hot"
SERIES = (NAME, ("native", "float32-256x256x256"))


@pytest.fixture
def home(tmp_path):
    return node.home(tmp_path / "clone")


@pytest.fixture
def tar(tmp_path, home):
    return node.tar(tmp_path, home.commits)


def run(home, tar, machine="h200", root=None):
    out, err = io.StringIO(), io.StringIO()
    parser = argparse.ArgumentParser()
    unpack.add_arguments(parser)
    args = parser.parse_args([str(tar), f"--machine={machine}", "--root", str(home.root if root is None else root)])
    status = unpack.run(args, out, err)
    return status, out.getvalue(), err.getvalue()


def results_path(home, index, machine="h200"):
    return home.results / machine / f"{home.commits[index][:8]}-{synthetic.ENVIRONMENT}.json"


def lines(home, index, suffix=".jsonl", machine="h200"):
    path = results_path(home, index, machine)
    beside = path.parent / "telemetry" / f"{path.stem}{suffix}"
    return beside.read_text().splitlines() if beside.exists() else []


def state(folder):
    """Return every file below a folder, but for the scratch that the system may leave."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def series(path):
    return dict(StoredFile(path).series())


def change(path, name=NAME, *, field, to):
    """Change a column of a row in a results file."""
    data = json.loads(path.read_text())
    row = data["results"][name]
    index = data["result_columns"].index(field)
    row[index] = to(row[index])
    path.write_text(json.dumps(data))


def add_column(path, name, of):
    """Add a column to every row of a results file, computed from its values."""
    data = json.loads(path.read_text())
    data["result_columns"].append(name)
    for row in data["results"].values():
        row.append([None if value is None or math.isnan(value) else of(value) for value in row[0]])
    path.write_text(json.dumps(data))


def packed_after(tmp_path, home, edit, name="edited.tar.xz", **changes):
    """Return a node's tar whose folder was changed before it was packed."""
    folder = node.lay_out(tmp_path / "edited", home.commits, **changes)
    edit(folder)
    node.archive.write(tmp_path / name, folder)
    shutil.rmtree(folder)
    return tmp_path / name


def test_everything_has_its_place(home, tar):
    status, out, err = run(home, tar)
    assert (status, err) == (0, "")
    for index in (0, 1):
        path = results_path(home, index)
        assert json.loads(path.read_text())["params"] == {"machine": "h200", "torch": "2.13.0"}
        assert len(lines(home, index)) == 64
        assert f"{path.name}: 8 series taken, 0 kept as they are here" in out
    assert json.loads((home.results / "h200" / "machine.json").read_text()) == {
        **synthetic.machine_json("h200"),
        "arch": "x86_64",
    }
    assert json.loads((home.results / "benchmarks.json").read_text()) == synthetic.benchmarks_json()
    folder = home.results / "h200" / "runs" / node.STAMP
    kept = {path.name: path.read_text() for path in folder.iterdir()}
    assert kept.pop("manifest.jsonl") == node.manifest(home.commits).to_json()
    assert kept == {
        "summary.md": "# What is believable\n",
        "node.jsonl": '{"gpus": ["Imaginary H200"]}\n',
        "tests.json.txt": '{"passed": 3',
        "tests.log": "3 passed\n",
    }
    assert (home.root / ".asv/traces/h200" / node.STAMP / "hot.json").read_text() == "[1e-3]"
    assert (home.root / ".asv/logs/h200" / node.STAMP / "track.log").read_text() == "measured\n"
    assert not list((home.root / ".asv").glob("unpack-*"))
    assert "Next: python -m tools report\n      git add -f " in out


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


def named_rows(path):
    """Return the rows with their columns by name, sorted, and their bounds with the digits that asv stores."""
    data = json.loads(path.read_text())
    found = {}
    for name, row in data["results"].items():
        named = dict(zip(data["result_columns"], row, strict=False))
        for key in ("stats_ci_99_a", "stats_ci_99_b"):
            named[key] = [item and float(f"{item:.5g}") for item in named[key]]
        found[name] = {key: value for key, value in sorted(named.items()) if value is not None}
    return found


def test_asv_finds_exactly_the_results(home, tar):
    run(home, tar)
    found = [(item.commit_hash, item.params["machine"]) for item in iter_results(str(home.results))]
    assert sorted(found) == sorted((commit, "h200") for commit in home.commits[:2])
    below = [path for path in (home.results / "h200").rglob("*.json") if path.name != "machine.json"]
    assert len(below) == 2


def test_the_site_shows_the_machine(home, tar, tmp_path):
    run(home, tar)
    summary = report.write_site(results=home.results, repository=home.root, out=tmp_path / "site")
    assert summary.notes == ()
    assert summary.commits == 2
    text = (tmp_path / "site" / "index.html").read_text()
    assert "h200" in text and ">node<" not in text


def test_a_second_unpack_changes_nothing(home, tar):
    run(home, tar)
    before = state(home.root)
    status, out, err = run(home, tar)
    assert (status, err) == (0, "")
    assert "nothing new: what the tar holds is here already" in out
    assert state(home.root) == before


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


def edit_version(folder, version):
    path = folder / "results" / "benchmarks.json"
    data = json.loads(path.read_text())
    data[NAME]["version"] = version
    path.write_text(json.dumps(data))
    for stored in (folder / "results/node").glob("*-*.json"):
        change(stored, field="version", to=lambda _old: version)


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


def commit(home, name="benchmarks/matmul.py"):
    """Commit a file; return the commit, which is HEAD now."""
    (home.root / name).parent.mkdir(exist_ok=True)
    (home.root / name).write_text("version = '2'")
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for args in (["add", name], [*identity, "commit", "-qm", "Change something"]):
        subprocess.run(["git", *args], cwd=home.root, check=True)
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=home.root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


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


def test_another_run_of_the_same_second_has_its_own_folder(tmp_path, home, tar):
    run(home, tar)
    run(home, node.tar(tmp_path, home.commits, node={"gpus": [], "note": "another"}))
    assert sorted(path.name for path in (home.results / "h200" / "runs").iterdir()) == [node.STAMP, f"{node.STAMP}-2"]


def test_no_file_of_a_run_takes_the_place_of_another(tmp_path, home):
    def edit(folder):
        (folder / "run" / "node.jsonl").write_text("{}\n")
        (folder / "run" / "manifest.json").write_text("{}")

    tar = packed_after(tmp_path, home, edit)
    for _ in range(2):
        run(home, tar)
        (folder,) = (home.results / "h200" / "runs").iterdir()
        assert (folder / "manifest.jsonl").read_text() == node.manifest(home.commits).to_json()
        assert (folder / "node.jsonl").read_text() == "{}\n"
        assert json.loads((folder / "node.json.txt").read_text()) == {"gpus": [node.GPU]}


def test_commits_that_are_not_here_are_named_and_not_merged(tmp_path, home):
    gone = "d" * 40

    def edit(folder):
        synthetic.write_commit(folder / "results", gone, 2, machine="node")

    status, out, err = run(home, packed_after(tmp_path, home, edit))
    assert status == 0
    assert f"commit {gone} is not in this repository: 1 results file not merged; `git fetch`, then unpack again" in err
    assert gone[:8] not in out
    assert not list(home.results.rglob(f"{gone[:8]}*"))
    assert results_path(home, 0).exists()


def test_where_nothing_can_be_merged_the_status_is_2_and_the_run_is_kept(tmp_path, home):
    def edit(folder):
        for path in (folder / "results/node").glob("*-*.json"):
            path.unlink()
        synthetic.write_commit(folder / "results", "d" * 40, 2, machine="node")

    status, out, err = run(home, packed_after(tmp_path, home, edit))
    assert status == 2
    assert "no result was merged" in err and "Next:" not in out
    assert not (home.results / "h200" / "machine.json").exists()
    assert not (home.results / "benchmarks.json").exists()
    assert (home.results / "h200" / "runs" / node.STAMP / "summary.md").exists()


@pytest.mark.parametrize("commit", ["HEAD", "--help", "abc", 7])
def test_a_commit_s_name_is_a_hash(tmp_path, home, commit):
    def edit(folder):
        (path,) = (folder / "results/node").glob(f"{home.commits[0][:8]}*.json")
        path.write_text(json.dumps(json.loads(path.read_text()) | {"commit_hash": commit}))

    status, _, err = run(home, packed_after(tmp_path, home, edit))
    assert status == 0 and "not merged" in err and not results_path(home, 0).exists()
    assert results_path(home, 1).exists()


def test_a_file_under_another_one_s_name_is_left_out(tmp_path, home):
    def edit(folder):
        first, second = sorted((folder / "results/node").glob("*-*.json"))
        shutil.copy(first, second)

    status, _, err = run(home, packed_after(tmp_path, home, edit))
    assert status == 0 and "left out; not merged" in err
    assert len(list((home.results / "h200").glob("*-*.json"))) == 1


@pytest.mark.parametrize("text", ["", "{}", '{"results": 7}', "half a"])
def test_a_damaged_results_file_costs_itself(tmp_path, home, tar, text):
    def edit(folder):
        (path,) = (folder / "results/node").glob(f"{home.commits[0][:8]}*.json")
        path.write_text(text)

    status, _, err = run(home, packed_after(tmp_path, home, edit))
    assert status == 0 and "not merged" in err
    assert not results_path(home, 0).exists() and results_path(home, 1).exists()


def test_a_damaged_results_file_here_is_left_alone(home, tar):
    results_path(home, 0).parent.mkdir(parents=True)
    results_path(home, 0).write_text("half a")
    status, _, err = run(home, tar)
    assert status == 0
    assert f"{results_path(home, 0)}: not a results file of asv" in err
    assert results_path(home, 0).read_text() == "half a"


@pytest.mark.parametrize(("key", "other"), [("cpu", "Other 1"), ("arch", "aarch64"), ("num_cpu", "96")])
def test_one_name_is_one_machine(home, tar, key, other):
    described = {**synthetic.machine_json("h200"), "arch": "x86_64", key: other}
    synthetic.write_json(home.results / "h200" / "machine.json", described)
    before = state(home.root)
    with pytest.raises(ResultsError, match=rf"machine.json: {key}: '{other}' here, .* give another one than --machine"):
        run(home, tar)
    assert state(home.results) == {
        path.relative_to("results"): data for path, data in before.items() if path.parts[0] == "results"
    }


def test_another_gpu_is_another_machine(tmp_path, home, tar):
    run(home, tar)
    before = state(home.results)
    other = node.tar(tmp_path, home.commits, node={"gpus": ["Imaginary H100"]}, written=node.WRITTEN + 9)
    with pytest.raises(ResultsError, match="Imaginary H200 here, Imaginary H100 in the tar"):
        run(home, other)
    assert state(home.results) == before
    assert run(home, other, machine="h100")[0] == 0


def test_memory_and_kernel_may_move(home, tar):
    described = {**synthetic.machine_json("h200"), "arch": "x86_64", "ram": "16 GB", "os": "Linux 7"}
    synthetic.write_json(home.results / "h200" / "machine.json", described)
    assert run(home, tar)[0] == 0
    assert json.loads((home.results / "h200" / "machine.json").read_text()) == described


def test_without_a_description_of_the_machine_nothing_is_merged(tmp_path, home):
    tar = packed_after(tmp_path, home, lambda folder: (folder / "results/node/machine.json").unlink())
    with pytest.raises(ResultsError, match=r"machine\.json is not in the tar"):
        run(home, tar)
    assert not home.results.exists()


@pytest.mark.parametrize("text", ["{", '{"version": 1}'])
def test_a_benchmarks_json_that_cannot_be_read_here_is_left_alone(home, tar, text):
    home.results.mkdir()
    (home.results / "benchmarks.json").write_text(text)
    status, _, err = run(home, tar)
    assert status == 0 and "as it is" in err
    assert (home.results / "benchmarks.json").read_text() == text


def test_another_repository_is_refused(tmp_path, home):
    with pytest.raises(ResultsError, match=f"its first commit is eeeeeeee, here it is {home.commits[0][:8]}"):
        run(home, node.tar(tmp_path, home.commits, root="e" * 40))
    assert not home.results.exists()


def test_a_shallow_clone_is_refused_because_nothing_can_be_checked(tmp_path, home, tar):
    clone = tmp_path / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth", "2", home.root.as_uri(), str(clone)], check=True)
    (clone / "asv.conf.json").write_text("{}")
    with pytest.raises(HistoryError, match="git fetch --unshallow"):
        run(home, tar, root=clone)
    subprocess.run(["git", "fetch", "-q", "--depth", "5"], cwd=clone, check=True)
    assert run(home, tar, root=clone)[0] == 0


def test_no_repository_at_all_is_one_line(tmp_path, home, tar):
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "asv.conf.json").write_text("{}")
    with pytest.raises(HistoryError, match="git cannot list the commits"):
        run(home, tar, root=tmp_path / "bare")


@pytest.mark.parametrize("machine", ["", "..", "../x", "a b", "-x", ".hidden", "a/b"])
def test_a_machine_s_name_names_a_folder(home, tar, machine):
    with pytest.raises(UsageError, match=r"--machine .*such as --machine h200"):
        run(home, tar, machine=machine)
    assert not home.results.exists()


def test_outside_of_a_clone_it_says_where_to_be(tmp_path, home, tar):
    with pytest.raises(UsageError, match=r"no asv\.conf\.json here"):
        run(home, tar, root=tmp_path)


def test_a_run_that_measures_here_is_waited_for(home, tar, monkeypatch):
    with lock.held(home.root):
        monkeypatch.delenv(lock.HOLDER)
        with pytest.raises(UsageError, match="another run is measuring"):
            run(home, tar)
    assert not home.results.exists()


class Killed(BaseException):
    """What ends a process at once."""


def killed_after(writes, monkeypatch):
    """Let the process die when it has written so many files; return the number of files that were written."""
    written = []

    def write(path, text):
        if len(written) == writes:
            raise Killed
        atomic.replace_text(path, text)
        written.append(path)

    for module in (placing, unpack):
        monkeypatch.setattr(module, "replace_text", write)
    return written


@pytest.mark.parametrize("older", [None, "older.tar.xz"])  # nothing here, or the same series with fewer rounds
def test_an_interruption_leaves_whole_files_and_the_next_unpack_finishes(tmp_path, home, tar, monkeypatch, older):
    if older:
        run(home, node.tar(tmp_path, home.commits, older, rounds=5))
    before = state(home.results)
    writes = killed_after(math.inf, monkeypatch)
    run(home, tar)
    finished = state(home.results)
    assert len(writes) == (4 if older else 11)
    for survived in range(len(writes)):
        shutil.rmtree(home.results)
        for name, data in before.items():
            (home.results / name).parent.mkdir(parents=True, exist_ok=True)
            (home.results / name).write_bytes(data)
        killed_after(survived, monkeypatch)
        with pytest.raises(Killed):
            run(home, tar)
        assert state(home.results) != finished
        for index in (0, 1):
            assert not results_path(home, index).exists() or series(results_path(home, index))
            assert all(telemetry.decode(line) for line in lines(home, index))
        assert not list((home.root / ".asv").glob("unpack-*"))
        killed_after(math.inf, monkeypatch)
        run(home, tar)
        assert state(home.results) == finished


def test_two_tars_of_different_commits_may_come_in_any_order(tmp_path, home):
    other = node.home(tmp_path / "other")
    one = node.tar(tmp_path, home.commits, "one.tar.xz", measured=(0, 1))
    two = node.tar(tmp_path, home.commits, "two.tar.xz", measured=(2, 3), written=node.WRITTEN + 60)
    for clone, tars in ((home, (one, two)), (other, (two, one))):
        for path in tars:
            assert run(clone, path)[0] == 0
    assert state(home.results) == state(other.results)
    assert math.isnan(json.loads(results_path(home, 0).read_text())["results"][NAME][0][-1])
