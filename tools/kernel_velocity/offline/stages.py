"""The stages of a run on a node. Each is a child process that may be cut off; what it finished is in the state.

What a run on a node has done already: one small file, so that a slice goes on where the last one was cut off.

One slice of a run on a node: what was asked for, what the node is, what is done, and how it ended.

The tests that a node runs before anything is timed: which files, and what their report says.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

from kernel_velocity import lock
from kernel_velocity.errors import BenchmarkFailed, BuildFailed, NothingMeasured, UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.offline import child, facts
from kernel_velocity.offline.child import Clock
from kernel_velocity.offline.facts import Facts
from kernel_velocity.runner.environment import first_error_line
from kernel_velocity.runner.host import NO_COMPILER, has_compiler
from kernel_velocity.runner.report import LIMITS

MACHINE = "node"  # the name under which a node records; `unpack` gives the real one
CRASHES = 6  # of a live stage; one series is given up after three
_KILLED = 128  # and more, or less than 0: a signal ended the process

NAME = "state.json"

LIBRARY = Path("kernels", "_native", "build-info.json")  # there is a build in place
# Stages that measure the recorded series: the tier, and whether of the newest commits only
TIERS = {"newest": ("core", True), "core": ("core", False), "full": ("full", False)}
# Exit statuses of `track` after which a commit is not measured again by itself, in the order of the contract.
FINAL = (NothingMeasured.exit_code, BuildFailed.exit_code, BenchmarkFailed.exit_code, 0)
TIME_IS_UP = 75  # sysexits.h EX_TEMPFAIL: what is left is done by running again
_OPTIONS = {  # of the command line, that a stage's result depends on
    "timers": ("bench",),
    "traces": ("bench", "trace_seconds"),
    "core": ("bench", "rounds"),
    "full": ("bench", "rounds"),
}
_ASKS_CUDA = "import kernels; print(kernels.cuda_status() or '')"

_CUDA = "mark.cuda"
# On a node without a GPU: the kernels as they are compiled for its processor; not the build, which takes minutes.
_NOT_ON_A_NODE = ("test_build.py", "test_large.py")


def _build(node: Node) -> None:
    """Build the suite's own commit in place: the tests, the traces and the timers use it."""
    steps = (
        ["cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"],
        ["cmake", "--build", "build"],
        ["cmake", "--install", "build", "--prefix", "."],
    )
    for step in steps:
        status = node.child("build", step)
        if status != 0:
            if status is not None:
                log = (node.collected / "logs" / "build.log").read_text(encoding="utf-8")
                node.note(f"the kernels do not build here: {first_error_line(log)}")
            break
    node.finish("build", status)
    if status == 0:
        node.ask_cuda()


def _tests(node: Node) -> None:
    """Run the tests: a kernel that is wrong has no speed."""
    report = Path("build", "tests.xml")
    report.unlink(missing_ok=True)
    command = pytest_command(sys.executable, report, files(Path(), node.device), node.device)
    status = node.child("tests", command)
    found = summarise(report, node.collected / "run" / "tests.json")
    if found is not None:
        node.say(f"tests: {found['passed']} passed, {found['failed']} failed, {found['skipped']} skipped")
    node.finish("tests", status)


def _live(name: str, *arguments: str) -> Callable[[Node], None]:
    """Return the stage that runs one of our own measuring steps; its result lies in run/ or traces/."""

    def stage(node: Node) -> None:
        target = node.collected / ("traces" if name == "traces" else f"run/{name}.json")
        target.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "kernel_velocity", "offline", name, str(target), "--device", node.device]
        command += [text.format(seconds=node.args.trace_seconds) for text in arguments]
        if node.args.bench and name != "ceilings":
            command += ["--bench", node.args.bench]
        if name == "traces":
            _forget_others(target, node.asked(name))
        status = node.child(name, command)
        for _ in range(CRASHES):
            if status is None or 0 <= status < _KILLED:
                break
            status = node.child(name, command)  # a series took its process with it; in the end it is left out
        node.finish(name, status)

    return stage


