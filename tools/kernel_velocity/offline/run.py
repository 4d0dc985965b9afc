"""``kv offline run OUT``: one time slice of the run on a node. `sh DIR/run OUT` starts it, through node/launch.py.

What is worth most comes first: what is this node, are the kernels right, may series share a process, what can the
machine do, the newest commits, older ones, can the timer be believed, raw traces, then the other test cases. Each
stage says what it will take (runner/forecast.py), and then what it took. One that would overrun the slice measures
fewer series. After each stage the tar in OUT is written again, so whatever ends the run leaves the last stage's. The
next slice resumes: what a command finished is in run/state.json.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, TextIO

from kernel_velocity import config, lock, units
from kernel_velocity.errors import BenchmarkFailed, BuildFailed, NothingMeasured, ResultsError, UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.harness import documents
from kernel_velocity.offline import archive, summary
from kernel_velocity.offline.node import launch
from kernel_velocity.results import ingest
from kernel_velocity.results.asv_file import Series
from kernel_velocity.runner import child, facts, forecast, host, select
from kernel_velocity.runner.environment import first_error_line
from kernel_velocity.runner.host import NO_COMPILER, has_compiler, measuring_variables
from kernel_velocity.runner.live import MODULE
from kernel_velocity.runner.sharing import FEWEST_PASSES
from kernel_velocity.series import past

MACHINE = "node"  # the name under which a node records; `unpack` gives the real one
STAGES = ("doctor", "build", "tests", "sharing", "ceilings", "newest", "core", "timers", "traces", "full")
TIERS = {"newest": "core", "core": "core", "full": "full"}  # stages in which `track` measures commits -> the tier
CRASHES = 6  # of the traces, which go on where they were; a series is given up after three
TIME_IS_UP = 75  # sysexits.h EX_TEMPFAIL: what is left is done by running again
# Exit statuses of `track` that end a commit, in the order of the contract. Else it could not begin, and is tried again.
FINAL = (NothingMeasured.exit_code, BuildFailed.exit_code, BenchmarkFailed.exit_code, 0)
# Stages that can measure fewer series -> the share of the time left that they may take.
CUT = {"sharing": 0.1, "timers": 0.5, "traces": 0.5}
WORTH = 0.5  # of a commit's time: with less left, none is begun
RESERVE = 45.0  # s of a slice kept for ending the stage and writing the tar

# The current folder is the clone. What goes into the tar lies beside it: a checkout leaves it alone.
COLLECTED = Path("..", "collected")
RUN, TRACES, LOGS = COLLECTED / "run", COLLECTED / "traces", COLLECTED / "logs"
RESULTS = Path("results")
LIBRARY = Path("kernels", "_native", "build-info.json")  # there is a build in place
JUNIT = Path("build", "tests.xml")
# Tests of the kernels that a node without a GPU leaves out: they build commits, or take minutes.
NOT_ON_A_NODE = ("test_build.py", "test_large.py")
CUDA_ROOMS = ("benchmarks", "harness", "kernels")  # of the tests: where there are some marked `cuda`
CUDA_MARKS = ("pytest.mark.cuda", "on_every_device(")  # the latter is of tests/kernels/instruction_sets.py


def cuda_tests() -> list[Path]:
    """Return the files below the current folder that have tests marked `cuda`. A node cannot import all others."""
    files = (path for name in CUDA_ROOMS for path in Path("tests", name).glob("test_*.py"))
    return [path for path in files if any(mark in path.read_text("utf-8") for mark in CUDA_MARKS)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the step's arguments."""
    parser.add_argument("out", type=Path, help="where the tar, the summary and the log appear")
    parser.add_argument("--pack", type=Path, required=True, help="the pack's manifest.json")
    parser.add_argument("--began", type=float, help="Unix time from which --minutes count (default: now)")
    launch.add_options(parser)


