"""One slice of a run on a node: what was asked for, what the node is, what is done, and how it ended."""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from kernel_velocity import lock
from kernel_velocity.errors import BenchmarkFailed, BuildFailed, NothingMeasured, UsageError
from kernel_velocity.offline import child, facts
from kernel_velocity.offline.child import Clock
from kernel_velocity.offline.facts import Facts
from kernel_velocity.offline.state import Done, State
from kernel_velocity.runner.host import NO_COMPILER, has_compiler

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