def _forget_others(folder: Path, asked: str) -> None:
    """Empty the folder of traces where they are of another request: they are resumed file by file."""
    label = folder / "asked.txt"
    if not label.exists() or label.read_text(encoding="utf-8") != asked:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        replace_text(label, asked)


def _measure(tier: str, newest_only: bool) -> Callable[[Node], None]:
    """Return the stage that measures a tier through asv: newest commits first, as many at a time as time allows."""

    def stage(node: Node) -> None:
        while left := node.unmeasured(tier, newest_only):
            chunk = tuple(left[: _affordable(node, tier)])
            if not chunk:
                node.cut_off = True
            if not chunk or not _measure_chunk(node, tier, chunk):
                return

    return stage


def _affordable(node: Node, tier: str) -> int:
    """Return how many commits fit into what is left of the slice.

    One is begun with half of its time, and in any case where this slice has measured nothing: what is measured is kept.
    """
    if node.clock.left is None:
        return int(node.args.together)
    fitting = node.clock.left / node.state.seconds.get(tier, LIMITS[tier])
    return int(min(node.args.together, max(fitting, 1 if fitting >= 0.5 or not node.measured_any else 0)))


def _measure_chunk(node: Node, tier: str, commits: tuple[str, ...]) -> bool:
    """Measure commits, their rounds interleaved; return whether the next ones may begin."""
    began = time.monotonic()
    command = [
        sys.executable,
        "-m",
        "kernel_velocity",
        "track",
        "--no-site",
        "--no-ceilings",
        "--machine",
        MACHINE,
        "--tier",
        tier,
    ]
    command += ["--range", " ".join(commits), "--rounds", str(node.args.rounds)]
    if node.args.bench:
        command += ["--bench", node.args.bench]
    log = f"track-{tier}"
    node.measured_any = True
    status = node.child(log, command)
    if status not in FINAL:  # cut off, or it could not begin: the next slice tries again
        node.errors |= {} if status is None else {log: UsageError.exit_code}
        return False
    each = (time.monotonic() - began) / len(commits)
    node.state.finish_commits(tier, commits, Done(status, node.asked(tier)), each)
    return True


STAGES: dict[str, Callable[[Node], None]] = {
    "build": _build,
    "tests": _tests,
    "ceilings": _live("ceilings"),
    "newest": _measure(*TIERS["newest"]),
    "timers": _live("timers"),
    "traces": _live("traces", "--seconds", "{seconds}"),
    "core": _measure(*TIERS["core"]),
    "full": _measure(*TIERS["full"]),
}


@dataclass(frozen=True)
class Done:
    """Something that ended: its exit status, and what was asked for when it ran; asked otherwise, it runs again."""

    status: int
    asked: str


@dataclass(kw_only=True)
class State:
    """What was finished in all slices so far."""

    path: Path
    stages: dict[str, Done] = field(default_factory=dict)
    commits: dict[str, dict[str, Done]] = field(default_factory=dict)  # tier -> commit
    seconds: dict[str, float] = field(default_factory=dict)  # tier -> s that one commit took
    slices: int = 0  # begun
    machine: str | None = None  # whose results these are
    notes: list[str] = field(default_factory=list)  # what a reader of the results must know

    def save(self) -> None:
        """Write the file."""
        data = {key: value for key, value in asdict(self).items() if key != "path"}
        replace_text(self.path, json.dumps(data, indent=1) + "\n")

    def finish(self, stage: str, done: Done) -> None:
        """Note that a stage need not be run again."""
        self.stages[stage] = done
        self.save()

    def finish_commits(self, tier: str, commits: Iterable[str], done: Done, seconds: float) -> None:
        """Note that these commits are measured, and what each of them cost."""
        self.commits.setdefault(tier, {}).update(dict.fromkeys(commits, done))
        self.seconds[tier] = seconds
        self.save()

    def has(self, stage: str, asked: str) -> bool:
        """Return whether a stage has ended, as it is asked for now."""
        return stage in self.stages and self.stages[stage].asked == asked

    def has_commit(self, tier: str, commit: str, asked: str) -> bool:
        """Return whether a commit is measured, as it is asked for now."""
        done = self.commits.get(tier, {}).get(commit)
        return done is not None and done.asked == asked


