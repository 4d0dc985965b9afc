"""A slice: which stages run, in which order, when it ends, what it leaves behind. The stages' commands are faked."""

import argparse
import dataclasses
import io
import json
import os
import signal
import time
from pathlib import Path

import pytest

from kernel_velocity import __main__, lock
from kernel_velocity.errors import UsageError
from kernel_velocity.offline import archive, child, collect, stages, time_slice
from kernel_velocity.offline.child import Clock
from tests import synthetic
from tests.offline.test_facts import NODE

PACK = {"root": "a" * 40, "head": "b" * 40, "commits": ["1" * 40, "2" * 40, "3" * 40]}


@pytest.fixture
def node(tmp_path, monkeypatch):
    """A clone's folder, a pack's manifest, and children that only note that they ran."""
    clone = tmp_path / "work" / "repository"
    (clone / "kernels" / "_native").mkdir(parents=True)
    (clone / "kernels" / "_native" / "build-info.json").write_text("{}")
    (tmp_path / "manifest.json").write_text(json.dumps(PACK))
    monkeypatch.chdir(clone)
    fake = FakeNode(tmp_path, monkeypatch)
    monkeypatch.delenv("KV_LOCK_HOLDER", raising=False)
    monkeypatch.setattr(time_slice.facts, "gather", fake.gather)
    monkeypatch.setattr(stages, "cuda_status", lambda: "")
    monkeypatch.setattr(stages, "files", lambda *_: ["tests/x.py"])
    return fake


class FakeNode:
    def __init__(self, folder, monkeypatch):
        self.folder, self.ran, self.statuses, self.actions = folder, [], {}, {}
        self.facts, self.slices, self.commands, self.environments = NODE, 0, {}, {}
        monkeypatch.setattr(child, "run", self._child)

    def gather(self):
        """The facts; each slice is another process, whose number the lock leaves in the environment."""
        self.slices += 1
        os.environ["KV_LOCK_HOLDER"] = str(self.slices)
        return self.facts

    def _child(self, command, **options):
        name = Path(options["log"]).stem
        self.commands[name], self.environments[name] = command, options["environ"]
        commits = command[command.index("--range") + 1].split() if "--range" in command else []
        self.ran.append(" ".join([name, *(sha[0] for sha in commits)]))
        options["log"].parent.mkdir(parents=True, exist_ok=True)
        options["log"].write_text("fatal error: no")
        if name in self.actions:
            self.actions[name]()
        status = self.statuses.get(name, 0)
        return status.pop(0) if isinstance(status, list) else status

    def slice(self, *arguments):
        """Run a slice; return its status and what it printed."""
        out, err = io.StringIO(), io.StringIO()
        command = ["offline", "time_slice", str(self.folder / "out"), "--manifest", str(self.folder / "manifest.json")]
        status = __main__.main([*command, *arguments], out, err)
        return status, out.getvalue() + err.getvalue()

    @property
    def summary(self):
        return (self.folder / "out" / "summary.md").read_text()


def test_everything_in_order_of_worth(node):
    status, said = node.slice()
    assert status == 0, said
    assert node.ran == [
        *["build"] * 3, "tests", "ceilings", "track-core 1 2 3", "timers", "traces", "track-full 1 2 3"
    ]  # fmt: skip
    assert "left to do: nothing" in node.summary
    assert (node.folder / "out" / archive.NAME).exists()
    assert "cuda of NVIDIA H200" in (node.folder / "out" / "node.log").read_text()


def test_a_second_slice_has_nothing_to_do(node):
    node.slice()
    node.ran.clear()
    assert node.slice()[0] == 0
    assert node.ran == [] and "2 slices" in node.summary


def test_newest_commits_first_and_older_ones_after_the_timers(node):
    node.slice("--together", "2", "--tier", "core", "--stages", "newest,timers,core")
    assert node.ran == ["track-core 1 2", "timers", "track-core 3"]


def test_a_stage_that_is_cut_off_is_run_again(node):
    node.statuses["traces"] = None
    status, said = node.slice("--stages", "ceilings,traces")
    assert status == time_slice.TIME_IS_UP and "run the same command again" in said
    assert "left to do: traces" in node.summary
    node.ran.clear()
    node.statuses.clear()
    assert node.slice("--stages", "ceilings,traces")[0] == 0
    assert node.ran == ["traces"]


def test_other_options_run_what_depends_on_them_again(node):
    node.slice("--stages", "tests,traces,core", "--tier", "core")
    node.ran.clear()
    node.slice("--stages", "tests,traces,core", "--tier", "core", "--rounds", "3", "--trace-seconds", "2")
    assert node.ran == ["traces", "track-core 1 2 3"]


