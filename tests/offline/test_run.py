"""A time slice: which stages run, in which order, when it ends, what it leaves. The stages' commands are faked."""

import dataclasses
import io
import json
import os
import re
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernel_velocity import __main__, lock
from kernel_velocity.harness.documents import with_checksum
from kernel_velocity.offline import archive, run
from kernel_velocity.offline.run import TIME_IS_UP
from kernel_velocity.runner import child
from tests import synthetic
from tests.runner.test_facts import NODE

SERIES = tuple(("k.Cuda.time_hot", (name, f"{n}M")) for n in range(20) for name in ("native", "compile"))
PACK = {"root": "a" * 40, "head": "b" * 40, "commits": ["1" * 40, "2" * 40, "3" * 40]}


@pytest.fixture
def node(tmp_path, monkeypatch):
    """A clone's folder, a pack's manifest, and children that only note that they ran."""
    monkeypatch.delenv("KV_LOCK_HOLDER", raising=False)
    fake = FakeNode(tmp_path, monkeypatch)
    fake.commit = fake.clone("work")
    monkeypatch.setattr(run.facts, "gather", fake.gather)
    monkeypatch.setattr(run, "cuda_status", lambda: "")
    monkeypatch.setattr(run.Slice, "series", lambda _self, tier: SERIES * (1 if tier == "core" else 4))
    return fake


