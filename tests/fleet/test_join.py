"""Joining machines of one kind: one history of many names, nothing recorded is lost, and it may be repeated."""

import dataclasses
import io
import json

import pytest

from kernel_velocity.__main__ import main
from kernel_velocity.counts import listing
from kernel_velocity.past import past
from kernel_velocity.results.records import Machine
from kernel_velocity.verdict.silence import scattered
from tests import synthetic

NAMES = ("fv-1", "fv-2", "fv-3")
FACTS = {"arch": "x86_64", "cpu": "EPYC", "num_cpu": "4"}


@pytest.fixture
def tree(tmp_path):
    """Each commit was measured by a runner of another name, with telemetry."""
    repository, results = tmp_path / "repository", tmp_path / "results"
    commits = synthetic.make_repository(repository, NAMES, "Ada Lovelace")
    synthetic.write_json(results / "benchmarks.json", synthetic.benchmarks_json())
    for index, name in enumerate(NAMES):
        synthetic.write_commit(results, commits[index], index, machine=name)
        synthetic.write_json(results / name / "machine.json", {**synthetic.machine_json(name), **FACTS})
    return synthetic.Tree(repository=repository, results=results, commits=commits)


def join(tree, *args):
    out, err = io.StringIO(), io.StringIO()
    status = main(["join", *args, "--root", str(tree.results.parent)], out, err)
    return status, out.getvalue(), err.getvalue()


def everything(tree):
    """Return the values and rounds of all machines, without the machines' names."""
    opened = past.open(tree.results, tree.repository, folder=tree.results.parent / "cache", rounds=True)
    measured = [value for sha in tree.commits for value in opened.at(sha)]
    keys = [dataclasses.replace(value.key, machine="") for value in measured]
    return sorted(
        (value.commit, key, value.seconds or 0.0, value.rounds or 0) for value, key in zip(measured, keys, strict=True)
    )


def test_runners_become_one_machine_and_lose_nothing(tree):
    def rounds(machine):
        return {path.name: sorted(path.read_text().split("\n")) for path in tree.results.glob(f"{machine}/telemetry/*")}

    digests = [listing.store(text, tree.results / name / "code") for name in NAMES for text in ("kernel:", name)]
    before = rounds("fv-*")
    names = {path.name: path.parent.name for path in tree.results.glob("fv-*/*-*.json")}
    status, out, err = join(tree, "fv-0", "fv-*")
    assert (status, err) == (0, "") and f"{len(NAMES)} results files of {len(NAMES)} machines" in out
    assert {path.name for path in tree.results.iterdir()} == {"benchmarks.json", "fv-0"}
    assert rounds("fv-0") == before
    assert {listing.read(tree.results / "fv-0" / "code", digest) for digest in digests} == {"kernel:", *NAMES}
    joined = [json.loads(line) for line in (tree.results / "fv-0" / "joined.jsonl").read_text().splitlines()]
    assert {line["file"]: line["machine"] for line in joined} == names
    after = {path: path.read_bytes() for path in tree.results.rglob("*") if path.is_file()}
    assert join(tree, "fv-0", "fv-*")[0] == 0
    assert {path: path.read_bytes() for path in tree.results.rglob("*") if path.is_file()} == after


def test_values_are_those_of_before(tree):
    before = everything(tree)
    join(tree, "fv-0", "fv-*")
    assert everything(tree) == before and len(before) > len(NAMES)


def test_commit_that_two_runners_measured_keeps_both(tree):
    (path,) = (tree.results / "fv-1").glob("*-*.json")
    other = json.loads(path.read_text())
    synthetic.write_commit(tree.results, tree.commits[0], 0, machine="fv-2", rounds=4)
    stays = {file.name: file.read_bytes() for file in (tree.results / "fv-2").glob(path.name)}
    status, out, _ = join(tree, "fv-1", "fv-2")
    assert status == 0 and "1 machine keep what fv-1 has" in out
    assert json.loads(path.read_text()) == other
    assert {file.name: file.read_bytes() for file in (tree.results / "fv-2").glob("*-*.json")} == stays


def test_lines_that_belong_to_no_value_stay(tree):
    (path,) = (tree.results / "fv-1" / "telemetry").glob("*.jsonl")
    path.write_text(path.read_text() + '{"b":"gone.Cpu.time_hot"}\n')
    assert join(tree, "fv-0", "fv-1")[0] == 0
    assert "gone.Cpu.time_hot" in path.read_text() + (tree.results / "fv-0" / "telemetry" / path.name).read_text()


def test_interrupted_move_ends_the_next_time(tree, monkeypatch):
    (path,) = (tree.results / "fv-1").glob("*-*.json")
    target = tree.results / "fv-0"
    before = path.read_bytes()
    join(tree, "fv-0", "fv-1")
    path.parent.mkdir()
    path.write_bytes(before)  # written there, not yet removed here
    for beside in (target / "telemetry").iterdir():
        (path.parent / "telemetry").mkdir(exist_ok=True)
        (path.parent / "telemetry" / beside.name).write_bytes(beside.read_bytes())
    assert join(tree, "fv-0", "fv-1")[0] == 0
    assert not path.exists() and len(list(target.glob("*-*.json"))) == 1


def test_machines_of_two_kinds_are_refused_and_nothing_moves(tree):
    path = tree.results / "fv-2" / "machine.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "cpu": "Xeon"}))
    before = sorted(tree.results.rglob("*"))
    status, _, err = join(tree, "fv-0", "fv-*")
    assert status == 2 and "cpu: 'Xeon', but 'EPYC' of fv-1: one name is one kind of machine" in err
    assert sorted(tree.results.rglob("*")) == before
    assert join(tree, "fv-0", "nobody")[2].endswith("is wanted (fv-1, fv-2, fv-3), got nobody\n")


def test_report_names_the_command(tree):
    def notes(*commits, names=NAMES):
        machines = [Machine(name=name, details=tuple(FACTS.items())) for name in names]
        return [*scattered(machines, dict(zip(names, commits, strict=True)))]

    (note,) = notes(1, 1, 2)
    assert "3 machines of one kind (EPYC, 4 CPUs)" in note and "`kv join hosted 'fv-*'`" in note
    assert "`kv join old 'fv-*'`" in notes(40, 1, 1, 1, names=("old", *NAMES))[0]
    assert "`kv join fv-9 fv-1 fv-2 fv-3`" in notes(1, 1, 1, 9, names=(*NAMES, "fv-9"))[0]
    assert notes(1, 1, 40) == notes(40, 40, 40) == []
    out, err = io.StringIO(), io.StringIO()
    folders = [f"--results={tree.results}", f"--repository={tree.repository}", f"--out={tree.results.parent / 'site'}"]
    assert main(["report", *folders], out, err) == 0
    assert "kv join hosted 'fv-*'" in err.getvalue()
    assert "kv join hosted" in (tree.results.parent / "site" / "index.html").read_text()
