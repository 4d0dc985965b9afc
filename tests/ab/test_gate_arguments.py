"""What users of `gate` and `bisect` get wrong: one line each, exit status 2, and nothing is measured."""

from pathlib import Path

import pytest

from kernel_velocity import lock
from kernel_velocity.ab import bisect, gate
from kernel_velocity.ab.rounds import Pair
from kernel_velocity.results import git as results_clone
from kernel_velocity.results.git import resolve
from kernel_velocity.runner import checks
from kernel_velocity.runner.environment import CommitNotBuilt
from kernel_velocity.stats.sequential import Obstacle
from tests.ab.simulated_machine import Machine
from tests.commands import git, kv
from tests.small_suite import SUITE


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A repository of three commits on main, and one beside it. Commands read it only."""
    folder = tmp_path_factory.mktemp("clone")
    (folder / "asv.conf.json").write_text("{}")
    (folder / "benchmarks").symlink_to(SUITE.folder)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    for number in range(3):
        git(folder, "commit", "-q", "--allow-empty", "-m", f"c{number}")
    git(folder, "checkout", "-q", "-b", "beside", "HEAD~1")
    git(folder, "commit", "-q", "--allow-empty", "-m", "beside")
    git(folder, "checkout", "-q", "main")
    return folder


@pytest.fixture
def clone(repository, monkeypatch):
    """The repository on a machine without GPU, with some torch. Its suite is ours."""
    monkeypatch.setattr(checks, "torch_version", lambda: "9.9.0")
    monkeypatch.setattr("kernel_velocity.ab.gate.device", lambda: "cpu")
    monkeypatch.setattr("kernel_velocity.ab.bisect.device", lambda: "cpu")
    monkeypatch.delenv("KV_LOCK_HOLDER", raising=False)
    return repository


def complaint(clone, *args, status=2):
    """Run a command that must be refused. Return its one line."""
    returned, out, err = kv(*args, "--root", clone)
    assert (returned, out) == (status, "")
    (line,) = err.splitlines()
    return line.removeprefix("error: ")


GATE = ("gate", "HEAD~1", "HEAD")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("gate", "nowhere", "HEAD"), "BASE='nowhere' names no commit of this repository"),
        (("gate", "HEAD", "HEAD~9"), "HEAD='HEAD~9' names no commit"),
        (("gate", "HEAD:asv.conf.json", "HEAD"), "BASE='HEAD:asv.conf.json' names no commit"),
        (("gate", "HEAD"), "the following arguments are required: HEAD"),
        ((*GATE, "--budget", "soon"), "--budget must be a positive number of minutes (got 'soon')"),
        ((*GATE, "--json", "-", "--junit", "-"), "one format alone can go to standard output"),
        ((*GATE, "--json", "/"), "--json /: must be a file in an existing folder"),
        ((*GATE, "--markdown", "/proc/new"), "--markdown /proc/new: cannot be written ("),
        ((*GATE, "--bench", "["), "is not a regular expression"),
        ((*GATE, "--bench", "fft"), "matches no series; there are add_mul_exp.Cpu.time_hot"),
        ((*GATE, "--tier", "half"), "TIER must be core"),
        ((*GATE, "--counts", "--bench", "fft"), "matches no series; there are add_mul_exp.Cuda.track_registers"),
        ((*GATE, "--counts", "--lock-clocks"), "--lock-clocks: counts need no clock; give one of --counts and"),
        (("bisect", "matmul.Cpu.time_hot", "nowhere", "HEAD"), "GOOD='nowhere' names no commit"),
        (("bisect", "matmul.Cpu.time_hot", "HEAD~1", "nowhere"), "BAD='nowhere' names no commit"),
        (("bisect", "matmul.Cpu.time_hot", "HEAD", "HEAD"), "GOOD and BAD are the same commit"),
        (("bisect", "matmul.Cpu.time_hot", "beside", "HEAD"), "is no ancestor of BAD"),
        (("bisect", "matmul", "HEAD~1", "HEAD"), "matmul.Cpu.time_hot has several test cases: "),
        (("bisect", "time_hot", "HEAD~1", "HEAD", "--case", "float32-1M"), "matches several benchmarks: add_mul_exp."),
        (
            ("bisect", "matmul.Cpu.time_hot", "HEAD~1", "HEAD", "--case", "float32-7"),
            "no series matmul.Cpu.time_hot native float32-7; there are eager float32-128x128x128",
        ),
        (("bisect", "matmul.Cpu.time_hot", "HEAD~1", "HEAD", "--implementation", "ours"), "no series matmul.Cpu"),
    ],
)
def test_malformed_arguments_are_one_line(clone, args, words):
    assert words in complaint(clone, *args)


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("HEAD", "BASE and HEAD are the same commit"),
        (".", "BASE and the unchanged working tree are the same commit"),
    ],
)
def test_commit_is_not_compared_with_itself(clone, head, words):
    line = complaint(clone, "gate", "HEAD", head, status=22)
    assert line.startswith(words) and "name an earlier BASE, such as" in line


def test_folder_without_asv_conf_is_refused(tmp_path):
    assert "no asv.conf.json here" in complaint(tmp_path, *GATE)


@pytest.mark.parametrize(("head", "notes"), [("HEAD", 1), (".", 0)])
def test_uncommitted_changes_are_noted_unless_measured(clone, head, notes, monkeypatch):
    monkeypatch.setattr(
        "kernel_velocity.results.git.check_clone", lambda root: ["uncommitted changes are not measured"]
    )
    status, _, err = kv("gate", "HEAD~1", head, "--bench", "fft", "--root", clone)
    assert (status, err.count("note: uncommitted changes are not measured")) == (2, notes)


def test_malformed_timing_setting_is_refused(clone, monkeypatch):
    monkeypatch.setenv("KV_RULE", "guess")
    assert "guess" in complaint(clone, *GATE)


def test_missing_torch_is_refused(clone, monkeypatch):
    monkeypatch.setattr(checks, "torch_version", lambda: None)
    assert complaint(clone, *GATE).startswith("torch is not installed for this Python")


def test_clone_with_another_run_is_refused(clone, monkeypatch):
    holder = lock.take(clone)
    monkeypatch.delenv("KV_LOCK_HOLDER")  # which says that it is ourselves
    try:
        assert complaint(clone, *GATE).startswith("another run is measuring in this clone")
    finally:
        holder.close()


class FakeRunner(Machine):
    """A simulated machine in the place of asv's runner."""

    measured = 0.0
    device = "cpu"
    wrong = ""  # a test case whose result is wrong at the later commit
    hashes = ("h", "h")  # of all code of matmul
    unbuilt = ""  # why CUDA code does not compile

    def measure_pair(self, before, after, series, rounds, deadline):
        pairs = super().measure_pair(before, after, series, rounds, deadline)
        failed = Pair(obstacle=Obstacle.FAILED, reason=f"failed at {after}: wrong")
        return {key: failed if self.wrong and key[1][1] == self.wrong else pair for key, pair in pairs.items()}

    def folder(self, before, after):
        return Path(f"{before}-{after}")

    def read_builds(self, before, after):
        if self.unbuilt:
            raise CommitNotBuilt(after, self.unbuilt, "log")
        return [{"kernels": {"matmul": {"code_hash": text}}} for text in self.hashes]