class FakeNode:
    """A node whose facts and exit statuses a test sets."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.ran, self.statuses, self.actions = folder, [], {}, {}
        self.facts, self.slices, self.commands, self.environments = NODE, 0, {}, {}
        self.pack = folder / "manifest.json"
        self.pack.write_text(with_checksum(json.dumps(PACK)))
        self.tar, self.out = folder / "out" / archive.NAME, io.StringIO()
        monkeypatch.setattr(child, "run", self._child)
        monkeypatch.setattr(run, "logging", self._logging)

    def clone(self, name):
        """Make a clone the current folder."""
        library = self.folder / name / "repository" / run.LIBRARY
        library.parent.mkdir(parents=True)
        library.write_text("{}")
        os.chdir(self.folder / name / "repository")
        return synthetic.make_repository(Path(), ["Add matmul"], "Ada Lovelace")[0]

    def gather(self):
        """The facts. Each slice is another process, whose number the lock leaves in the environment."""
        self.slices += 1
        os.environ["KV_LOCK_HOLDER"] = str(self.slices)
        return self.facts

    @contextmanager
    def _logging(self, path, say):
        self.log = path
        path.parent.mkdir(parents=True, exist_ok=True)
        yield path.write_text

    def _child(self, command, on_line, *, environ, seconds):
        name = self.log.stem
        self.commands[name], self.environments[name] = command, environ
        commits = command[command.index("--range") + 1].split() if "--range" in command else []
        self.ran.append(" ".join([name, *(sha[0] for sha in commits)]))
        on_line("fatal error: no")
        if name in self.actions:
            self.actions[name]()
        status = self.statuses.get(name, 0)
        status = status.pop(0) if isinstance(status, list) else status
        if status is None:
            raise subprocess.TimeoutExpired(command, seconds)
        return status

    def slice(self, stages=None, *arguments):
        """Run a slice. Return its status, what it printed, and the children that ran."""
        self.ran = []
        out = io.StringIO()
        command = ["offline", "run", str(self.tar.parent), "--pack", str(self.pack), *arguments]
        status = __main__.main([*command, *([f"--stages={stages}"] if stages else [])], out, out)
        return status, out.getvalue(), self.ran

    @property
    def summary(self):
        return (self.folder / "out" / "summary.md").read_text()


@pytest.fixture(autouse=True)
def leave_the_clone():
    before = Path.cwd()
    yield
    os.chdir(before)


def test_stages_run_in_the_order_of_their_worth(node):
    status, text, ran = node.slice(None, "--together", "2", "--bench", "matmul", "--rounds", "3")
    assert status == 0, text
    assert ran == [
        "doctor", *["build"] * 3, "tests", "sharing", "ceilings", "track-core 1 2", "track-core 3", "timers", "traces",
        "track-full 1 2", "track-full 3",
    ]  # fmt: skip
    assert "left to do: nothing" in node.summary and "1 slice;" in node.summary
    assert "cuda of NVIDIA H200" in (node.folder / "out" / "node.log").read_text()
    for name in ("track-core", "timers", "traces"):
        assert "--bench=matmul" in node.commands[name]
    assert "--bench=matmul" not in node.commands["ceilings"]
    assert {"--rounds=3", "--no-site"} <= set(node.commands["track-core"])
    assert node.environments["traces"]["OMP_NUM_THREADS"] == "1" and "OMP_NUM_THREADS" not in node.environments["tests"]
    assert node.slice(None, "--together", "2", "--bench", "matmul", "--rounds", "3")[2] == []
    assert "2 slices;" in node.summary


def test_node_s_variables_reach_every_stage(node):
    node.facts = dataclasses.replace(NODE, capability=[12, 0])
    node.slice()
    for environment in node.environments.values():
        assert environment["KV_CUDA_ARCHITECTURES"] == "sm_120"
        assert environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] == "1"


def test_stage_that_is_cut_off_is_run_again(node):
    node.statuses["traces"] = None
    status, text, _ = node.slice("ceilings,traces")
    assert status == TIME_IS_UP and "run the same command again" in text
    assert "left to do: traces" in node.summary
    node.statuses.clear()
    status, _, ran = node.slice("ceilings,traces")
    assert (status, ran) == (0, ["traces"])


@pytest.mark.parametrize("text", ["", "{", '{"stages": {}}'])
def test_state_that_cannot_be_read_runs_the_stages_again(node, text):
    node.slice("ceilings")
    Path("../collected/run/state.json").write_text(text)
    assert node.slice("ceilings")[2] == ["ceilings"]


@pytest.mark.parametrize(
    ("change", "again"),
    [
        (["--rounds", "3"], ["track-core 1 2 3"]),
        (["--trace-seconds", "2"], ["traces"]),
        ({"KV_RULE": "fixed_time"}, ["tests", "track-core 1 2 3", "traces"]),
        ({"toolchain": "c++ 14; Build cuda_13.0"}, ["tests", "track-core 1 2 3", "traces"]),
    ],
)
def test_what_depends_on_a_change_is_done_again(node, monkeypatch, change, again):
    node.slice("tests,traces,core", "--tier", "core")
    if isinstance(change, dict):
        monkeypatch.setenv(*next(iter(change.items())))
        node.facts = dataclasses.replace(NODE, toolchain=change.get("toolchain", NODE.toolchain))
    arguments = change if isinstance(change, list) else []
    assert node.slice("tests,traces,core", "--tier", "core", *arguments)[2] == again


def test_traces_of_another_request_are_removed(node):
    node.slice("traces")
    trace = Path("../collected/traces/k-cpu.json").absolute()
    trace.write_text("{}")
    node.statuses["traces"] = None  # and again, as if it had been cut off
    Path("../collected/run/state.json").unlink()
    node.slice("traces")
    assert trace.exists() and "1 file" in node.summary
    node.slice("traces", "--trace-seconds", "2")
    assert not trace.exists()


@pytest.mark.parametrize(
    ("name", "returned", "status"),
    [("tests", 1, 20), ("build", 1, 21), ("track-core", 20, 20), ("track-core", 22, 22), ("traces", 1, 20)],
)
def test_failed_stage_costs_a_line_and_a_status_never_the_others(node, name, returned, status):
    node.statuses[name] = returned
    result, text, ran = node.slice(None, "--tier", "core")
    assert result == status, text
    assert ran[-1] == "traces" and f"{name}: ended with status {returned}" in text
    assert (f"- failed: stage {name}" in node.summary) == (name != "track-core")
    assert ("the kernels do not build here: fatal error: no" in node.summary) == (name == "build")


def test_track_that_could_not_begin_is_an_error_and_tried_again(node):
    """Not "time is up": a batch job would be requeued for ever."""
    node.statuses["track-core"] = 2
    status, text, ran = node.slice("core,timers")
    assert status == 2 and ran == ["track-core 1 2 3", "timers"]
    assert "time is up" not in text and "- failed: stage track-core" in node.summary
    node.statuses.clear()
    status, _, ran = node.slice("core,timers")
    assert (status, ran) == (0, ["track-core 1 2 3"])


def test_work_that_is_left_comes_before_what_failed(node):
    node.statuses |= {"tests": 1, "traces": None}
    assert node.slice("tests,traces")[0] == TIME_IS_UP
    node.statuses["traces"] = 0
    assert node.slice("tests,traces")[0] == 20


def test_failure_under_other_options_is_over(node):
    node.statuses |= {"traces": 20, "track-core": 20}
    assert node.slice("traces,core", "--bench", "x", "--tier", "core")[0] == 20
    node.statuses.clear()
    assert node.slice("traces,core", "--tier", "core")[0] == 0
    assert "- failed" not in node.summary


@pytest.mark.parametrize(("minutes", "ran"), [("2", ["track-full 1"]), ("28", ["track-full 1 2"]), ("0.5", [])])
def test_as_many_commits_as_there_is_time_for(node, minutes, ran):
    """One at least, else a slice that is shorter than a commit takes would be started for ever."""
    node.statuses["track-full"] = None
    assert node.slice("full", "--minutes", minutes)[0::2] == (TIME_IS_UP, ran)
    assert node.tar.exists()


@pytest.mark.parametrize(
    ("took", "ran"),
    [
        (60, ["track-core 1", "track-core 2 3"]),  # what a commit took here counts, not the tier's limit
        (200, ["track-core 1"]),  # the next would be cut off before its half
    ],
)
def test_commit_that_does_not_fit_is_not_begun(node, monkeypatch, took, ran):
    clock = SimpleNamespace(monotonic=lambda: clock.now, time=time.time, now=1000.0)
    monkeypatch.setattr(run, "time", clock)

    def pass_time():
        clock.now += took

    node.actions["track-core"] = pass_time
    status, text, reached = node.slice("core", "--minutes", "5", "--bench", "x", "--tier", "core")
    assert (status, reached) == (0 if len(ran) == 2 else TIME_IS_UP, ran), text
    assert ("left to do: core" in node.summary) == (status == TIME_IS_UP)


def test_stage_without_time_for_all_measures_fewer_series(node):
    status, text, _ = node.slice("sharing,timers,core", "--tier", "core", "--minutes", "30")
    assert status == 0
    (sharing,) = re.findall(r"== sharing: about (\d+) s for (\d+) of 40 series", text)
    assert 100 < int(sharing[0]) <= 175 and f"--most={sharing[1]}" in node.commands["sharing"]
    assert f"note: sharing: of {sharing[1]} series alone" in node.summary
    assert re.search(r"== timers: about \d+ s \(", text) and "--most" not in " ".join(node.commands["timers"])
    assert re.search(r"== core: about \d+ s for 3 commits", text) and "core: took 0 s" in text
    # A cut stage is done. And what commits took is what the next are expected to take.
    status, text, ran = node.slice("sharing,full", "--minutes", "20")
    assert ran[0] == "track-full 1"


def test_set_up_counts_as_time(node):
    status, _, ran = node.slice(None, "--minutes", "10", "--began", str(time.time() - 590))
    assert (status, ran) == (TIME_IS_UP, [])


def test_crash_of_the_traces_is_resumed_in_the_same_slice(node):
    node.statuses["traces"] = [-11, 139, 20]
    status, _, ran = node.slice("traces")
    assert (status, ran) == (20, ["traces"] * 3)
    node.statuses["traces"] = [-11] * 99
    assert len(node.slice("traces", "--trace-seconds", "2")[2]) == 1 + run.CRASHES


def test_another_machine_is_refused(node):
    node.slice("tests")
    node.facts = dataclasses.replace(NODE, gpus=["NVIDIA H100"])
    status, text, ran = node.slice("timers")
    assert (status, ran) == (2, []) and "holds what NVIDIA H200, Xeon measured, this is NVIDIA H100, Xeon" in text


def test_notes_that_no_longer_hold_are_gone(node, monkeypatch):
    node.facts = dataclasses.replace(NODE, toolchain="c++ 13; no nvcc")
    monkeypatch.setattr(run, "cuda_status", lambda: "driver too old")
    node.slice("build")
    assert "note: no nvcc" in node.summary and "the native CUDA kernels are n/a: driver too old" in node.summary
    monkeypatch.setattr(run, "cuda_status", lambda: "")
    node.facts = NODE
    node.slice("build")
    assert "note" not in node.summary


def record(commit):
    """What `track` leaves."""
    synthetic.write_json(Path("results/benchmarks.json"), synthetic.benchmarks_json())
    synthetic.write_commit(Path("results"), commit, 0, machine="node")
    synthetic.write_json(Path("results/node/machine.json"), synthetic.machine_json("node"))
    synthetic.write_json(Path("results/node/telemetry/x.jsonl"), {})
    Path(".asv/logs").mkdir(parents=True, exist_ok=True)
    Path(".asv/logs/build-1.log").write_text("built")


def test_earlier_slice_of_another_node_is_resumed(node):
    """What `track` left in results/ is in the tar. --resume-from puts it where `track` looks for it."""
    node.actions["track-core"] = lambda: record(node.commit)
    node.slice("build,tests,core", "--tier", "core")
    assert "fewest rounds" in node.summary
    read = node.folder / "read"
    read.mkdir()
    archive.read(node.tar, read)
    for name in ("results/benchmarks.json", "results/node/machine.json", "logs/build-1.log"):
        assert (read / name).is_file()
    Path("results/node/telemetry/x.jsonl").unlink()
    node.slice("ceilings")
    earlier = node.tar.rename(node.folder / "earlier.tar.xz")
    node.clone("other")
    run.LIBRARY.unlink()
    status, text, ran = node.slice("build,tests,timers", "--resume-from", str(earlier))
    assert status == 0, text
    assert ran == [*["build"] * 3, "timers"] and "3 slices" in node.summary
    assert Path("results/node/machine.json").is_file() and not Path("results/node/telemetry/x.jsonl").exists()
    assert "--resume-from is ignored" in node.slice("timers", "--resume-from", str(earlier))[1]


def test_tar_of_another_project_is_not_resumed(node):
    node.slice("tests")
    node.pack.write_text(with_checksum(json.dumps({**PACK, "root": "f" * 40})))
    node.clone("other")
    status, text, _ = node.slice("tests", "--resume-from", str(node.tar))
    assert status == 2 and "of another project" in text


def test_machine_folder_without_benchmarks_is_no_obstacle(node):
    """asv writes the machine's file first."""
    node.actions["track-core"] = lambda: synthetic.write_json(Path("results/node/machine.json"), {"machine": "node"})
    assert node.slice("core,timers", "--tier", "core")[0] == 0


