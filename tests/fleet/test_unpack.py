"""Unpacking puts what a node measured where it belongs, replaces nothing better, and refuses what does not fit."""

import argparse
import io
import json
import math
import shutil
import subprocess

import pytest
from asv.results import iter_results

from kernel_velocity import files, lock
from kernel_velocity.counts import listing
from kernel_velocity.engine import telemetry
from kernel_velocity.errors import ResultsError, UsageError
from kernel_velocity.fleet import unpack
from kernel_velocity.results import asv_file
from kernel_velocity.results.asv_file import StoredFile
from tests import synthetic
from tests.fleet import node
from tests.fleet.node import Node, contents
from tests.fleet.test_merge import NAME, change, lines


def run(home, tar, machine="h200", root=None):
    out, err = io.StringIO(), io.StringIO()
    parser = argparse.ArgumentParser()
    unpack.add_arguments(parser)
    args = parser.parse_args([str(tar), f"--machine={machine}", "--root", str(home.root if root is None else root)])
    status = unpack.run(args, out, err)
    return status, out.getvalue(), err.getvalue()


def first(folder, home):
    """The results file of the first commit, as the node left it."""
    (path,) = (folder / "results/node").glob(f"{home.commits[0][:8]}*.json")
    return path


def test_everything_has_its_place(home, tar):
    status, out, err = run(home, tar)
    assert (status, err) == (0, "")
    for index in (0, 1):
        path = home.stored(index)
        assert json.loads(path.read_text())["params"] == {"machine": "h200", "torch": "2.13.0"}
        assert len(lines(path)) == 64
        assert f"{path.name}: 8 series taken, 0 kept as they are here" in out
    described = {**synthetic.machine_json("h200"), "arch": "x86_64"}
    assert json.loads((home.results / "h200" / "machine.json").read_text()) == described
    assert json.loads((home.results / "benchmarks.json").read_text()) == synthetic.benchmarks_json()
    assert {name: data.decode() for name, data in contents(home.results / "h200" / "runs").items()} == {
        f"{node.STAMP}/manifest.jsonl": node.manifest(home.commits).to_json(),
        f"{node.STAMP}/summary.md": "# What is believable\n",
        f"{node.STAMP}/node.jsonl": '{  "gpus": [   "Imaginary H200"  ] }\n',
    }
    assert not list((home.root / ".asv").glob("unpack-*"))
    assert "Next: kv report\n      git add -f " in out
    result = [(recorded.commit_hash, recorded.params["machine"]) for recorded in iter_results(str(home.results))]
    assert sorted(result) == sorted((commit, "h200") for commit in home.commits[:2])


def test_second_unpack_changes_nothing(home, tar):
    run(home, tar)
    before = contents(home.root)
    status, out, err = run(home, tar)
    assert (status, err) == (0, "")
    assert "nothing new: the results of the tar are here already" in out
    assert contents(home.root) == before


@pytest.mark.parametrize("name", ["benchmarks.json", "h200/runs/*/summary.md", "h200/*-*.json"])
def test_lost_file_comes_back(home, tar, name):
    run(home, tar)
    before = contents(home.results)
    for path in home.results.glob(name):
        path.unlink()
    assert contents(home.results) != before
    assert run(home, tar)[0] == 0
    assert contents(home.results) == before


def test_tars_of_different_commits_may_come_in_any_order(tmp_path, home):
    other = node.home(tmp_path / "other")
    first = node.tar(tmp_path, home.commits, "one.tar.xz", measured=(0, 1))
    two = node.tar(tmp_path, home.commits, "two.tar.xz", measured=(2, 3), written=node.WRITTEN + 60)
    for clone, tars in ((home, (first, two)), (other, (two, first))):
        assert [run(clone, path)[0] for path in tars] == [0, 0]
    assert contents(home.results) == contents(other.results)


def to_version(version):
    """Return an edit of a node's folder: its matmul is of that version."""

    def edit(folder):
        path = folder / "results" / "benchmarks.json"
        data = json.loads(path.read_text())
        data[NAME]["version"] = version
        path.write_text(json.dumps(data))
        for stored in (folder / "results/node").glob("*-*.json"):
            change(stored, "version", lambda _: version)

    return edit