def test_a_setting_of_the_measurement_measures_again(node, monkeypatch):
    node.slice("--stages", "core", "--tier", "core")
    monkeypatch.setenv("KV_RULE", "fixed_time")
    node.ran.clear()
    node.slice("--stages", "core", "--tier", "core")
    assert node.ran == ["track-core 1 2 3"]


@pytest.mark.parametrize(
    ("name", "returned", "status"),
    [("tests", 1, 20), ("build", 1, 21), ("track-core", 20, 20), ("track-core", 22, 22), ("traces", 1, 20)],
)
def test_a_stage_that_fails_costs_a_line_and_a_status_never_the_others(node, name, returned, status):
    node.statuses[name] = returned
    found, said = node.slice("--tier", "core")
    assert found == status, said
    assert node.ran[-1] == "traces" and f"{name}: ended with status {returned}" in said
    if name != "track-core":
        assert f"- failed: stage {name}" in node.summary


def test_track_that_could_not_begin_is_an_error_and_tried_again_by_the_next_start(node):
    """Not "time is up": a batch job would be requeued for ever."""
    node.statuses["track-core"] = 2
    status, said = node.slice("--stages", "core,timers")
    assert status == 2, said
    assert "time is up" not in said and "- failed: stage track-core" in node.summary
    node.statuses.clear()
    node.ran.clear()
    assert node.slice("--stages", "core,timers")[0] == 0
    assert node.ran == ["track-core 1 2 3"]


def test_work_that_is_left_comes_before_what_failed(node):
    node.statuses |= {"tests": 1, "traces": None}
    assert node.slice("--stages", "tests,traces")[0] == time_slice.TIME_IS_UP
    node.statuses["traces"] = 0
    assert node.slice("--stages", "tests,traces")[0] == 20


def test_a_failure_under_other_options_is_over(node):
    node.statuses |= {"traces": 20, "track-core": 20}
    assert node.slice("--stages", "traces,core", "--tier", "core", "--bench", "x")[0] == 20
    assert node.slice("--stages", "ceilings")[0] == 0  # what was asked for now is fine
    node.statuses.clear()
    assert node.slice("--stages", "traces,core", "--tier", "core")[0] == 0
    assert "- failed" not in node.summary


def test_a_short_slice_begins_a_commit_all_the_same(node):
    """Else one that is shorter than half a commit takes would be started for ever."""
    node.statuses["track-full"] = None
    status, _ = node.slice("--stages", "full", "--minutes", "2", "--together", "2")
    assert (status, node.ran) == (time_slice.TIME_IS_UP, ["track-full 1"])


def test_a_crash_of_the_traces_is_gone_on_from_in_the_same_slice(node):
    node.statuses["traces"] = [-11, 139, 20]
    assert node.slice("--stages", "traces")[0] == 20
    assert node.ran == ["traces"] * 3
    node.statuses["traces"] = [-11] * 99
    node.slice("--stages", "traces", "--trace-seconds", "2")
    assert len(node.ran) == 3 + 1 + stages.CRASHES


def test_traces_of_another_request_are_not_kept(node):
    node.slice("--stages", "traces")
    trace = node.folder / "work" / "collected" / "traces" / "k-cpu.json"
    trace.write_text("{}")
    node.slice("--stages", "traces")
    assert trace.exists() and "1 file" in node.summary
    node.slice("--stages", "traces", "--trace-seconds", "2")
    assert not trace.exists()


def test_another_machine_is_refused(node):
    node.slice("--stages", "tests")
    node.facts = dataclasses.replace(NODE, gpus=("NVIDIA H100",))
    status, said = node.slice("--stages", "timers")
    assert status == 2 and "holds what NVIDIA H200, Xeon measured, this is NVIDIA H100, Xeon" in said
    assert node.ran == ["tests"]


def test_another_torch_or_compiler_measures_again(node):
    node.slice("--stages", "tests,core", "--tier", "core")
    node.facts = dataclasses.replace(NODE, toolchain="c++ 14; Build cuda_13.0")
    node.ran.clear()
    node.slice("--stages", "tests,core", "--tier", "core")
    assert node.ran == ["tests", "track-core 1 2 3"]