def run(args: argparse.Namespace, out: TextIO, _err: TextIO) -> int:
    """Run the stages. Return 0, 75 where time is up and work is left, or what contract.md says of failures."""
    args.stages = [name.strip() for name in args.stages.split(",")] if args.stages else STAGES
    if unknown := set(args.stages) - set(STAGES):
        raise UsageError(f"--stages: there is no {min(unknown)!r}; there are {', '.join(STAGES)}")
    if args.together < 1 or args.rounds < 1:
        raise UsageError(f"--together {args.together}, --rounds {args.rounds}: positive numbers are wanted")
    args.out.mkdir(parents=True, exist_ok=True)
    try:
        with lock.held(Path()), _interrupted_by_signals():
            return Slice(args, out).run()
    except KeyboardInterrupt:
        print("terminated before anything was measured, or while it was packed: run the same command again", file=out)
        return TIME_IS_UP


@contextlib.contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    """Turn what ends a run into KeyboardInterrupt: SIGTERM, which batch systems send before SIGKILL, a lost terminal.

    SIGINT gets its default back. A shell starts background jobs with it ignored, and children inherit that: they would
    not save what they have when they are cut off.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    ending = (signal.SIGTERM, signal.SIGHUP)
    numbers = [number for number in ending if signal.getsignal(number) is not signal.SIG_IGN]  # nohup ignores SIGHUP
    before = {number: signal.signal(number, _interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, _frame: object) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # once is enough: the tar is being written
    raise KeyboardInterrupt


class Slice:
    """One slice: what was asked for, what the node is, what is done."""

    def __init__(self, args: argparse.Namespace, out: TextIO) -> None:
        """Look at the node, and at what was done here before.

        Raises:
            UsageError: this node cannot measure what is asked for, or what was measured so far is of another machine.
            ResultsError: the tar to resume from is none of ours, or of another project.
        """
        self.args, self.out = args, out
        self.began = time.monotonic() - (0.0 if args.began is None else max(0.0, time.time() - args.began))
        self.until = math.inf if args.minutes is None else self.began + args.minutes * 60 - RESERVE
        self.cut_off = False  # the clock or a signal ended this slice
        self.notes: list[str] = []  # what a reader of the results must know
        self.refused: set[str] = set()  # logs of `track`, where it could not begin
        self.seconds: dict[str, float] = {}  # tier -> s that a commit took in this slice
        self.cut: dict[str, int] = {}  # stage -> how many series it measures, for the time
        try:
            self.pack = documents.read_checked(args.pack)
        except documents.DamagedError as error:
            raise UsageError(f"{args.pack}: {error}; make a pack with `kv offline pack DIR`") from None
        if args.resume_from is not None:
            self.resume(Path(args.resume_from))
        self.facts = facts.gather()
        self.device = facts.device(self.facts, args.device)
        self.forecast = forecast.here(self.device, os.environ)
        self.state: dict[str, Any] = {"machine": None, "slices": 0, "done": {}}  # done: request -> exit status
        with contextlib.suppress(OSError, ValueError):  # else the stages run again
            self.state |= documents.read_checked(RUN / "state.json")
        here, there = self.facts.machine(self.device), self.state["machine"]
        if there not in (None, here):
            raise UsageError(f"{args.out}: holds what {there} measured, this is {here}: name another folder")
        self.state |= {"machine": here, "slices": self.state["slices"] + 1}
        self.save()

    def resume(self, tar: Path) -> None:
        """Take over what an earlier slice measured on another node, unless this one has begun already."""
        if RUN.exists():
            self.say("note: --resume-from is ignored: this node has results already, and resumes from them")
            return
        with tempfile.TemporaryDirectory(dir=COLLECTED.parent) as folder:
            unpacked = Path(folder, "tar")
            unpacked.mkdir()
            root, ours = archive.read(tar, unpacked).root, self.pack["root"]
            if root != ours:
                raise ResultsError(f"{tar}: of another project (first commit {root[:8]}, here {ours[:8]})")
            if (unpacked / "results").is_dir():
                shutil.copytree(unpacked / "results", RESULTS, dirs_exist_ok=True)
            shutil.rmtree(COLLECTED, ignore_errors=True)
            unpacked.rename(COLLECTED)  # in one step, the last: an interruption before it begins again

    def save(self) -> None:
        """Write what is done."""
        replace_text(RUN / "state.json", documents.with_checksum(json.dumps(self.state)) + "\n")

    def say(self, text: str) -> None:
        """Print a line, and append it to OUT/node.log."""
        # Neither a terminal that went away nor a full disk may stop a stage whose output this is.
        with contextlib.suppress(OSError):
            print(text, file=self.out, flush=True)
        with contextlib.suppress(OSError), (self.args.out / "node.log").open("a", encoding="utf-8") as stream:
            stream.write(text + "\n")

    def note(self, line: str) -> None:
        """Say what a reader of the results must know, and keep it for the summary."""
        if line not in self.notes:
            self.notes.append(line)
            self.say(f"note: {line}")

    def run(self) -> int:
        """Run the stages that are left, and gather what they brought. Return the exit status.

        Raises:
            UsageError: nothing can be measured here.
        """
        what = ", ".join(self.facts.gpus) or self.facts.processor
        slices, torch, tools = self.state["slices"], self.facts.torch, self.facts.toolchain
        self.say(f"slice {slices}: {self.device} of {what}; torch {torch}, {tools}")
        if not has_compiler():
            raise UsageError(NO_COMPILER)
        for line in facts.lacking(self.facts, self.device):
            self.note(line)
        try:
            for stage in filter(self.left, self.chosen):
                if self.time_is_up():
                    break
                began = time.monotonic()
                self.say(f"== {stage}: {self.expected(stage)} ({began - self.began:.0f} s of the slice are over)")
                (self.measure if stage in TIERS else self.perform)(stage)
                self.say(f"{stage}: took {time.monotonic() - began:.0f} s")
                self.learn(stage, time.monotonic() - began)
                self.collect()
        except KeyboardInterrupt:
            self.cut_off = True
            self.say("terminated: what was measured is kept")
        self.collect()
        self.say(f"summary: {self.args.out / 'summary.md'}\ntar: {self.args.out / archive.NAME}")
        if self.cut_off:
            self.say("time is up with work left: run the same command again to resume")
        return self.status()

    def series(self, tier: str) -> tuple[Series, ...]:
        """The series of a tier that are measured here."""
        return select.select(config.suite(Path()), self.device, tier, self.args.bench).series

    def commit_seconds(self, tier: str) -> float:
        """Return the s that a commit takes: what it took here, or what the model says."""
        cost = self.forecast.commit(self.series(tier), self.args.rounds)
        return self.seconds.get(tier, cost.build + cost.measuring)

    def stage_seconds(self, stage: str, series: int) -> float:
        """Return the s that a stage takes which measures no commits, with so many series."""
        chosen = self.series("core")
        compiled = series * sum(params[0] == forecast.COMPILE for _, params in chosen) / len(chosen)
        return self.forecast.stage(
            stage,
            series=series,
            compiled=compiled,
            files=len(self.tests),
            passes=FEWEST_PASSES,
            trace=self.args.trace_seconds,
        )

    def expected(self, stage: str) -> str:
        """Return what a stage will take, and of how many series there is time for, if not for all."""
        if stage in TIERS:
            commits = self.left(stage)
            seconds = len(commits) * self.commit_seconds(TIERS[stage])
            return f"about {seconds:.0f} s for {units.count(len(commits), 'commit')}"
        count = len(self.series("core"))
        left = max(self.until - time.monotonic(), 0.0) * CUT.get(stage, 1.0)
        fitting = count
        while stage in CUT and fitting > 1 and self.stage_seconds(stage, fitting) > left:
            fitting -= 1
        self.cut = {stage: fitting} if fitting < count else {}
        fewer = f" for {fitting} of {count} series, as there is no time for more" if self.cut else ""
        return f"about {self.stage_seconds(stage, fitting):.0f} s{fewer}"

    def learn(self, stage: str, seconds: float) -> None:
        """Correct the forecast by what a stage took."""
        if stage == "build" and not self.ended(stage):
            self.forecast = self.forecast.learn_build(seconds)

    def time_is_up(self) -> bool:
        """Return whether the slice has no time left. It is then interrupted."""
        self.cut_off = self.cut_off or self.until < time.monotonic()
        return self.cut_off

    @property
    def chosen(self) -> list[str]:
        """The stages that were asked for, in their order."""
        return [name for name in STAGES if name in self.args.stages and (name, self.args.tier) != ("full", "core")]

    @property
    def bench(self) -> list[str]:
        """The option that selects series."""
        return [f"--bench={self.args.bench}"] if self.args.bench else []

    @cached_property
    def tests(self) -> list[str]:
        """The test files to run: every one with CUDA tests, or those of the kernels on a CPU."""
        if self.device == "cuda":
            files = cuda_tests()
        else:
            files = [path for path in Path("tests", "kernels").glob("test_*.py") if path.name not in NOT_ON_A_NODE]
        return sorted(map(str, files))

    def commands(self, stage: str) -> list[list[str]]:
        """Return the commands of a stage that measures no commits."""
        live = [sys.executable, "-m", MODULE, stage, "--device", self.device]
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "pytest_timeout"]
        pytest += ["-p", "xdist.plugin", "-n1"]  # a test that takes its process with it costs no other
        marks = ["-m", "cuda" if self.device == "cuda" else "not cuda and not slow", f"--junitxml={JUNIT}"]
        return {
            "doctor": [[sys.executable, "-m", "kernel_velocity", "doctor"]],
            "build": [
                ["cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"],
                ["cmake", "--build", "build"],
                ["cmake", "--install", "build", "--prefix", "."],
            ],
            "tests": [[*pytest, *marks, *self.tests]],
            "sharing": [[*live, str(RUN / "sharing.json"), *self.bench, f"--passes={FEWEST_PASSES}"]],
            "ceilings": [[*live, str(RUN / "ceilings.json"), "--caches"]],
            "timers": [[*live, str(RUN / "timers.json"), *self.bench]],
            "traces": [[*live, str(TRACES), *self.bench, f"--seconds={self.args.trace_seconds}"]],
        }[stage]

    def track(self, tier: str, commits: Sequence[str]) -> list[str]:
        """Return the command that measures a tier of some commits, their rounds interleaved."""
        command = [sys.executable, "-m", "kernel_velocity", "track", "--no-site", "--no-ceilings", "--machine", MACHINE]
        return [*command, "--tier", tier, f"--rounds={self.args.rounds}", *self.bench, "--range", " ".join(commits)]

    def request(self, command: Sequence[str]) -> str:
        """Return a command with all that its result depends on: with other options it is run again."""
        settings = [f"{key}={value}" for key, value in sorted(os.environ.items()) if key.startswith("KV_")]
        settings = [text for text in settings if not text.startswith(lock.HOLDER)]  # a process number: never the same
        host = [self.pack["head"][:12], self.device, f"torch={self.facts.torch}", self.facts.toolchain]
        return "; ".join([*host, *command[1:], *settings])

    def requests(self, stage: str) -> dict[str, str]:
        """Return what a stage consists of, with its request: commits, newest first, or the stage itself."""
        if stage not in TIERS:
            return {stage: self.request(self.commands(stage)[-1])}
        commits = self.pack["commits"][: self.args.together if stage == "newest" else None]
        return {commit: self.request(self.track(TIERS[stage], [commit])) for commit in commits}

    def left(self, stage: str) -> list[str]:
        """Return what a stage has left to do: commits, or the stage itself."""
        done = self.state["done"]
        if stage == "build" and not LIBRARY.exists():  # the library is not in the tar that another node resumes from
            done = {request: status for request, status in done.items() if status != 0}
        return [what for what, request in self.requests(stage).items() if request not in done]

    def measure(self, stage: str) -> None:
        """Have `track` measure commits, the newest first, as many at a time as there is time for."""
        tier = TIERS[stage]
        while left := self.left(stage):
            began = time.monotonic()
            expected = self.commit_seconds(tier)
            fitting = (self.until - began) / expected
            if fitting < WORTH and self.seconds:  # the first is begun in any case: `track` resumes what was cut off
                self.cut_off = True
                return
            commits = left[: int(min(self.args.together, max(1, fitting)))]
            status = self.child(f"track-{tier}", self.track(tier, commits))
            if status not in FINAL:
                self.refused |= set() if status is None else {f"track-{tier}"}
                return
            seconds = (time.monotonic() - began) / len(commits)
            if tier not in self.seconds:
                self.forecast = self.forecast.learn_commits(seconds, expected)
            self.seconds[tier] = seconds
            self.finish([self.track(tier, [commit]) for commit in commits], status)

    def perform(self, stage: str) -> None:
        """Run the commands of a stage that measures no commits, until one fails."""
        commands = self.commands(stage)
        if stage == "traces":  # which are resumed file by file
            label, request = TRACES / "asked.txt", self.request(commands[-1])
            if not label.exists() or label.read_text(encoding="utf-8", errors="replace") != request:
                shutil.rmtree(TRACES, ignore_errors=True)
                replace_text(label, request)
        JUNIT.unlink(missing_ok=True)
        status: int | None = 0
        most = [f"--most={self.cut[stage]}"] if stage in self.cut else []
        for command in commands:
            status = self.child(stage, [*command, *most])
            if status != 0:
                break
        for _ in range(CRASHES if stage == "traces" else 0):
            if status is not None and not 0 <= status < 128:  # a signal: a series took its process with it
                status = self.child(stage, [*commands[-1], *most])
        if status is None:
            return
        if stage == "tests" and (counts := summarise(JUNIT, RUN / "tests.json")):
            self.say("tests: {passed} passed, {failed} failed, {skipped} skipped".format_map(counts))
        if stage == "build" and status != 0:
            log = (LOGS / "build.log").read_text(encoding="utf-8", errors="replace")
            self.note(f"the kernels do not build here: {first_error_line(log)}")
        if most:
            self.note(f"{stage}: of {self.cut[stage]} series alone, as there was no time for more")
        self.finish(commands[-1:], status)

    def child(self, name: str, command: list[str]) -> int | None:
        """Run a command until the slice ends. Return its status, None if the end interrupted it."""
        environ = {**os.environ, **facts.variables(self.facts, self.device)}
        environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # plugins that happen to lie beside torch are not ours to load
        if MODULE in command:
            environ |= measuring_variables(os.environ.get("KV_THREADS") or None)
        seconds = max(self.until - time.monotonic(), 1.0)
        try:
            with logging(LOGS / f"{name}.log", self.say) as on_line:
                status = child.run(command, on_line, environ=environ, seconds=seconds)
        except subprocess.TimeoutExpired:
            self.cut_off = True
            self.say(f"{name}: cut off, time is up")
            return None
        if status != 0:
            self.say(f"{name}: ended with status {status} (log: logs/{name}.log)")
        return status

    def finish(self, commands: Sequence[Sequence[str]], status: int) -> None:
        """Record how commands ended. Interrupted ones are run again."""
        self.state["done"] |= dict.fromkeys(map(self.request, commands), status)
        self.save()

    def ended(self, stage: str) -> set[int]:
        """Return the exit statuses that a stage ended with, other than 0."""
        return {self.state["done"].get(request, 0) for request in self.requests(stage).values()} - {0}

    def failed(self) -> list[str]:
        """Return the stages that ended with a failure, and the logs of `track` where it could not begin."""
        return [*(stage for stage in STAGES if stage not in TIERS and self.ended(stage)), *sorted(self.refused)]

    def status(self) -> int:
        """Return the exit status: TIME_IS_UP where the clock ended the slice, else the contract's."""
        if self.cut_off:
            return TIME_IS_UP
        codes = {status for stage in TIERS for status in self.ended(stage)}
        kinds = dict.fromkeys(self.refused, UsageError.exit_code) | {"build": BuildFailed.exit_code}
        codes |= {kinds.get(name, BenchmarkFailed.exit_code) for name in self.failed()}
        return next((code for code in (UsageError.exit_code, *FINAL) if code in codes), 0)

    def collect(self) -> None:
        """Gather, sum up, pack.

        Raises:
            OSError: it cannot be written. The tar of the stage before is still there.
        """
        if self.device == "cuda" and LIBRARY.exists() and (why := cuda_status()):
            self.note(f"the native CUDA kernels are n/a: {why}")
        for line in ingest.ingest(Path(), machine=MACHINE).problems:
            self.note(line)
        shutil.rmtree(COLLECTED / RESULTS, ignore_errors=True)  # what ingest removed must not stay behind
        for source, target in ((RESULTS / MACHINE, COLLECTED / RESULTS / MACHINE), (Path(".asv", "logs"), LOGS)):
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True)
            if source.is_dir() and (RESULTS / "benchmarks.json").exists():  # asv writes it after the machine's file
                shutil.copy(RESULTS / "benchmarks.json", COLLECTED / RESULTS)
        replace_text(RUN / "node.json", json.dumps(asdict(self.facts)) + "\n")
        try:
            text = summary.render(self.report())
        except Exception as error:  # noqa: BLE001 - nobody watches: what cannot be summed up must still come back
            text = f"The summary could not be made: {type(error).__name__}: {error}\n"
            self.say(f"note: {text.strip()}")
        for folder in (RUN, self.args.out):
            replace_text(folder / "summary.md", text)
        manifest = archive.Manifest(
            project=archive.PROJECT,
            root=self.pack["root"],
            head=self.pack["head"],
            commits=tuple(self.pack["commits"]),
            machine=MACHINE,
            node=archive.Node(device=self.device, gpus=tuple(self.facts.gpus), torch=self.facts.torch),
            written=time.time(),
        )
        replace_text(COLLECTED / archive.MANIFEST, manifest.to_json())
        for line in archive.write(self.args.out / archive.NAME, COLLECTED):
            self.say(f"note: {line}")

    def document(self, path: Path) -> dict[str, Any] | None:
        """Return what a stage wrote, None where it wrote nothing, or it is damaged, which a note says."""
        try:
            return documents.read_checked(path)
        except FileNotFoundError:
            return None
        except (OSError, documents.DamagedError) as error:
            self.note(f"{path}: {error}: what it says is left out")
            return None

    def report(self) -> summary.Report:
        """Return what the summary is made of."""
        recorded = past.open(RESULTS, Path()) if (RESULTS / "benchmarks.json").exists() else None
        measured = [measurement for sha in recorded.paths for measurement in recorded.at(sha)] if recorded else []
        return summary.Report(
            facts=self.facts,
            device=self.device,
            head=self.pack["head"],
            commits=self.pack["commits"],
            slices=self.state["slices"],
            notes=self.notes,
            **{name: self.document(RUN / f"{name}.json") for name in ("tests", "sharing", "ceilings", "timers")},
            traces=len(list(TRACES.glob("*-*.json"))),  # and not the lists beside them
            measurements=[measurement for measurement in measured if measurement.key.machine == MACHINE],
            left=[stage for stage in self.chosen if self.left(stage)],
            failed=self.failed(),
        )