# What the machine of HEAD does, with the minutes of its budget
CAUSES = {
    "clean": (0, {"noise": 0.002}, 10),
    "slower": (10, {"speed": 1.05}, 10),
    "the budget ends after the first look": (11, {"speed": 1.02, "noise": 0.012, "seed": 4}, 33 / 60),
    "one of two is wrong": (20, {"noise": 0.002, "wrong": "float32-256x256x256"}, 10),
    "CUDA code does not compile": (22, {"noise": 0.002, "unbuilt": "b.cu(3): error"}, 10),
    "all are wrong": (22, {"fails": True}, 10),
    "it does not build": (22, {"builds": False}, 10),
    "the budget ends within the first look": (22, {}, 9 / 60),
}


def fake_runner(head, *, speed=1.0, fails=False, builds=True, **more):
    only, of_fake = (head,), ("wrong", "hashes", "unbuilt")
    named = {name: more.pop(name) for name in of_fake if name in more}
    machine = FakeRunner(speed={head: speed}, failing=only * fails, unbuildable=only * (not builds), **more)
    vars(machine).update(named)
    return machine


@pytest.mark.parametrize("cause", CAUSES)
def test_exit_statuses_of_gate(clone, monkeypatch, cause):
    status, behaviour, minutes = CAUSES[cause]
    monkeypatch.setattr(results_clone, "check_clone", lambda root: [])
    monkeypatch.setattr(
        gate, "AsvRunner", lambda *positional, **named: fake_runner(resolve(clone, "HEAD", "HEAD"), **behaviour)
    )
    args = [*GATE, "--bench", r"matmul\..*native.*(256|512)x", "--budget", minutes, "--root", clone]
    returned, out, _ = kv(*args)
    assert returned == status and out.splitlines()[-1].endswith(f"(exit status {status})")


