"""An A/B session: two commits measured in turns by asv, with its rounds recorded apart from the history.

    .asv/ab/<environment>-<method>-<toolchain and machine>/<before>-<after>/
        <environment>/<commit>.jsonl            telemetry, a line per round, written by the measuring processes
        <environment>/<commit>.failures.jsonl   why there is none
        blocks.jsonl                            a line per run of asv: when it began, how many rounds a side it was for

The measuring processes write there themselves (KV_SPOOL), so that the rounds survive whatever ends a session, a power
cut included. The next session of the same two commits resumes from them within hours, with the same compilers, driver,
torch and clocks. asv interleaves rounds only where it stores results. That is under the machine name MACHINE, which is
removed before and after, and asv's list of benchmarks is restored: nothing in results/ changes. Wheels are those of
the history.

The order is A B B A: asv 0.6.6 reverses the order of its commits with every round (commands/run.py,
`iter_rounds_commits`), and blocks have an even number of rounds, so that each side goes first equally often.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from asv.console import log as asv_log
from asv.repo import get_repo

from kernel_velocity.ab import rounds as ab_rounds
from kernel_velocity.ab.rounds import Pair
from kernel_velocity.documents import with_checksum
from kernel_velocity.engine import timing
from kernel_velocity.engine.spool import append_line
from kernel_velocity.errors import KernelVelocityError
from kernel_velocity.files import replace_bytes
from kernel_velocity.names import CONTROLS
from kernel_velocity.results import git
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.lines import add_failure
from kernel_velocity.runner import code_identity, fingerprint
from kernel_velocity.runner.asv import Ended, Reader, environment_of, machine, measuring, run_asv, settings
from kernel_velocity.runner.environment import CommitNotBuilt
from kernel_velocity.runner.session import built, changed
from kernel_velocity.suite import config

MACHINE = "kv-ab"
FOLDER = Path(".asv", "ab")
NO_CUDA = (".c", ".cc", ".cpp", ".py")  # ends the names of files that are no part of CUDA code
COMMIT_DIGITS = 12  # digits of a commit in the name of a folder


def comparable(environment: str, environ: Mapping[str, str]) -> str:
    """Return the name of the folder of sessions with the same timing method, toolchain and state of the machine."""
    here = json.dumps(
        [fingerprint.toolchain(environ, config.project(Path())), fingerprint.now(environ)], sort_keys=True
    )
    return f"{environment}-{timing.method(environ)}-{hashlib.sha256(here.encode()).hexdigest()[:8]}"


class _TimeIsUpError(Exception):
    """The deadline passed while asv was measuring."""


@dataclass
class AsvRunner:
    """The `Runner` that measures with asv. `root` is the current folder, whose lock the caller holds."""

    root: Path
    device: str  # "cpu" or "cuda"
    err: TextIO  # for progress
    again: bool = False  # build again what could not be built, and put earlier rounds aside
    with_cuda: bool = False  # build CUDA code where no GPU is, too: it is read
    began: float = field(default_factory=time.time)
    measured: float = 0.0  # s that measuring took, builds apart

    def __post_init__(self) -> None:
        self._conf = settings()
        self._environment = environment_of(self._conf)
        if not self.with_cuda:
            self._environment.leave_cuda()
        self._folder = self.root / FOLDER / comparable(str(self._environment.name), os.environ)
        self._log = self.root / ".asv" / "logs" / f"ab-{time.strftime('%Y%m%d-%H%M%S')}.log"
        self._created = False
        self._aside: set[Path] = set()

    def clock(self) -> float:
        """Return the time, s, of a clock that nobody sets."""
        return time.monotonic()

    def is_prepared(self, commit: str) -> bool:
        """Return whether a commit is built by the present toolchain, so that `prepare` has nothing to do."""
        return self._environment.is_built(commit) and self._environment.other_toolchain(commit) is None

    def prepare(self, commit: str) -> str | None:
        """Build a commit unless it is built by the present toolchain. Return why it cannot be, in one line.

        Wheels of two compilers would differ by more than the commits. The history's wheel of another compiler stays
        until there is a new one.
        """
        repo: Any = get_repo(self._conf)
        if not self._created:
            self._environment.create()
            self._created = True
        self._environment.settle_build(commit)  # of an interrupted run
        if (then := self._environment.other_toolchain(commit)) is not None:
            self._environment.set_build_aside(commit)
            self._say(f"{commit[:SHORT]} was built with {then or 'an unknown compiler'}; it is built again")
        if self._environment.forget_changed([commit]):
            self._say(changed(commit))
        if self._environment.is_built(commit):
            return None
        if self.again:
            self._environment.forget_failures([commit])
        began = time.time()
        try:
            with asv_log.set_level(logging.CRITICAL):  # the caller reports it
                twin = self._environment.build(repo, commit)
        except CommitNotBuilt as error:
            return str(error)
        finally:
            if self._environment.settle_build(commit):
                self._say(f"note: {commit[:SHORT]} is not built again: its earlier build is restored")
        self._say(built(commit, twin, time.time() - began))
        for note in code_identity.notes(self.build_info(commit)):
            self._say(f"note: {commit[:SHORT]}: {note}")
        return None

    def unpacked(self, commit: str) -> Path:
        """Return the folder with what the build of a built commit made."""
        return self._environment.unpacked(commit)

    def code(self, commit: str, series: Series) -> str | None:
        """Return the hash of the code that a series of a built commit runs."""
        return fingerprint.code_hashes(self._environment.unpacked(commit)).get(series[0].partition(".")[0])

    def placement(self, commit: str) -> str | None:
        """Return the hash of the place of all machine code in the libraries of a built commit. None: unknown."""
        return code_identity.placement(self._environment.unpacked(commit))

    def build_info(self, commit: str) -> dict[str, Any]:
        """Return the build-info.json of a commit. {} where it is not built, or has none yet."""
        return fingerprint.build_info(self._environment.unpacked(commit))

    def read_builds(self, before: str, after: str) -> list[dict[str, Any]]:
        """Return the build-info.json of two builds, {} of one that is missing.

        CUDA code that was left out of what is timed is compiled for it, unless no file of it changed.

        Raises:
            CommitNotBuilt: it does not compile.
        """
        folders = [self._environment.unpacked(commit) for commit in (before, after)]
        files = config.project(self.root).built_from or (".",)
        changed = [name for path in files for name in git.changed_files(self.root, before, after, Path(path))]
        if all(name.endswith(NO_CUDA) for name in changed):
            return [fingerprint.timed_info(folder) for folder in folders]
        repo: Any = get_repo(self._conf)
        for commit in filter(self._environment.lacks_figures, (before, after)):
            self._say(f"compiling the CUDA code of {commit[:SHORT]}, for its figures")
            with asv_log.set_level(logging.CRITICAL):  # the caller reports it
                self._environment.compile_cuda(repo, commit)
        return [fingerprint.build_info(folder) for folder in folders]

    def folder(self, before: str, after: str) -> Path:
        """Return the folder of the rounds of two commits."""
        return self._folder / f"{before[:COMMIT_DIGITS]}-{after[:COMMIT_DIGITS]}"

    def measure_pair(
        self, before: str, after: str, series: Sequence[Series], rounds: int, deadline: float
    ) -> dict[Series, Pair]:
        """Bring some series of two built commits to `rounds` rounds a side, and return their rounds.

        Raises:
            KernelVelocityError: asv itself failed, or recorded rounds cannot be read.
        """
        folder = self.folder(before, after)
        if self.again and folder not in self._aside and folder.exists():
            folder.rename(folder.with_name(f"{folder.name}-until-{time.strftime('%Y%m%d-%H%M%S')}"))
        self._aside.add(folder)
        pairs = ab_rounds.read(self._telemetry(folder), before, after, self.began, time.time())
        missing = {key: rounds - (pairs[key].rounds if key in pairs else 0) for key in series}
        # Series of an interrupted session may have more than others: each is measured with those that miss as many
        for number in sorted({count + count % 2 for count in missing.values() if count > 0}):
            group = [key for key, count in missing.items() if count > 0 and count + count % 2 == number]
            if self.clock() < deadline:
                self._measure(folder, (before, after), (*group, *witnesses(group, self.device)), number, deadline)
        return ab_rounds.read(self._telemetry(folder), before, after, self.began, time.time())

    def _telemetry(self, folder: Path) -> Path:
        return folder / str(self._environment.name)

    def _measure(
        self, folder: Path, commits: tuple[str, str], series: Sequence[Series], rounds: int, deadline: float
    ) -> None:
        """Have asv measure `rounds` rounds a side. It is ended at the deadline."""
        append_line(folder / ab_rounds.BLOCKS_FILE, with_checksum(json.dumps({"began": time.time(), "rounds": rounds})))
        reader, began = Reader(), self.clock()

        def on_line(line: str) -> None:
            if (step := reader.read(line, time.time())) is not None:
                self._say(f"round {step.round}/{step.rounds}, commit {step.commit}")
            if self.clock() >= deadline:
                raise _TimeIsUpError

        environ = {**os.environ, **self._environment.build_env_vars}
        try:
            spool = folder.relative_to(self.root)
            ended = run_apart(spool, commits, series, rounds, environ=environ, log=self._log, on_line=on_line)
            if not ended.is_whole:
                raise KernelVelocityError(str(ended))
        except _TimeIsUpError:
            pass
        finally:
            self.measured += self.clock() - began
            for commit, failure in reader.failures(commits, time.time()):
                add_failure(ab_rounds.failures_path(self._telemetry(folder), commit), failure)

    def _say(self, text: str) -> None:
        print(text, file=self.err, flush=True)


def run_apart(
    spool: Path,
    commits: Sequence[str],
    series: Sequence[Series],
    rounds: int,
    *,
    environ: Mapping[str, str],
    log: Path,
    on_line: Callable[[str], object] = lambda line: None,
) -> Ended:
    """Have asv measure rounds of commits in turns, in the current folder, so that nothing in results/ changes.

    Args:
        spool: where the measuring processes write their rounds and failures, from the current folder.
    """
    results = Path(settings().results_dir)
    listed = results / "benchmarks.json"
    before = listed.read_bytes() if listed.exists() else None
    options = ["--interleave-rounds", "--attribute", f"rounds={rounds}"]
    shutil.rmtree(results / MACHINE, ignore_errors=True)
    try:
        return run_asv(
            measuring(FOLDER / "commits.txt", commits, series, machine(MACHINE), options),
            root=Path(),
            environment={**environ, "KV_SPOOL": str(spool)},
            log=log,
            on_line=on_line,
        )
    finally:
        shutil.rmtree(results / MACHINE, ignore_errors=True)
        if before is None:
            listed.unlink(missing_ok=True)
        elif not listed.exists() or listed.read_bytes() != before:
            replace_bytes(listed, before)


def witnesses(series: Sequence[Series], device: str) -> tuple[Series, ...]:
    """Return the series to measure beside some, because they adjust them.

    On a CPU gauges are read beside the very samples. On a GPU it is PyTorch's eager version of the same test case.
    """
    if device != "cuda":
        return ()
    wanted = ((benchmark, (CONTROLS[0], case)) for benchmark, (_, case) in series)
    return tuple(key for key in dict.fromkeys(wanted) if key not in series)