def test_summary_that_cannot_be_made_costs_no_tar(node, monkeypatch):
    def broken(_):
        raise ValueError("ceilings of format 9: wanted 1")

    monkeypatch.setattr(run.summary, "render", broken)
    status, text, _ = node.slice("ceilings")
    assert status == 0 and "The summary could not be made: ValueError: ceilings of format 9" in text
    assert "could not be made" in node.summary and node.tar.exists()


def test_neither_a_lost_terminal_nor_a_full_disk_stops_a_stage(node):
    class Gone(io.StringIO):
        def write(self, _text):
            raise BrokenPipeError

    (node.folder / "out").mkdir()
    (node.folder / "out" / "node.log").symlink_to("/dev/full")
    command = ["offline", "run", str(node.folder / "out"), "--pack", str(node.pack), "--stages", "ceilings"]
    assert __main__.main(command, Gone(), io.StringIO()) == 0
    assert node.tar.exists()


def test_full_log_does_not_stop_a_stage():
    lines = []
    with run.logging(Path("/dev/full"), lines.append) as on_line:
        on_line("one")
        on_line("two")
    assert lines == ["one", "the log cannot be written any more: [Errno 28] No space left on device", "two"]


def test_full_disk_is_one_line_and_the_tar_before_is_kept(node, monkeypatch):
    node.slice("build")
    before = node.tar.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device", "/out/x")

    monkeypatch.setattr(run.archive, "write", full)
    status, text, _ = node.slice("ceilings")
    assert status == 2 and text.splitlines()[-1].startswith("error: [Errno 28] No space left on device: '/out/x'; free")
    assert node.tar.read_bytes() == before