def load(folder: Path) -> State:
    """Return the state in a folder; a fresh one where there is none, or none that can be read: stages run again."""
    path = folder / NAME
    try:
        return _from(path, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return State(path=path)


def _from(path: Path, data: dict[str, Any]) -> State:
    return State(
        path=path,
        stages={name: Done(**done) for name, done in data["stages"].items()},
        commits={
            tier: {sha: Done(**done) for sha, done in commits.items()} for tier, commits in data["commits"].items()
        },
        seconds=data["seconds"],
        slices=data["slices"],
        machine=data["machine"],
        notes=data["notes"],
    )


@dataclass(kw_only=True)
class Node:
    """One slice of a run: what was asked for, what the node is, what is done. The current folder is the clone."""

    args: argparse.Namespace
    pack: Mapping[str, Any]
    facts: Facts
    device: str
    state: State
    clock: Clock
    collected: Path  # what goes into the tar
    chosen: tuple[str, ...]  # stages that were asked for
    out: TextIO
    cut_off: bool = False  # the clock or a signal ended this slice
    errors: dict[str, int] = field(default_factory=dict)  # measuring that could not begin: log -> exit status
    measured_any: bool = False  # by this slice
    _began: float = field(default_factory=time.monotonic)

    @property
    def commits(self) -> tuple[str, ...]:
        """The commits to measure, newest first."""
        return tuple(self.pack["commits"])

    def elapsed(self) -> float:
        """Return the seconds of this slice so far."""
        return time.monotonic() - self._began

    def say(self, line: str) -> None:
        """Print a line and keep it in OUT/node.log."""
        # Neither a terminal that went away nor a full disk may stop a stage whose output this is.
        with contextlib.suppress(OSError):
            print(line, file=self.out, flush=True)
        with contextlib.suppress(OSError), (self.args.out / "node.log").open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")

    def introduce(self) -> None:
        """Say what the node is, and what it lacks.

        Raises:
            UsageError: nothing can be measured here.
        """
        what = ", ".join(self.facts.gpus) or self.facts.processor
        self.say(
            f"slice {self.state.slices}: {self.device} of {what}; torch {self.facts.torch}, {self.facts.toolchain}"
        )
        if not has_compiler():
            raise UsageError(NO_COMPILER)
        self.state.notes.clear()  # those of an earlier slice are found again where they still hold
        for line in facts.notes(self.facts, self.device):
            self.note(line)
        if LIBRARY.exists():
            self.ask_cuda()

    def ask_cuda(self) -> None:
        """Note why the native CUDA kernels that were built cannot run, where they cannot."""
        if self.device == "cuda" and (why := cuda_status()):
            self.note(f"the native CUDA kernels are n/a: {why}")

    def note(self, line: str) -> None:
        """Say what a reader of the results must know, and keep it for the summary."""
        if line not in self.state.notes:
            self.state.notes.append(line)
            self.state.save()
        self.say(f"note: {line}")

    def asked(self, name: str) -> str:
        """Return what a stage's result depends on: with other options it is run again."""
        options = [name for name in _OPTIONS.get(name, ()) if getattr(self.args, name) is not None]
        settings = [f"{key}={value}" for key, value in sorted(os.environ.items()) if key.startswith("KV_")]
        settings = [text for text in settings if not text.startswith(lock.HOLDER)]  # a process number: never the same
        chosen = [f"{option}={getattr(self.args, option)}" for option in options]
        host = [self.device, f"torch={self.facts.torch}", self.facts.toolchain]
        return "; ".join([self.pack["head"][:12], *host, *chosen, *settings])

    def is_done(self, name: str) -> bool:
        """Return whether a stage has nothing left to do."""
        if name in TIERS:
            tier, newest_only = TIERS[name]
            return not self.unmeasured(tier, newest_only)
        return self.state.has(name, self.asked(name)) and (name != "build" or LIBRARY.exists())

    def unmeasured(self, tier: str, newest_only: bool) -> list[str]:
        """Return the commits that a tier has left, newest first."""
        wanted = self.commits[: self.args.together] if newest_only else self.commits
        return [commit for commit in wanted if not self.state.has_commit(tier, commit, self.asked(tier))]

    def status(self) -> int:
        """Return the exit status: TIME_IS_UP where the clock ended the slice, else the contract's."""
        if self.cut_off:
            return TIME_IS_UP
        statuses = {*self.errors.values()}
        for tier, commits in self.state.commits.items():
            statuses |= {done.status for done in commits.values() if done.asked == self.asked(tier)}
        for name in self.failed():
            statuses.add(BuildFailed.exit_code if name == "build" else BenchmarkFailed.exit_code)
        return next((code for code in (UsageError.exit_code, *FINAL) if code in statuses), 0)

    def failed(self) -> tuple[str, ...]:
        """Return the stages that ended with a failure."""
        stages = self.state.stages.items()
        ended = [name for name, done in stages if done.status != 0 and done.asked == self.asked(name)]
        return (*ended, *self.errors)

    def child(self, name: str, command: list[str]) -> int | None:
        """Run a stage's command until the slice ends; return its status, None where it was cut off."""
        log = self.collected / "logs" / f"{name}.log"
        # Plugins that happen to lie beside torch are not ours to load.
        ours = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **facts.settings(self.facts, self.device)}
        environ = {**os.environ, **ours}
        left = self.clock.left
        status = child.run(
            command,
            cwd=Path(),
            environ=environ,
            log=log,
            echo=self.say,
            seconds=None if left is None else max(left, 1.0),
        )
        if status is None:
            self.cut_off = True
            self.say(f"{name}: cut off, time is up")
        elif status != 0:
            self.say(f"{name}: ended with status {status} (log: logs/{log.name})")
        return status

    def finish(self, name: str, status: int | None) -> None:
        """Note how a stage ended; one that was cut off is run again."""
        if status is not None:
            self.state.finish(name, Done(status, self.asked(name)))


