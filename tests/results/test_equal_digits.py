"""Two commits whose hashes begin with the same eight digits, by which asv names its files, keep their own values."""

import hashlib
import itertools
import json
import subprocess
from pathlib import Path

import pytest
from asv.runner import BenchmarkResult

from kernel_velocity.errors import ResultsError, UsageError
from kernel_velocity.past import past
from kernel_velocity.results import asv_file, foreign, git, reader
from kernel_velocity.results.asv_file import RunResults, StoredFile
from kernel_velocity.results.lines import results_path
from kernel_velocity.runner import asv
from kernel_velocity.site import model, report
from kernel_velocity.site.pages import measurement
from tests.synthetic import make_repository

ENVIRONMENT = "google-benchmark"
AUTHOR = ("-c", "user.name=Ada", "-c", "user.email=ada@localhost")


def _alike(parent: str, tree: str) -> tuple[bytes, bytes]:
    """Return two commits, as git stores them, whose hashes begin with the same 8 digits: 80,000 have such a pair."""
    earlier: dict[str, bytes] = {}
    for number in itertools.count():
        who = "a <a@localhost> 1800000000 +0000"
        body = f"tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n\nNumber {number}\n".encode()
        digits = hashlib.sha1(b"commit %d\0" % len(body) + body, usedforsecurity=False).hexdigest()[:8]
        if digits in earlier:
            return earlier[digits], body
        earlier[digits] = body
    raise AssertionError


def _git(folder: Path, *argv: str, stdin: bytes = b"") -> str:
    return (
        subprocess.run(["git", *argv], cwd=folder, input=stdin, capture_output=True, check=True).stdout.decode().strip()
    )


@pytest.fixture(scope="module")
def alike(tmp_path_factory):
    """Return a repository, and two commits, of which a merge has the second beside its line. They take 1 and 2 s."""
    folder = tmp_path_factory.mktemp("alike")
    (root,) = make_repository(folder / "repository", ("Root",), "Ada")
    tree = _git(folder / "repository", "rev-parse", f"{root}^{{tree}}")
    pair = [
        _git(folder / "repository", "hash-object", "-w", "-t", "commit", "--stdin", stdin=body)
        for body in _alike(root, tree)
    ]
    parents = ("-p", pair[0], "-p", pair[1])
    merge = _git(folder / "repository", *AUTHOR, "commit-tree", tree, *parents, "-m", "Merge")
    _git(folder / "repository", "update-ref", "HEAD", merge)
    machine, facts = foreign.machine(folder / "repository" / "results", "box")
    for seconds, commit in enumerate(pair, start=1):
        row = {"name": "BM_x/8", "real_time": float(seconds), "cpu_time": 1.0, "time_unit": "s"}
        context = {"library_version": f"v{seconds}"}
        (folder / "file.json").write_text(json.dumps({"context": context, "benchmarks": [row]}))
        run = foreign.read(ENVIRONMENT, [folder / "file.json"])
        foreign.record(run, machine, commit=commit, date=1e9, facts=facts)
    return folder / "repository", pair


def test_each_has_a_file_and_its_telemetry(alike):
    folder, pair = alike
    machine = folder / "results" / "box"
    paths = [results_path(machine, commit, ENVIRONMENT) for commit in pair]
    assert [path.name for path in paths] == [f"{pair[0][:8]}-{ENVIRONMENT}.json", f"{pair[1]}-{ENVIRONMENT}.json"]
    notes = []
    files = [reader.read_file(path, notes) for path in paths]
    assert [(file.commit, [*file.seconds]) for file in files] == [(pair[0], [1.0]), (pair[1], [2.0])]
    assert [rounds[0].estimate for file in files for rounds in file.rounds.values()] == [1.0, 2.0]
    assert notes == []
    assert results_path(machine, pair[0][:8] + "0" * 32, ENVIRONMENT) not in paths  # a third one


def test_pages_tell_them_apart(alike, tmp_path):
    folder, pair = alike
    recorded = past.open(folder / "results", folder)
    assert [[measurement.seconds for measurement in recorded.at(commit)] for commit in pair] == [[1.0], [2.0]]
    sessions = recorded.sessions("box", ENVIRONMENT)
    assert {(commit, session.facts[ENVIRONMENT]) for commit, session in sessions} == {(pair[0], "v1"), (pair[1], "v2")}
    report.write_site(results=folder / "results", repository=folder, out=tmp_path)
    site = model.read(folder / "results", folder)
    for commit, other in (pair, pair[::-1]):
        page = (tmp_path / f"commit-{commit}.html").read_text(encoding="utf-8")
        assert commit in page and other not in page.replace(f"commit-{other}", "")
    names = {path.name for path in (tmp_path / "data").glob("rounds-*-0.js")}
    assert names == {f"rounds-{commit}-0.js" for commit in pair}
    (index,) = [file for file in measurement.build(site) if file.name == "rounds-index"]
    assert {*index.value["whole"]} == {*pair}


def test_asv_takes_no_value_of_the_other(alike, tmp_path):
    _, pair = alike
    (tmp_path / "box").mkdir()
    for number, commit in enumerate(pair):
        stored = RunResults({"machine": "box"}, {}, commit, 1, "3.11", "env", {})
        stored.load_data(str(tmp_path))
        measured = BenchmarkResult(result=[1.0], samples=[None], number=[None], errcode=0, stderr="", profile=None)
        stored.add_result({"name": f"b{number}", "params": [], "version": "1"}, measured)
        stored.save(str(tmp_path))
    files = [StoredFile(results_path(tmp_path / "box", commit, "env")) for commit in pair]
    assert [(file.commit, file.benchmarks()) for file in files] == [(pair[0], ["b0"]), (pair[1], ["b1"])]


def test_one_run_of_asv_does_not_measure_both(alike, tmp_path):
    _, pair = alike
    with pytest.raises(UsageError, match=f"{pair[0]} and {pair[1]} begin with the same 8 digits"):
        asv.measuring(tmp_path / "commits", pair, [], "box", [])


def test_commits_that_begin_alike_show_all_digits(alike):
    folder, pair = alike
    commits = git.read(folder, [*pair, "HEAD"]).commits
    assert {commit.short for sha, commit in commits.items() if sha in pair} == set(pair)


def test_unreadable_file_is_nobodys_and_stays(tmp_path):
    """It may be another commit's: asv would write over it."""
    machine = tmp_path / "box"
    machine.mkdir()
    path = results_path(machine, "a" * 40, "env")
    path.symlink_to(path.name)
    with pytest.raises(ResultsError, match="cannot be read"):
        results_path(machine, "a" * 40, "env")
    results = RunResults({"machine": "box"}, {}, "a" * 40, 1, "3.11", "env", {})
    with pytest.raises(ResultsError, match="cannot be read"):
        results.save(str(tmp_path))
    assert path.is_symlink() and [*machine.iterdir()] == [path]
    assert asv_file.paths(tmp_path, "env", "a" * 40) == []