class Killed(BaseException):
    """What ends a process at once."""


def test_killed_run_leaves_the_tar_of_the_stage_before(node):
    def kill():
        raise Killed

    node.actions["timers"] = kill
    with pytest.raises(Killed):
        node.slice("tests,timers")
    assert "left to do: timers" in node.summary and node.tar.exists()


def terminate():
    os.kill(os.getpid(), signal.SIGTERM)


def test_sigterm_ends_a_slice_with_its_tar(node, monkeypatch):
    """A second one, while the tar is written, costs nothing."""
    write = archive.write

    def terminate_twice():
        monkeypatch.setattr(run.archive, "write", lambda *args: (terminate(), write(*args))[1])
        terminate()

    node.actions["tests"] = terminate_twice
    before = signal.getsignal(signal.SIGTERM)
    status, text, ran = node.slice()
    assert status == TIME_IS_UP and "terminated: what was measured is kept" in text
    assert ran[-1] == "tests" and "left to do: tests" in node.summary and node.tar.exists()
    assert signal.getsignal(signal.SIGTERM) == before


def test_sigterm_before_anything_has_begun(node, monkeypatch):
    monkeypatch.setattr(run.facts, "gather", terminate)
    status, text, _ = node.slice()
    assert status == TIME_IS_UP and "terminated before anything was measured" in text


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--stages", "nonsense"], "there is no 'nonsense'"),
        (["--rounds", "0"], "positive numbers are wanted"),
        (["--together", "0"], "positive numbers are wanted"),
        (["--device", "tpu"], "invalid choice: 'tpu'"),
        (["--minutes", "soon"], "invalid float value"),
    ],
)
def test_bad_options_are_refused(node, arguments, reason):
    status, text, ran = node.slice(None, *arguments)
    assert status == 2 and reason in text and ran == []


