"""Running asv and reading what it prints: how far it is, and why a benchmark has no value.

asv stores neither the output nor the exit status of a benchmark. A round that raises writes its own line
(`results/failures.py`); a process that crashed or ran past its timeout cannot, and is only in asv's output.

What asv needs before it measures: a name for the machine, and our environment.
"""

from __future__ import annotations

import ast
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from asv import util
from asv.config import Config
from asv.environment import EnvironmentUnavailable, get_environments
from asv.machine import Machine, MachineCollection

from kernel_velocity.errors import UsageError
from kernel_velocity.runner.environment import HostTorch

PATIENCE = 5.0  # s; asv, interrupted, ends its children and itself in well under a second
_COMMIT = re.compile(
    r"^\[ *(?P<percent>[\d.]+)%\].* For \S+ commit (?P<commit>[0-9a-f]{8})[^(]*"
    r"(?:\(round (?P<round>\d+)/(?P<rounds>\d+)\))?"
)
_BENCHMARK = re.compile(r"^\[ *[\d.]+%\] ·+ (?P<name>\w+\.\w+\.\w+)(?: |$)")
_PARAMETERS = re.compile(r"^[\[\]\d.%· ]*For parameters: (?P<params>.+)$")
_TIMED_OUT = re.compile(r"asv: benchmark timed out \(timeout (?P<limit>[\d.]+)s\)")
_SKIPPED = re.compile(r"asv: skipped: \w+\((?P<quote>['\"])(?P<why>.*)(?P=quote)\)")
_CRASHED = re.compile(r"Fatal Python error: (?P<what>.+)")

# Of A/B runs and of sessions of identical code while they measure. Named here and not imported from them: a node that
# only measures has no scipy.
MEASURING_FOLDERS = ("kv-ab", "kv-sessions")
# Folders of results/ that are no machine's: those, findings, recorded sessions, the journals of nights.
OWN_FOLDERS = frozenset({*MEASURING_FOLDERS, "findings", "sessions", "journals"})


@dataclass(frozen=True, kw_only=True)
class Step:
    """asv turned to a commit, in a round."""

    percent: float
    commit: str  # 8 digits
    round: int
    rounds: int
    time: float  # Unix time, s


@dataclass(frozen=True, kw_only=True)
class Death:
    """A measuring process that ended without saying why."""

    commit: str  # 8 digits
    benchmark: str
    params: tuple[str, ...]
    what: str


@dataclass(kw_only=True)
class Reader:
    """Reads asv's output line by line."""

    steps: list[Step] = field(default_factory=list)
    deaths: list[Death] = field(default_factory=list)
    skips: dict[tuple[str, str, tuple[str, ...]], str] = field(default_factory=dict)  # (commit, benchmark, params): why
    _benchmark: str = ""
    _params: tuple[str, ...] = ()

    def read(self, line: str, now: float) -> Step | None:
        """Take a line, printed at Unix time `now`; return the step that it announces."""
        if found := _COMMIT.match(line):
            step = Step(
                percent=float(found["percent"]),
                commit=found["commit"],
                round=int(found["round"] or 1),
                rounds=int(found["rounds"] or 1),
                time=now,
            )
            self.steps.append(step)
            return step
        if found := _PARAMETERS.match(line):
            self._params = tuple(ast.literal_eval(f"({found['params']},)"))
        elif found := _BENCHMARK.match(line):
            self._benchmark, self._params = found["name"], ()
        elif found := _SKIPPED.search(line):
            self.skips[self.steps[-1].commit if self.steps else "", self._benchmark, self._params] = found["why"]
        elif found := _TIMED_OUT.search(line):
            self._died(f"ran past its timeout of {float(found['limit']):g} s")
        elif found := _CRASHED.search(line):
            self._died(f"its process crashed: {found['what'].strip()}")
        return None

    def _died(self, what: str) -> None:
        if self.steps and self._params:
            death = Death(commit=self.steps[-1].commit, benchmark=self._benchmark, params=self._params, what=what)
            self.deaths.append(death)


def run_asv(
    args: Iterable[str], *, root: Path, environment: Mapping[str, str], log: Path, on_line: Callable[[str], None]
) -> int:
    """Run asv in a folder; every line goes to the log and to `on_line`. Return the exit status.

    Where this is interrupted, asv has ended when the exception leaves: it writes nothing afterwards.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "asv", *args]
    with (
        log.open("a", encoding="utf-8") as stream,
        subprocess.Popen(
            command,
            cwd=root,
            env={**environment, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        stream.write(f"{time.strftime('%F %T')} {' '.join(command)}\n")
        if process.stdout is None:
            raise AssertionError("a pipe was asked for")
        try:
            for line in process.stdout:
                stream.write(line)
                on_line(line.rstrip("\n"))
        except BaseException:
            _end(process)
            raise
    return process.returncode


def _end(process: subprocess.Popen[str]) -> None:
    """Wait for asv to end by the Ctrl-C that the terminal sends it too; ask it, then make it, where it does not."""
    for ask in (None, signal.SIGINT, signal.SIGKILL):
        if ask is not None:
            process.send_signal(ask)
        try:
            process.wait(PATIENCE)
            return
        except subprocess.TimeoutExpired:
            continue


def machine(name: str | None) -> str:
    """Return the name of this machine in the results; asv's file of machines gets an entry where it has none.

    Not by `asv machine --yes`: given a name, that records the name and nothing of the machine. An entry of that kind
    is completed.

    Raises:
        UsageError: asv's own name of the machine is that of a folder of ours in the results.
    """
    asked, name = name, name or Machine.get_unique_machine_name()
    try:
        known = MachineCollection.load(name)
    except util.UserError:
        known = {}
    recorded = str(known.get("machine", name))
    if recorded in OWN_FOLDERS and recorded != asked:
        raise UsageError(
            f"asv calls this machine {recorded!r}, which is a folder of our own in results/: name it, MACHINE=bench-2"
        )
    if "cpu" not in known:
        known = {**Machine.get_defaults(), "machine": name, **known}
        MachineCollection.save(name, known)
    return recorded


def environment_of(conf: Config) -> HostTorch:
    """Return the environment that asv.conf.json asks for.

    Raises:
        UsageError: it is not ours, or cannot be had here; the message says why.
    """
    if conf.environment_type != HostTorch.tool_name:
        raise UsageError(
            f"asv.conf.json: environment_type is {conf.environment_type!r}; `{HostTorch.tool_name}` is wanted"
        )
    found = [item for item in get_environments(conf, None, verbose=False) if isinstance(item, HostTorch)]
    if found:
        return found[0]
    try:  # asv passes over what is not available; asked directly, it says why
        (python,) = conf.pythons
        return HostTorch(conf, python, {}, {})
    except EnvironmentUnavailable as error:
        raise UsageError(str(error)) from None
