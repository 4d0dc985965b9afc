"""Run asv: set up its machine and environment, and parse its output for progress and for reasons of missing values.

asv stores neither the output nor the exit status of a benchmark. A round that raises writes its own line
(`results/failures.py`). A process that crashes or times out cannot, and is only in asv's output.
"""

from __future__ import annotations

import ast
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread, Timer
from typing import IO, NamedTuple

from asv import util
from asv.config import Config
from asv.environment import EnvironmentUnavailable, get_environments
from asv.machine import Machine

from kernel_velocity.errors import UsageError
from kernel_velocity.files import SCRATCH, naming, replace_text
from kernel_velocity.processes import LEFT, contained
from kernel_velocity.results import asv_file
from kernel_velocity.results.asv_file import OWN_FOLDERS, Series
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.lines import Failure
from kernel_velocity.runner import select
from kernel_velocity.runner.environment import HostTorch
from kernel_velocity.runner.host import measuring_variables
from kernel_velocity.suite import config

SAVING = 20.0  # s between SIGINT and SIGKILL; asv ends within one call of its slowest benchmark
# What the library behind torch's profiler prints at each start and stop, whatever its log level
PROFILER_NOISE = "USDT:"
FAILED = 2  # asv's status where a benchmark failed and the others were measured
_COMMIT = re.compile(
    r"^\[ *(?P<percent>\d+(?:\.\d+)?)%\].* For \S+ commit (?P<commit>[0-9a-f]{8})[^(]*"
    r"(?:\(round (?P<round>\d{1,9})/(?P<rounds>\d{1,9})\))?"
)
_BENCHMARK = re.compile(r"^\[ *[\d.]+%\] ·+ (?P<name>\w+\.\w+\.\w+)(?: |$)")
_PARAMETERS = re.compile(r"^[\[\]\d.%· ]*For parameters: (?P<params>.+)$")
_TIMED_OUT = re.compile(r"asv: benchmark timed out \(timeout (?P<limit>\d+(?:\.\d+)?)s\)")
_CRASHED = re.compile(r"Fatal Python error: (?P<what>.+)")
_LEFT = re.compile(rf"^[\[\]\d.%· ]*kernel-velocity: (?P<what>.+ {LEFT} process \d+ .+)$")
_UNWRITABLE = re.compile(r"\bspool\.SpoolError: \[Errno (?P<number>\d+)\] .*: '(?P<path>.+)'")


@dataclass(frozen=True, kw_only=True)
class AsvStep:
    """asv began to measure a commit in a round."""

    percent: float
    commit: str  # 8 digits
    round: int
    rounds: int
    time: float  # Unix time, s


@dataclass(kw_only=True)
class Reader:
    """Collect the steps and crashes of asv's output, line by line."""

    steps: list[AsvStep] = field(default_factory=list)
    deaths: list[tuple[str, Failure]] = field(default_factory=list)  # commit, 8 digits, and a failure without its time
    left: list[str] = field(default_factory=list)  # lines that name processes which series left running
    _benchmark: str = ""
    _params: tuple[str, ...] = ()

    def read(self, line: str, now: float) -> AsvStep | None:
        """Read a line printed at Unix time `now`, s. Return the step that it announces, or None.

        Raises:
            OSError: a round could not write what it leaves. The next ones could neither, and none would count.
        """
        if match := _UNWRITABLE.search(line):
            raise OSError(int(match["number"]), os.strerror(int(match["number"])), match["path"])
        if match := _COMMIT.match(line):
            step = AsvStep(
                percent=float(match["percent"]),
                commit=match["commit"],
                round=int(match["round"] or 1),
                rounds=int(match["rounds"] or 1),
                time=now,
            )
            self.steps.append(step)
            return step
        if match := _PARAMETERS.match(line):
            self._params = _strings(match["params"])
        elif match := _BENCHMARK.match(line):
            self._benchmark, self._params = match["name"], ()
        elif match := _LEFT.search(line):
            self.left.append(match["what"])
        elif match := _TIMED_OUT.search(line):
            self._died(f"ran past its timeout of {float(match['limit']):g} s")
        elif match := _CRASHED.search(line):
            self._died(f"its process crashed: {match['what'].strip()}")
        return None

    def pause(self, now: float, commit: str = "") -> None:
        """Note that asv measures no commit from Unix time `now`, s, until its next step.

        Args:
            commit: whose figures are taken meanwhile.
        """
        self.steps.append(AsvStep(percent=0.0, commit=commit[:SHORT], round=1, rounds=1, time=now))

    def failures(self, commits: Iterable[str], when: float) -> Iterator[tuple[str, Failure]]:
        """Yield the deaths as failures of some commits at a Unix time, s: their processes could not write them."""
        full = {commit[:SHORT]: commit for commit in commits}
        for commit, failure in self.deaths:
            if commit in full:  # else a kernel printed it
                yield full[commit], replace(failure, time=when)

    def _died(self, what: str) -> None:
        if self.steps and self._params:
            death = Failure(benchmark=self._benchmark, params=self._params, time=0.0, error=what, died=True)
            self.deaths.append((self.steps[-1].commit, death))