def test_notes_of_an_earlier_slice_are_gone_where_they_no_longer_hold(node):
    node.facts = dataclasses.replace(NODE, toolchain="c++ 13; no nvcc")
    node.slice("--stages", "build")
    assert "note: no nvcc" in node.summary
    node.facts = NODE
    node.slice("--stages", "build")
    assert "no nvcc" not in node.summary


def test_what_was_asked_for_reaches_the_stages(node):
    node.facts = dataclasses.replace(NODE, capability=(12, 0))
    node.slice("--bench", "matmul", "--rounds", "3")
    for name in ("track-core", "timers", "traces"):
        command = node.commands[name]
        assert command[command.index("--bench") + 1] == "matmul"
    assert "--bench" not in node.commands["ceilings"]
    assert node.commands["track-core"][node.commands["track-core"].index("--rounds") + 1] == "3"
    assert "--no-site" in node.commands["track-core"]
    for environment in node.environments.values():
        assert environment["KV_CUDA_ARCHITECTURES"] == "sm_120"
        assert environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] == "1"


def test_results_telemetry_and_logs_are_in_the_tar_and_go_on_elsewhere(node, tmp_path):
    """What `track` leaves in results/ is in the tar; --resume-from puts it where `track` looks for it."""

    def record():
        synthetic.write_json(Path("results/benchmarks.json"), synthetic.benchmarks_json())
        synthetic.write_json(Path("results/node/machine.json"), synthetic.machine_json("node"))
        Path("results/node/telemetry").mkdir()
        Path("results/node/telemetry/x.jsonl").write_text("")
        Path(".asv/logs").mkdir(parents=True, exist_ok=True)
        Path(".asv/logs/build-1.log").write_text("built")

    node.actions["track-core"] = record
    node.slice("--stages", "core", "--tier", "core")
    read = make(node.folder / "read")
    archive.read(node.folder / "out" / archive.NAME, read)
    wanted = [
        "results/benchmarks.json",
        "results/node/machine.json",
        "results/node/telemetry/x.jsonl",
        "logs/build-1.log",
    ]
    assert [name for name in wanted if not (read / name).is_file()] == []
    Path("results/node/telemetry/x.jsonl").unlink()
    node.slice("--stages", "timers")
    other = tmp_path / "work2" / "repository"
    other.mkdir(parents=True)
    os.chdir(other)
    status, said = node.slice("--stages", "timers", "--resume-from", str(node.folder / "out" / archive.NAME))
    assert status == 0, said
    assert Path("results/node/machine.json").is_file() and not Path("results/node/telemetry/x.jsonl").exists()
    _, said = node.slice("--stages", "timers", "--resume-from", str(node.folder / "out" / archive.NAME))
    assert "--resume-from is passed over" in said


def test_a_machine_folder_without_benchmarks_is_no_obstacle(node):
    """asv writes the machine's file first."""
    node.actions["track-core"] = lambda: synthetic.write_json(Path("results/node/machine.json"), {"machine": "node"})
    status, said = node.slice("--stages", "core,timers", "--tier", "core")
    assert status == 0, said


def test_a_summary_that_cannot_be_made_costs_no_tar(node, monkeypatch):
    def broken(_):
        raise ValueError("ceilings of format 9: wanted 1")

    monkeypatch.setattr(collect.summary, "render", broken)
    status, said = node.slice("--stages", "ceilings")
    assert status == 0 and "The summary could not be made: ValueError: ceilings of format 9" in said
    assert "could not be made" in node.summary and (node.folder / "out" / archive.NAME).exists()


def test_a_terminal_that_went_away_stops_nothing(node):
    class Gone(io.StringIO):
        def write(self, _text):
            raise BrokenPipeError

    command = ["offline", "time_slice", str(node.folder / "out"), "--manifest", str(node.folder / "manifest.json")]
    assert __main__.main([*command, "--stages", "ceilings"], Gone(), io.StringIO()) == 0
    assert (node.folder / "out" / archive.NAME).exists()


def test_a_log_on_a_full_disk_stops_nothing(node):
    (node.folder / "out").mkdir()
    (node.folder / "out" / "node.log").symlink_to("/dev/full")
    assert node.slice("--stages", "ceilings")[0] == 0


def test_the_set_up_counts(node):
    status, _ = node.slice("--minutes", "10", "--began", str(time.time() - 590))
    assert status == time_slice.TIME_IS_UP and node.ran == []


def test_sigterm_before_anything_has_begun(node, monkeypatch):
    monkeypatch.setattr(time_slice.facts, "gather", lambda: os.kill(os.getpid(), signal.SIGTERM))
    status, said = node.slice()
    assert status == time_slice.TIME_IS_UP and "was told to end" in said