def commit(home, name):
    """Commit a file. Return the commit, which is HEAD now."""
    (home.root / name).parent.mkdir(exist_ok=True)
    (home.root / name).write_text("version = '2'")
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for args in (["add", name], [*identity, "commit", "-qm", "Change something"]):
        subprocess.run(["git", *args], cwd=home.root, check=True)
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=home.root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.parametrize("behind", [False, True])
def test_suite_of_today_wins_whatever_else_was_committed(tmp_path, home, tar, behind):
    """Since the folder was packed, nothing of the suite changed, or the clone here is behind what was packed."""
    run(home, tar)
    head = commit(home, "benchmarks/matmul.py") if behind else home.commits[-1]
    newer = node.tar(tmp_path, home.commits, "newer", to_version("2"), head=head)
    if behind:
        subprocess.run(["git", "checkout", "-q", "HEAD~1"], cwd=home.root, check=True)
    else:
        commit(home, "README.md")
    _, out, _ = run(home, newer)
    assert f"{NAME}: the suite's version replaces 4 values of another" in out
    assert StoredFile(home.stored(0)).version(NAME) == "2"
    assert json.loads((home.results / "benchmarks.json").read_text())[NAME]["version"] == "2"


def test_suite_of_the_past_loses(tmp_path, home, tar):
    """Since the folder was packed, the suite here moved on: what it measured is not replaced."""
    run(home, node.tar(tmp_path, home.commits, "newer", to_version("2")))
    commit(home, "benchmarks/matmul.py")
    before = contents(home.results)
    _, out, _ = run(home, tar)
    assert f"{NAME}: another version than here; what is here stays" in out
    assert contents(home.results) == before


def test_unknown_commit_is_named_and_not_merged(tmp_path, home):
    gone = "d" * 40

    def edit(folder):
        synthetic.write_commit(folder / "results", gone, 2, machine="node")

    status, _, err = run(home, node.tar(tmp_path, home.commits, edit=edit))
    assert status == 0 and f"commit {gone} is not here: `git fetch`, then unpack again; not merged" in err
    assert home.stored(0).exists() and not list(home.results.rglob(f"{gone[:8]}*"))


def test_run_without_results_is_kept_with_status_2(tmp_path, home):
    status, out, err = run(home, node.tar(tmp_path, home.commits, measured=()))
    assert status == 2 and "no result was merged" in err and "Next:" not in out
    assert set(contents(home.results)) == {
        f"h200/runs/{node.STAMP}/{name}" for name in ("manifest.jsonl", "node.jsonl", "summary.md")
    }


@pytest.mark.parametrize("damage", ["half a", {"commit_hash": "--help"}])
def test_damaged_results_file_costs_itself(tmp_path, home, damage):
    def edit(folder):
        path = first(folder, home)
        path.write_text(damage if isinstance(damage, str) else json.dumps(json.loads(path.read_text()) | damage))

    status, _, err = run(home, node.tar(tmp_path, home.commits, edit=edit))
    assert status == 0 and "not merged" in err
    assert not home.stored(0).exists() and home.stored(1).exists()


@pytest.mark.parametrize("name", ["results", "benchmarks", "versions"])
def test_damaged_file_here_is_left_alone(home, tar, name):
    path = home.stored(0) if name == "results" else home.results / "benchmarks.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"version": 1}' if name == "versions" else "half a")
    before = path.read_bytes()
    status, _, err = run(home, tar)
    assert status == 0 and str(path) in err and ("not merged" if name == "results" else "left as it is") in err
    assert path.read_bytes() == before and home.stored(1).exists()


@pytest.mark.parametrize(("key", "other"), [("cpu", "Other 1"), ("arch", "aarch64"), ("num_cpu", "96"), ("os", None)])
def test_one_name_is_one_machine(home, tar, key, other):
    described = {**synthetic.machine_json("h200"), "arch": "x86_64", "ram": "16 GB", "os": "Linux 7", key: other}
    synthetic.write_json(home.results / "h200" / "machine.json", described)
    before = contents(home.results)
    if key == "os":  # memory and kernel may move
        assert run(home, tar)[0] == 0
        assert json.loads((home.results / "h200" / "machine.json").read_text()) == described
        return
    with pytest.raises(ResultsError, match=rf"machine.json: {key}: '{other}' here, .* give another one than --machine"):
        run(home, tar)
    assert contents(home.results) == before