def test_two_slices_at_once_are_refused(node):
    with lock.held(Path()):
        os.environ.pop("KV_LOCK_HOLDER")
        status, text, _ = node.slice()
    assert status == 2 and "another run is measuring" in text


def test_without_a_compiler_nothing_can_be_measured(node, monkeypatch):
    monkeypatch.setattr(run, "has_compiler", lambda: False)
    status, text, _ = node.slice()
    assert status == 2 and "no C++ compiler found" in text


@pytest.mark.parametrize(("device", "ran"), [("cuda", "tests/harness/test_a.py"), ("cpu", "tests/kernels/test_b.py")])
def test_tests_of_the_device_and_their_report(node, device, ran):
    files = {"harness/test_a.py": "@pytest.mark.cuda", "kernels/test_b.py": "", "kernels/test_large.py": ""}
    for name, text in files.items():
        path = Path("tests", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def report():
        Path("build").mkdir(exist_ok=True)
        run.JUNIT.write_text(
            '<testsuites><testsuite><testcase classname="tests.test_a" name="b"/>'
            '<testcase classname="tests.test_a" name="x[3]"><failure message="7 wrong&#10;more"/></testcase>'
            '<testcase><skipped message="no GPU"/></testcase></testsuite></testsuites>'
        )

    node.actions["tests"] = report
    assert "tests: 1 passed, 1 failed, 1 skipped" in node.slice("tests", "--device", device)[1]
    assert node.commands["tests"][-1] == ran
    assert "- wrong: test_a::x[3]: 7 wrong" in node.summary and "- skipped: no GPU" in node.summary
    node.actions.clear()  # now they end without a report: that of the last time is gone
    node.statuses["tests"] = -9
    node.facts = dataclasses.replace(NODE, torch="2.12")
    node.slice("tests", "--device", device)
    assert "nothing says that the kernels are right: the tests ended without a report" in node.summary