def test_no_time_is_left(node):
    status, _ = node.slice("--minutes", "0.5")
    assert status == time_slice.TIME_IS_UP and node.ran == []
    assert (node.folder / "out" / archive.NAME).exists()


def test_sigterm_ends_a_slice_with_its_tar(node):
    node.actions["tests"] = lambda: os.kill(os.getpid(), signal.SIGTERM)
    before = signal.getsignal(signal.SIGTERM)
    status, said = node.slice()
    assert status == time_slice.TIME_IS_UP and "told to end: what was measured is kept" in said
    assert node.ran[-1] == "tests" and "left to do: tests" in node.summary
    assert signal.getsignal(signal.SIGTERM) == before
    archive.read(node.folder / "out" / archive.NAME, make(node.folder / "read"))


def make(folder):
    folder.mkdir()
    return folder


def test_a_full_disk_is_one_line_and_the_tar_before_is_kept(node, monkeypatch):
    node.slice("--stages", "build")
    tar = (node.folder / "out" / archive.NAME).read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device", "/out/x")

    monkeypatch.setattr(collect.archive, "write", full)
    status, said = node.slice("--stages", "ceilings")
    assert status == 2
    cure = "free some space and start again: recorded results are kept"
    assert said.splitlines()[-1] == f"error: [Errno 28] No space left on device: '/out/x'; {cure}"
    assert (node.folder / "out" / archive.NAME).read_bytes() == tar


def test_an_earlier_slice_of_another_node_is_gone_on_from(node, tmp_path):
    node.slice("--stages", "tests")
    earlier = tmp_path / "earlier.tar.xz"
    (node.folder / "out" / archive.NAME).rename(earlier)
    other = tmp_path / "work2" / "repository"
    other.mkdir(parents=True)
    os.chdir(other)
    node.ran.clear()
    status, said = node.slice("--stages", "tests,ceilings", "--resume-from", str(earlier))
    assert status == 0, said
    assert node.ran == ["ceilings"] and "2 slices" in node.summary


def test_a_tar_of_another_project_is_not_gone_on_from(node, tmp_path):
    node.slice("--stages", "tests")
    (tmp_path / "manifest.json").write_text(json.dumps({**PACK, "root": "f" * 40}))
    other = tmp_path / "work2" / "repository"
    other.mkdir(parents=True)
    os.chdir(other)
    status, said = node.slice("--stages", "tests", "--resume-from", str(node.folder / "out" / archive.NAME))
    assert status == 2 and "of another project" in said


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
def test_bad_options(node, arguments, reason):
    status, said = node.slice(*arguments)
    assert status == 2 and reason in said and node.ran == []


def test_two_slices_at_once(node):
    with lock.held(Path()):
        os.environ.pop("KV_LOCK_HOLDER")
        status, said = node.slice()
    assert status == 2 and "another run is measuring" in said


def test_without_a_compiler_nothing_can_be_measured(node, monkeypatch):
    monkeypatch.setattr(stages, "has_compiler", lambda: False)
    status, said = node.slice()
    assert status == 2 and "no C++ compiler found" in said


def test_kernels_that_cannot_run_here_are_noted(node, monkeypatch):
    monkeypatch.setattr(stages, "cuda_status", lambda: "driver too old: it supports CUDA 12.2")
    _, said = node.slice("--stages", "build")
    assert "note: the native CUDA kernels are n/a: driver too old: it supports CUDA 12.2" in said
    assert "driver too old" in node.summary


def with_left(seconds, *, measured=True, **known):
    args, state = argparse.Namespace(together=3), argparse.Namespace(seconds=known)
    clock = Clock(None if seconds is None else time.monotonic() + seconds)
    return stages._affordable(argparse.Namespace(args=args, state=state, clock=clock, measured_any=measured), "core")


def test_as_many_commits_as_there_is_time_for():
    assert with_left(None) == 3
    assert with_left(10_000) == 3
    assert with_left(310) == 2  # the limit of the tier, 150 s each, as long as nothing is known
    assert with_left(310, core=20) == 3
    assert with_left(80) == 1  # half of it is worth beginning: what is measured is kept
    assert with_left(60) == 0
    assert with_left(60, measured=False) == 1


def test_a_manifest_that_is_none(node):
    (node.folder / "manifest.json").write_text("no")
    status, said = node.slice()
    assert status == 2 and "no manifest of a pack" in said
    with pytest.raises(UsageError):
        time_slice._manifest(node.folder / "absent.json")
