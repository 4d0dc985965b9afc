"""The stages of a run on a node. Each is a child process that may be cut off; what it finished is in the state."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from tools import lock
from tools.atomic import replace_text
from tools.environment import first_error_line
from tools.errors import BenchmarkFailed, BuildFailed, NothingMeasured, UsageError
from tools.host import NO_COMPILER, has_compiler
from tools.offline import child, facts, node_tests
from tools.offline.child import Clock
from tools.offline.facts import Facts
from tools.offline.state import Done, State
from tools.run_report import LIMITS

MACHINE = "node"  # the name under which a node records; `unpack` gives the real one
LIBRARY = Path("kernels", "_native", "build-info.json")  # there is a build in place
# Exit statuses of `track` after which a commit is not measured again by itself, in the order of the contract.
_FINAL = (NothingMeasured.exit_code, BuildFailed.exit_code, BenchmarkFailed.exit_code, 0)
_OPTIONS = {  # of the command line, that a stage's result depends on
    "timers": ("bench",),
    "traces": ("bench", "trace_seconds"),
    "core": ("bench", "rounds"),
    "full": ("bench", "rounds"),
}
CRASHES = 6  # of a live stage; one series is given up after three
_KILLED = 128  # and more, or less than 0: a signal ended the process
TIME_IS_UP = 75  # sysexits.h EX_TEMPFAIL: what is left is done by running again
_ASKS_CUDA = "import kernels; print(kernels.cuda_status() or '')"


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
        if name in _TIERS:
            tier, newest_only = _TIERS[name]
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
        return next((code for code in (UsageError.exit_code, *_FINAL) if code in statuses), 0)

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
    command = node_tests.command(sys.executable, report, node_tests.files(Path(), node.device), node.device)
    status = node.child("tests", command)
    found = node_tests.summarise(report, node.collected / "run" / "tests.json")
    if found is not None:
        node.say(f"tests: {found['passed']} passed, {found['failed']} failed, {found['skipped']} skipped")
    node.finish("tests", status)


def _live(name: str, *arguments: str) -> Callable[[Node], None]:
    """Return the stage that runs one of our own measuring steps; its result lies in run/ or traces/."""

    def stage(node: Node) -> None:
        target = node.collected / ("traces" if name == "traces" else f"run/{name}.json")
        target.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "tools", "offline", name, str(target), "--device", node.device]
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
        "tools",
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
    if status not in _FINAL:  # cut off, or it could not begin: the next slice tries again
        node.errors |= {} if status is None else {log: UsageError.exit_code}
        return False
    each = (time.monotonic() - began) / len(commits)
    node.state.finish_commits(tier, commits, Done(status, node.asked(tier)), each)
    return True


_TIERS = {"newest": ("core", True), "core": ("core", False), "full": ("full", False)}
STAGES: dict[str, Callable[[Node], None]] = {
    "build": _build,
    "tests": _tests,
    "ceilings": _live("ceilings"),
    "newest": _measure(*_TIERS["newest"]),
    "timers": _live("timers"),
    "traces": _live("traces", "--seconds", "{seconds}"),
    "core": _measure(*_TIERS["core"]),
    "full": _measure(*_TIERS["full"]),
}


def cuda_status() -> str:
    """Return why the native CUDA kernels cannot run here, "" where they can; asked in a process of its own."""
    done = subprocess.run([sys.executable, "-c", _ASKS_CUDA], capture_output=True, text=True, check=False)
    return (
        done.stdout.strip() if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no reason given"])[-1]
    )