@contextlib.contextmanager
def logging(path: Path, say: Callable[[str], object]) -> Iterator[Callable[[str], None]]:
    """Yield a function that says a line and appends it to a log. A full disk must not end what prints it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as stream:
        problems: list[OSError] = []

        def on_line(line: str) -> None:
            say(line)
            try:
                _ = problems or stream.write(f"{line}\n".encode())
            except OSError as error:
                problems.append(error)
                say(f"the log cannot be written any more: {error}")

        yield on_line


def cuda_status() -> str:
    """Return why the native CUDA kernels cannot run here, "" if they can. A fresh process tries it."""
    return host.python("-c", "import kernels; print(kernels.cuda_status() or '')")[1]


def summarise(report: Path, to: Path) -> dict[str, Any] | None:
    """Write pytest's report (JUnit XML) as JSON: counts, the first line of every failure, why tests were skipped.

    Return it. None, and no file, where pytest wrote no whole report.
    """
    to.unlink(missing_ok=True)
    try:
        cases = list(ET.parse(report).getroot().iter("testcase"))
    except (OSError, ET.ParseError):
        return None
    skipped = [skip.get("message") or "no reason" for case in cases for skip in case.iterfind("skipped")]
    failures = [
        [f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}", (bad.get("message") or "no message")]
        for case in cases
        for bad in [*case.iterfind("failure"), *case.iterfind("error")][:1]
    ]
    counts = {"passed": len(cases) - len(failures) - len(skipped), "failed": len(failures), "skipped": len(skipped)}
    first = [[name, message.splitlines()[0][:300]] for name, message in failures]
    document: dict[str, Any] = {**counts, "failures": first, "reasons": sorted(set(skipped))}
    replace_text(to, documents.with_checksum(json.dumps(document)) + "\n")
    return document
