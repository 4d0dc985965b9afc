"""What cannot be merged is refused or named, and nothing here is damaged by it."""

import json
import math
import shutil
import subprocess

import pytest

from kernel_velocity import lock
from kernel_velocity.errors import HistoryError, ResultsError, UsageError
from kernel_velocity.harness import telemetry
from tests import synthetic
from tests.offline import node
from tests.offline.unpacking import Killed, killed_after, lines, packed_after, results_path, run, series, state


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


@pytest.mark.parametrize("commit", ["HEAD", "--help", "abc", ["a"] * 40])
def test_a_commit_s_name_is_a_hash(tmp_path, home, commit):
    def edit(folder):
        (path,) = (folder / "results/node").glob(f"{home.commits[0][:8]}*.json")
        path.write_text(json.dumps(json.loads(path.read_text()) | {"commit_hash": commit}))

    status, _, err = run(home, packed_after(tmp_path, home, edit))
    assert status == 0 and "commit_hash: a commit's full hash is wanted, got" in err
    assert not results_path(home, 0).exists()
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


@pytest.mark.parametrize(
    ("column", "damage", "said"),
    [
        ("stats_ci_99_a", lambda _: [1.0], "not a results file of asv"),  # shorter than the values
        ("result", lambda values: ["fast", *values[1:]], "its columns do not fit together"),
    ],
)
def test_one_damaged_results_file_costs_no_other(tmp_path, home, column, damage, said):
    def edit(folder):
        path = next((folder / "results" / "node").glob(f"{home.commits[0][:8]}*.json"))
        data = json.loads(path.read_text())
        place, row = data["result_columns"].index(column), next(iter(data["results"].values()))
        row[place] = damage(row[place])
        path.write_text(json.dumps(data))

    status, _, err = run(home, packed_after(tmp_path, home, edit))
    assert status == 0
    assert said in err and "not merged" in err
    assert not results_path(home, 0).exists() and results_path(home, 1).exists()