def test_another_gpu_is_another_machine(tmp_path, home, tar):
    run(home, tar)
    before = contents(home.results)
    other = node.tar(tmp_path, home.commits, "other", node=Node(gpus=("Imaginary H100",)), written=node.WRITTEN + 9)
    with pytest.raises(ResultsError, match=r"Imaginary H200.* here, .*Imaginary H100.* in the tar"):
        run(home, other)
    assert contents(home.results) == before
    assert run(home, other, machine="h100")[0] == 0


def test_without_a_description_of_the_machine_nothing_is_merged(tmp_path, home):
    tar = node.tar(tmp_path, home.commits, edit=lambda folder: (folder / "results/node/machine.json").unlink())
    with pytest.raises(ResultsError, match=r"machine\.json is not in the tar"):
        run(home, tar)
    assert not home.results.exists()


def test_run_that_ended_before_it_measured_is_kept(tmp_path, home):
    """What its steps printed is kept, and a later tar of the machine is merged beside it."""
    tar = node.tar(tmp_path, home.commits, "early", edit=lambda folder: shutil.rmtree(folder / "results"))
    status, _, err = run(home, tar)
    assert (status, err) == (2, "no result was merged\n")
    assert (home.results / "h200" / "runs" / node.STAMP / "summary.md").exists()
    later = node.tar(tmp_path, home.commits, written=node.WRITTEN + 900)
    assert run(home, later)[0] == 0 and home.stored(0).exists()


def test_machine_code_comes_along_unless_it_is_damaged(tmp_path, home):
    code = "results/node/code"
    stored = []

    def with_code(folder):
        stored.extend(listing.store(text, folder / code) for text in ("kernel:\n", "damaged"))
        listing.path(folder / code, stored[1]).write_bytes(b"no xz")

    assert run(home, node.tar(tmp_path, home.commits, edit=with_code))[0] == 0
    assert [listing.read(home.results / "h200" / "code", digest) for digest in stored] == ["kernel:\n", None]
    assert len([*(home.results / "h200" / "code").iterdir()]) == 1


def test_another_repository_is_refused(tmp_path, home):
    with pytest.raises(ResultsError, match=r"first commit, eeeeeeee, is not in .*clone"):
        run(home, node.tar(tmp_path, home.commits, root="e" * 40))
    assert not home.results.exists()


def test_shallow_clone_is_told_to_fetch(tmp_path, home, tar):
    clone = tmp_path / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth", "2", home.root.as_uri(), str(clone)], check=True)
    (clone / "asv.conf.json").write_text("{}")
    with pytest.raises(ResultsError, match="git fetch --unshallow"):
        run(home, tar, root=clone)
    subprocess.run(["git", "fetch", "-q", "--depth", "5"], cwd=clone, check=True)
    assert run(home, tar, root=clone)[0] == 0


def test_run_that_measures_here_is_waited_for(home, tar, monkeypatch):
    with lock.held(home.root):
        monkeypatch.delenv(lock.HOLDER)
        with pytest.raises(UsageError, match="another run is measuring"):
            run(home, tar)
    assert not home.results.exists()


class Killed(BaseException):
    """What ends a process at once."""


def killed_after(writes, monkeypatch):
    """Let the process die when it has written so many files. Return the files that were written."""
    written = []

    def write(path, text):
        if len(written) == writes:
            raise Killed
        files.replace_text(path, text)
        written.append(path)

    for module in (unpack, asv_file):
        monkeypatch.setattr(module, "replace_text", write)
    return written


@pytest.mark.parametrize("rounds", [0, 5])  # nothing here, or the same series with fewer rounds
def test_interrupted_unpack_is_finished_by_the_next(tmp_path, home, tar, monkeypatch, rounds):
    if rounds:
        run(home, node.tar(tmp_path, home.commits, "older", rounds=rounds))
    before = contents(home.results)
    writes = killed_after(math.inf, monkeypatch)
    run(home, tar)
    finished = contents(home.results)
    for survived in range(len(writes)):
        shutil.rmtree(home.results)
        for name, data in before.items():
            (home.results / name).parent.mkdir(parents=True, exist_ok=True)
            (home.results / name).write_bytes(data)
        killed_after(survived, monkeypatch)
        with pytest.raises(Killed):
            run(home, tar)
        for path in filter(lambda path: path.exists(), map(home.stored, (0, 1))):
            assert StoredFile(path) and all(telemetry.decode(line) for line in lines(path))
        assert not list((home.root / ".asv").glob("unpack-*"))
        killed_after(math.inf, monkeypatch)
        run(home, tar)
        assert contents(home.results) == finished