def cuda_status() -> str:
    """Return why the native CUDA kernels cannot run here, "" where they can; asked in a process of its own."""
    done = subprocess.run([sys.executable, "-c", _ASKS_CUDA], capture_output=True, text=True, check=False)
    return (
        done.stdout.strip() if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    )


def files(root: Path, device: str) -> list[str]:
    """Return the test files to run: every one with CUDA tests, or those of the kernels on a CPU."""
    if device == "cuda":
        found = [path for path in sorted((root / "tests").rglob("test_*.py")) if _CUDA in path.read_text("utf-8")]
    else:
        found = [
            path for path in sorted((root / "tests" / "kernels").glob("test_*.py")) if path.name not in _NOT_ON_A_NODE
        ]
    return [str(path.relative_to(root)) for path in found]


def pytest_command(python: str, report: Path, names: Sequence[str], device: str) -> list[str]:
    """Return pytest's command line; it writes its report as JUnit XML."""
    chosen = "cuda" if device == "cuda" else "not cuda and not slow"
    options = ["-q", "-m", chosen, "-p", "no:cacheprovider", "-p", "pytest_timeout", f"--junitxml={report}"]
    return [python, "-m", "pytest", *options, *names]


def summarise(report: Path, to: Path) -> dict[str, object] | None:
    """Write pytest's report as JSON: counts, and the first line of every failure; return it.

    Where pytest wrote none, or was killed while it wrote, an earlier one is removed too, and None returned.
    """
    to.unlink(missing_ok=True)
    try:
        cases = list(ET.parse(report).getroot().iter("testcase"))
    except (OSError, ET.ParseError):
        return None
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    failures, skips = [], set()
    for case in cases:
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        skipped = case.find("skipped")
        if bad is not None:
            counts["failed"] += 1
            failures.append([name, (bad.get("message") or "no message").splitlines()[0][:300]])
        elif skipped is not None:
            counts["skipped"] += 1
            skips.add(skipped.get("message") or "no reason")
        else:
            counts["passed"] += 1
    found: dict[str, object] = {**counts, "failures": failures, "reasons": sorted(skips)}
    replace_text(to, json.dumps(found, indent=1) + "\n")
    return found