def _strings(text: str) -> tuple[str, ...]:
    """Return the strings of a list as Python writes it. () where it is none: a kernel may print whatever it likes."""
    try:
        values = ast.literal_eval(f"({text},)")
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ()
    return values if all(isinstance(value, str) for value in values) else ()


class Ended(NamedTuple):
    """How a run of asv ended."""

    status: int
    last: str  # line of its output that is not blank
    log: Path

    @property
    def is_whole(self) -> bool:
        """Whether asv measured, though a benchmark may have failed."""
        return self.status in (0, FAILED)

    def __str__(self) -> str:
        return f"asv run ended with status {self.status}: {self.last} (log: {self.log})"


def run_asv(
    args: Iterable[str],
    *,
    root: Path,
    environment: Mapping[str, str],
    log: Path,
    on_line: Callable[[str], object] = lambda line: None,
) -> Ended:
    """Run asv in a folder. Every line of its output goes to the log and to `on_line`.

    An exception leaves this function only after asv has ended, so that asv writes nothing afterwards.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "asv", *args]
    last = "it printed nothing"
    with naming(log), log.open("a", encoding="utf-8", buffering=1) as stream:
        stream.write(f"{time.strftime('%F %T')} {' '.join(command)}\n")

        def read(line: str) -> None:
            nonlocal last
            stream.write(f"{line}\n")
            last = line.strip() or last
            on_line(line)

        status = run_child(command, read, environ=environment, folder=root)
    return Ended(status, last, log)


def run_child(
    command: Sequence[str],
    on_line: Callable[[str], object],
    *,
    environ: Mapping[str, str],
    folder: Path | None = None,
    on_error: Callable[[str], object] | None = None,
) -> int:
    """Run a command as a child process and return its exit status.

    A child that is ended early gets what Ctrl-C at a terminal would give it (SIGINT to its process group), and some
    seconds in which asv writes what it measured, before it is killed. All that it started ends with it.

    Args:
        on_line: called in a thread, gets each line, without its end.
        folder: to run it in. None: the current one.
        on_error: gets the lines of standard error. None: `on_line` does.

    Raises:
        KeyboardInterrupt: as raised by a signal. What `on_line` raised likewise leaves once the child has ended.
    """
    raised: list[BaseException] = []
    with (
        TemporaryDirectory(prefix="asv-") as scratch,
        ExitStack() as containing,
        subprocess.Popen(
            command,
            cwd=folder,
            env={**environ, **containing.enter_context(contained()), "PYTHONUNBUFFERED": "1", SCRATCH: scratch},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if on_error else subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process,
    ):
        killer = Timer(SAVING, _signal, (process, signal.SIGKILL))

        def read(stream: IO[str] | None, receive: Callable[[str], object]) -> None:
            for line in stream or ():
                if raised or line.startswith(PROFILER_NOISE):
                    continue
                try:
                    receive(line.rstrip("\n"))
                except BaseException as error:  # noqa: BLE001 - raised below
                    raised.append(error)
                    if raised[0] is error:  # not the second of two readers
                        killer.start()
                        _signal(process, signal.SIGINT)

        readers = [Thread(target=read, args=(process.stdout, on_line))]
        readers += [Thread(target=read, args=(process.stderr, on_error))] if on_error else []
        # A signal that comes just before the main thread waits for a process, or in another thread, does not wake it.
        # Waiting for a thread it looks for signals, once a second.
        waiting = Thread(target=process.wait)
        try:
            for thread in (*readers, waiting):
                thread.start()
            while waiting.is_alive():
                waiting.join(1.0)
        finally:
            try:
                _end(process)
            finally:  # also where another Ctrl-C ends the waiting
                containing.close()  # what the child left behind holds the pipe open, and the machine busy
                for reader in readers:
                    reader.join()
                killer.cancel()
    if raised:
        raise raised[0]
    return process.wait()


def run_measuring(module: str, argv: Sequence[str], on_line: Callable[[str], object]) -> int:
    """Run a module as a measuring process, whose allocator reads its settings when it starts. Return its exit status.

    Args:
        module: its name.
        argv: its arguments.
        on_line: gets each line that it prints.

    Raises:
        UsageError: KV_THREADS is not a number of threads.
    """
    environ = {**os.environ, **measuring_variables(os.environ.get("KV_THREADS") or None)}
    return run_child([sys.executable, "-m", module, *argv], on_line, environ=environ)


def _end(process: subprocess.Popen[str]) -> None:
    """End what is left of the child's process group, also where a signal to us comes in between."""
    try:
        if process.poll() is None:
            _signal(process, signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(SAVING)
    finally:
        _signal(process, signal.SIGKILL)
        process.wait()


def _signal(process: subprocess.Popen[str], number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def measuring(
    hashes: Path, commits: Iterable[str], series: Sequence[Series], machine: str, options: Iterable[str]
) -> list[str]:
    """Return the arguments by which asv measures some series of commits, whose list is written to `hashes`.

    Raises:
        UsageError: asv's output, which names commits by SHORT digits, could not tell two of them apart.
    """
    commits = tuple(dict.fromkeys(commits))
    by_digits: dict[str, str] = {}
    for commit in commits:
        if (other := by_digits.setdefault(commit[:SHORT], commit)) == commit:
            continue
        raise UsageError(
            f"{other} and {commit} begin with the same {SHORT} digits, by which asv names commits: measure one at a "
            f"time, such as `kv track --range {commit}^!`"
        )
    replace_text(hashes, "".join(f"{commit}\n" for commit in commits))
    benches = [text for expression in select.expressions(series) for text in ("--bench", expression)]
    return ["run", f"HASHFILE:{hashes}", "--machine", machine, "--show-stderr", *options, *benches]


def machine(name: str | None) -> str:
    """Return the name of this machine in the results, and complete its entry in asv's file of machines.

    `asv machine --yes` with a name records the name alone, so it is not used, and an entry of that kind is completed.

    Args:
        name: of the machine. None: asv's own name of it.

    Raises:
        UsageError: asv's own name is that of a reserved folder in the results, or asv's file of machines is damaged.
    """
    requested, name = name, name or Machine.get_unique_machine_name()
    entry = asv_file.machine_entry(name)
    recorded = str(entry.get("machine", name))
    is_taken = recorded in OWN_FOLDERS and recorded != requested
    if is_taken or "/" in recorded or recorded in (".", "..") or not recorded.isprintable():
        raise UsageError(
            f"asv calls this machine {recorded!r}, which cannot name its folder in results/: name it, MACHINE=bench-2"
        )
    if "cpu" not in entry:
        asv_file.complete_machine(name, entry)
    return recorded


def settings() -> Config:
    """Return the settings of asv.conf.json in the current folder, as asv has them.

    Raises:
        UsageError: there is none, or it is malformed.
    """
    config.check(Path())
    config_settings = config.asv_settings(Path())
    if "version" not in config_settings:
        raise UsageError(f'{config.NAME}: "version": 1 is wanted, got nothing')
    try:
        return Config.from_json({name: value for name, value in config_settings.items() if name != "version"})
    except util.UserError as error:  # no repo, or no branch
        raise UsageError(f"{config.NAME}: {error}") from None


def environment_of(conf: Config) -> HostTorch:
    """Return the environment that asv.conf.json asks for.

    Raises:
        UsageError: asv.conf.json names another type of environment, nothing says how to build a commit, or this machine
            cannot provide the environment.
    """
    config.project(Path()).build_command(Path())
    if conf.environment_type != HostTorch.tool_name:
        raise UsageError(
            f"asv.conf.json: environment_type is {conf.environment_type!r}; `{HostTorch.tool_name}` is wanted"
        )
    for environment in get_environments(conf, None, verbose=False):
        if isinstance(environment, HostTorch):
            return environment
    try:  # asv skips an unavailable environment silently; its constructor raises the cause
        if len(conf.pythons) != 1:
            raise UsageError(f"{config.NAME}: pythons: one version is wanted, got {conf.pythons}")
        return HostTorch(conf, conf.pythons[0], {}, {})
    except EnvironmentUnavailable as error:
        raise UsageError(str(error)) from None