def notes(clone, monkeypatch, **behaviour):
    """Return the notes of a gate."""
    monkeypatch.setattr(gate, "AsvRunner", lambda *positional, **named: fake_runner("", **behaviour))
    status, out, _ = kv(*GATE, "--bench", r"matmul\..*native.*256x", "--budget", "10", "--root", clone)
    assert status in (0, 11)
    return [line for line in out.splitlines() if line.startswith("note: ")]


def test_changes_that_are_not_compared_are_noted(clone, monkeypatch):
    questions, codes = [], dict.fromkeys((resolve(clone, "", "HEAD~1"), resolve(clone, "", "HEAD")), "the same")
    assert notes(clone, monkeypatch, codes=codes) == []
    monkeypatch.setattr(
        results_clone, "changed_files", lambda *args: questions.append(args[1:]) or ("benchmarks/a.py",)
    )
    (note,) = notes(clone, monkeypatch, codes=codes)
    assert note == "note: not compared, because both sides run the benchmarks that lie here: changes of benchmarks/a.py"
    assert questions == [(resolve(clone, "BASE", "HEAD~1"), resolve(clone, "HEAD", "HEAD"), SUITE.folder)]


@pytest.mark.parametrize("is_timed_same", [False, True])
def test_cuda_code_that_nothing_here_runs_is_noted(clone, monkeypatch, is_timed_same):
    codes = dict.fromkeys((resolve(clone, "", "HEAD~1"), resolve(clone, "", "HEAD")), "same") if is_timed_same else {}
    (note,) = notes(clone, monkeypatch, codes=codes, hashes=("h", "i"))
    assert note == "note: not compared, because there is no GPU here: the CUDA code of matmul"


def test_suite_of_pytorch_alone_is_no_comparison(clone, monkeypatch):
    monkeypatch.setattr(gate, "CONTROLS", ("eager", "compile", "native", "triton"))
    assert "the suite times eager and compile and native and triton alone" in complaint(clone, *GATE, status=22)


@pytest.mark.parametrize(
    ("machine", "status", "words"),
    [
        (
            {"cost": 60.0},
            22,
            "5 of the 8 rounds a side that the first look takes; the budget ended before 8 rounds a side",
        ),
        ({"noise": 0.3}, 11, "1% or more, but p is not below 0.001; more than 64 rounds are never measured"),
    ],
)
def test_bisection_that_is_not_settled(clone, monkeypatch, machine, status, words):
    monkeypatch.setattr(results_clone, "check_clone", lambda root: [])
    monkeypatch.setattr(bisect, "AsvRunner", lambda *positional, **named: fake_runner("", **machine))
    args = ["bisect", "matmul", "HEAD~1", "HEAD", "--case", "float32-256x256x256", "--budget", "10"]
    returned, out, _ = kv(*args, "--root", clone)
    assert returned == status and f"whether BAD is slower than GOOD is not settled: {words}" in out
    assert ("the same command goes on from here" in out) == (status == 22)


def test_expected_slowdown_passes(clone, monkeypatch):
    git(clone, "checkout", "-q", "-b", "said")
    git(clone, "commit", "-q", "--allow-empty", "-m", "Add a bias\n\nPerf-Expected: matmul +8% for the bias")
    head = resolve(clone, "HEAD", "HEAD")
    git(clone, "checkout", "-q", "main")
    monkeypatch.setattr(results_clone, "check_clone", lambda root: [])
    monkeypatch.setattr(gate, "AsvRunner", lambda *positional, **named: fake_runner(head, speed=1.05))
    args = ["gate", "said~1", "said", "--bench", r"matmul\..*native.*(256|512)x", "--budget", "10", "--root", clone]
    status, out, _ = kv(*args)
    assert (status, out.splitlines()[-1]) == (0, "verdict: clean; 2 slower as expected (exit status 0)")
