"""An A/B session: two commits measured in turns by asv, and its rounds kept as evidence, apart from the history.

    .asv/ab/<environment>-<method>-<toolchain and machine>/<before>-<after>/
        <environment>/<commit>.jsonl            telemetry, a line per round, written by the measuring processes
        <environment>/<commit>.failures.jsonl   why there is none
        blocks.jsonl                            a line per run of asv: when it began, how many rounds a side it was for

The measuring processes write there by themselves (KV_SPOOL), so that whatever ends a session, a power cut included, its
rounds are there; the next session of the same two commits goes on from them within hours, with the same compilers,
driver, torch and clocks. asv interleaves rounds only where it stores results: that is under the machine name MACHINE,
removed before and after, and asv's list of benchmarks is put back as it was: nothing in results/ changes. Wheels are
those of the history.

The order is A B B A: asv 0.6.6 turns the order of its commits around with every round (commands/run.py,
`iter_rounds_commits`), and blocks have an even number of rounds, so that each side goes first equally often.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from asv.config import Config
from asv.console import log as asv_log
from asv.repo import get_repo

from kernel_velocity.ab import rounds as ab_kept
from kernel_velocity.ab.rounds import KeptRounds, Pair
from kernel_velocity.errors import KernelVelocityError
from kernel_velocity.files import replace_text
from kernel_velocity.harness import timing
from kernel_velocity.harness.cases import CONTROLS
from kernel_velocity.harness.spool import append_line
from kernel_velocity.results import failures
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.failures import Failure
from kernel_velocity.results.git import SHORT
from kernel_velocity.runner import build_info as toolchain
from kernel_velocity.runner import builds, fingerprint
from kernel_velocity.runner.asv import Reader, environment_of, machine, run_asv
from kernel_velocity.runner.build_info import code_hash
from kernel_velocity.runner.environment import CommitNotBuilt
from kernel_velocity.runner.select import Selection

MACHINE = "kv-ab"
FAILED = 2  # asv's status where a benchmark failed and the others were measured
FOLDER = Path(".asv", "ab")
NAMED = 12  # digits of a commit in the name of a folder


def place(environment: str, environ: Mapping[str, str]) -> str:
    """Return the name of the folder of what is comparable: timed alike, built alike, on a machine that is as it was."""
    here = json.dumps([toolchain.describe(environ), fingerprint.now(environ)], sort_keys=True)
    return f"{environment}-{timing.method(environ)}-{hashlib.sha256(here.encode()).hexdigest()[:8]}"


class _TimeIsUpError(Exception):
    """The deadline passed while asv was measuring."""


@dataclass
class AsvRunner:
    """The `Runner` that measures with asv. `root` is the current folder, whose lock the caller holds."""

    root: Path
    device: str  # "cpu" or "cuda"
    err: TextIO  # for what it is doing
    again: bool = False  # build again what could not be built, and put kept rounds aside
    began: float = field(default_factory=time.time)
    measured: float = 0.0  # s that measuring took, builds apart

    def __post_init__(self) -> None:
        self._conf = Config.load()
        self._environment = environment_of(self._conf)
        self._results = Path(self._conf.results_dir)
        self._folder = self.root / FOLDER / place(str(self._environment.name), os.environ)
        self._log = self.root / ".asv" / "logs" / f"ab-{time.strftime('%Y%m%d-%H%M%S')}.log"
        self._created = False
        self._aside: set[Path] = set()

    def clock(self) -> float:
        """Return the time, s, of a clock that nobody sets."""
        return time.monotonic()

    def prepare(self, commit: str) -> str | None:
        """Build a commit unless it is built, by what is here now; return why it cannot be, in one line.

        Wheels of two compilers would differ by more than the commits. One of another compiler is kept until there is
        a new one: the history's.
        """
        repo: Any = get_repo(self._conf)
        if not self._created:
            self._environment.create()
            self._created = True
        builds.settle(self._environment, commit)  # of a run that was cut off
        if (then := self._environment.other_toolchain(commit)) is not None:
            builds.keep(self._environment, commit)
            self._say(f"{commit[:SHORT]} was built with {then or 'an unknown compiler'}; it is built again")
        if self._environment.is_built(commit):
            return None
        if self.again:
            self._environment.forget_failures([commit])
        began = time.time()
        try:
            with asv_log.set_level(logging.CRITICAL):  # it is what this returns
                self._environment.build(repo, commit)
        except CommitNotBuilt as error:
            return str(error)
        finally:
            if builds.settle(self._environment, commit):
                self._say(f"note: {commit[:SHORT]} is not built again: its build of before is put back")
        self._say(f"built {commit[:SHORT]} in {time.time() - began:.1f} s")
        return None

    def code(self, commit: str, series: Series) -> str | None:
        """Return the hash of the code that a series of a built commit runs."""
        return code_hash(self._environment.unpacked(commit), series[0].partition(".")[0])

    def build_info(self, commit: str) -> dict[str, Any]:
        """Return the build-info.json of a commit; {} where it is not built, or is from before there was one."""
        return fingerprint.build_info(self._environment.unpacked(commit))

    def folder(self, before: str, after: str) -> Path:
        """Return where the rounds of two commits are kept."""
        return self._folder / f"{before[:NAMED]}-{after[:NAMED]}"

    def measure_pair(
        self, before: str, after: str, series: Sequence[Series], rounds: int, deadline: float
    ) -> dict[Series, Pair]:
        """Bring some series of two built commits to `rounds` rounds a side, and return the rounds that there are.

        Raises:
            KernelVelocityError: asv itself failed, or what is kept cannot be read.
        """
        folder = self.folder(before, after)
        self._put_aside(folder)
        pairs = self._kept(folder).pairs(before, after, self.began, time.time())
        missing = {one: rounds - (pairs[one].rounds if one in pairs else 0) for one in series}
        # Series of an interrupted session may have more than others: each is measured with those that miss as many
        for number in sorted({count + count % 2 for count in missing.values() if count > 0}):
            group = [one for one, count in missing.items() if count > 0 and count + count % 2 == number]
            if self.clock() < deadline:
                self._measure(folder, (before, after), (*group, *witnesses(group, self.device)), number, deadline)
        return self._kept(folder).pairs(before, after, self.began, time.time())

    def _put_aside(self, folder: Path) -> None:
        """Keep the rounds of an earlier session under another name, where everything is to be measured again."""
        if self.again and folder not in self._aside and folder.exists():
            folder.rename(folder.with_name(f"{folder.name}-until-{time.strftime('%Y%m%d-%H%M%S')}"))
        self._aside.add(folder)

    def _measure(
        self, folder: Path, commits: tuple[str, str], series: Sequence[Series], rounds: int, deadline: float
    ) -> None:
        """Have asv measure `rounds` rounds a side; it is ended at the deadline."""
        append_line(folder / ab_kept.TIMES, json.dumps({"began": time.time(), "rounds": rounds}))
        hashes = self.root / FOLDER / "commits.txt"
        replace_text(hashes, "".join(f"{commit}\n" for commit in commits))
        benches = [text for expression in _expressions(series) for text in ("--bench", expression)]
        options = ["--interleave-rounds", "--show-stderr", "--attribute", f"rounds={rounds}"]
        reader, lines, began = Reader(), [""], self.clock()
        listed = self._results / "benchmarks.json"
        list_before = listed.read_text(encoding="utf-8") if listed.exists() else None
        self._remove_results()
        try:
            status = run_asv(
                ["run", f"HASHFILE:{hashes}", "--machine", machine(MACHINE), *options, *benches],
                root=self.root,
                environment={**os.environ, "KV_SPOOL": str(folder.relative_to(self.root)), "KV_ROUNDS": str(rounds)},
                log=self._log,
                on_line=lambda line: self._on_line(line, lines, reader, deadline),
            )
        except _TimeIsUpError:
            status = 0
        finally:
            self.measured += self.clock() - began
            self._remove_results()
            _put_back(listed, list_before)
            self._note_deaths(folder, commits, reader)
        if status not in (0, FAILED):
            raise KernelVelocityError(f"asv run ended with status {status}: {lines[0]} (log: {self._log})")

    def _on_line(self, line: str, last: list[str], reader: Reader, deadline: float) -> None:
        last[0] = line.strip() or last[0]
        step = reader.read(line, time.time())
        if step is not None:
            self._say(f"round {step.round}/{step.rounds}, commit {step.commit}")
        if self.clock() >= deadline:
            raise _TimeIsUpError

    def _remove_results(self) -> None:
        shutil.rmtree(self._results / MACHINE, ignore_errors=True)

    def _note_deaths(self, folder: Path, commits: tuple[str, str], reader: Reader) -> None:
        """Write down the failures of processes that could not do so themselves."""
        full = {commit[:SHORT]: commit for commit in commits}
        for death in reader.deaths:
            path = self._kept(folder).failures_path(full[death.commit])
            failure = Failure(
                benchmark=death.benchmark, params=death.params, time=time.time(), error=death.what, died=True
            )
            failures.append(path, failure)

    def _kept(self, folder: Path) -> KeptRounds:
        return KeptRounds(folder=folder, environment=str(self._environment.name))

    def _say(self, text: str) -> None:
        print(text, file=self.err, flush=True)


def _put_back(path: Path, text: str | None) -> None:
    """Give a file of the recorded history the text it had; None: there was none."""
    if text is None:
        path.unlink(missing_ok=True)
    elif not path.exists() or path.read_text(encoding="utf-8") != text:
        replace_text(path, text)


def _expressions(series: Sequence[Series]) -> list[str]:
    return Selection(series=tuple(series), versions={}).expressions()


def witnesses(series: Sequence[Series], device: str) -> tuple[Series, ...]:
    """Return the series that some are adjusted by, and that have to be measured with them.

    On a CPU gauges are read beside the very samples; on a GPU PyTorch's eager version of the same test case serves.
    """
    if device != "cuda":
        return ()
    wanted = ((benchmark, (CONTROLS[0], case)) for benchmark, (_, case) in series)
    return tuple(one for one in dict.fromkeys(wanted) if one not in series)
