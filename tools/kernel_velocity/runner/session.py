"""One run of `kv track`: builds, measures, ingests and publishes a list of commits through asv."""

from __future__ import annotations

import logging
import math
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, TextIO, TypeVar

from asv.console import log
from asv.repo import get_repo

from kernel_velocity import units
from kernel_velocity.counts import listing
from kernel_velocity.engine import quiet, timing
from kernel_velocity.engine.reported import threads
from kernel_velocity.engine.spool import append_line, in_a_line
from kernel_velocity.engine.telemetry import Round
from kernel_velocity.errors import KernelVelocityError, ResultsError
from kernel_velocity.files import remove_left
from kernel_velocity.names import COMPILED, DEVICES
from kernel_velocity.past import past
from kernel_velocity.past.past import Past
from kernel_velocity.progress import left
from kernel_velocity.results import git, ingest, lines, sessions
from kernel_velocity.results.asv_file import MEASURING_FOLDERS, Series, StoredFile, StoredSeries
from kernel_velocity.results.git import SHORT, checked_out
from kernel_velocity.results.ingest import by_series
from kernel_velocity.results.lines import FAILURES, Failure, add_failure, decode_failure, failures_spool
from kernel_velocity.results.measurement import FIRST_LOOK, Measurement, is_enough, looks, round_interval
from kernel_velocity.roofline import ceilings
from kernel_velocity.roofline.roofs import THREADS
from kernel_velocity.runner import code_identity, figures, fingerprint, report, select
from kernel_velocity.runner.asv import Ended, Reader, environment_of, measuring, run_asv, run_measuring, settings
from kernel_velocity.runner.environment import CommitNotBuilt
from kernel_velocity.runner.host import write_site
from kernel_velocity.runner.report import Cost
from kernel_velocity.runner.select import CEILINGS_MODULE, Selection
from kernel_velocity.suite import config, packages

PAGES = "kernel-velocity"  # folder of the site below asv's html_dir
PROVISIONAL = 'id="unfinished"'  # in its first page
# s; longer than a night's default budget, shorter than a machine's drift
LONGEST_SESSION = 6 * 3600.0
NEVER_QUIET = (
    f"{quiet.IN_VAIN} rounds or more in a row waited for a quiet core in vain: but for one in {quiet.ASK_AGAIN} they "
    "wait no more, and values are adjusted by gauges of how busy it was"
)
CEILINGS_SERVE = 3600.0  # s; a processor's ceilings move by how busy its other tenants are
UNEXPECTED = 1200.0  # s beyond twice what a run expects, after which its provisional page renews itself no more

LOOKED_AT = 50  # newest commits in whose records a round's time is looked for
Line = TypeVar("Line", Round, Failure)


@dataclass(kw_only=True)
class Session:
    """The state of a run, and what is recorded of its commits. `root` must be the current folder, which asv uses."""

    root: Path
    commits: tuple[str, ...]  # newest first
    series: Selection
    rounds: int
    machine: str
    build_seconds: dict[str, float] = field(default_factory=dict)
    failed_builds: dict[str, str] = field(default_factory=dict)  # commit -> one line
    unreadable: dict[str, str] = field(default_factory=dict)  # commit -> one line: its results file is broken
    measured: tuple[str, ...] = ()  # commits timed by this run
    tracked: tuple[str, ...] = ()  # commits whose errors and compiler figures this run took
    notes: dict[str, None] = field(default_factory=dict)  # problems, one line each, in order
    reader: Reader = field(default_factory=Reader)
    _began: float = field(default_factory=time.time)
    _ended: float = 0.0

    def __post_init__(self) -> None:
        self._conf = settings()
        self._environment = environment_of(self._conf)
        self._environment.leave_cuda()
        self.results = Path(self._conf.results_dir).absolute()
        self.environment = str(self._environment.name)  # asv's name of it
        self._branch = checked_out(self.results)
        self._method = timing.method(os.environ)
        self._log = self.root / ".asv" / "logs" / f"track-{time.strftime('%Y%m%d-%H%M%S')}.log"

    def announce(self, again: bool, out: TextIO, *, first_look: bool = False) -> None:
        """Say how long building and measuring will take, and what would make it shorter, before either begins."""
        todo = [
            commit for commit in self.commits if again or not (self.is_readable(commit) and self.is_measured(commit))
        ]
        if not todo:
            return
        builds = {commit: self._environment.is_built(commit) for commit in todo}
        done = sum(0 if again else self._resumable_rounds(commit) for commit in todo)
        has_cuda = any(f".{DEVICES['cuda']}." in name for name, _ in self.series.figures)
        ahead = report.Ahead(
            commits=todo,
            series=self.series.series,
            rounds=self.rounds,
            done=done * len(self.series.series),
            builds=sum(not is_built for is_built in builds.values()),
            compilations=len(packages.cases(packages.lacking(self.series.series))),
            cuda=has_cuda * sum(self._lacks_figures(commit, is_built=is_built) for commit, is_built in builds.items()),
            has_look=first_look and not done and self.rounds > 1,
        )
        print(report.forecast(ahead, pace := self.pace()), file=out, flush=True)
        if not done and (line := report.shorter(ahead, pace)):
            print(line, file=out, flush=True)

    def _lacks_figures(self, commit: str, *, is_built: bool) -> bool:
        return self._environment.lacks_figures(commit) if is_built else self._environment.leaves_cuda

    def pace(self) -> report.Pace:
        """Return how long building and measuring take, by the newest commit that was measured here."""
        recorded = map(self.recorded_rounds, dict.fromkeys((*self.commits, *git.newest(self.root, LOOKED_AT))))
        return report.pace(next(filter(None, recorded), []))

    def build(self, again: bool, out: TextIO) -> None:
        """Build every commit that is not in the cache, the newest first. One that does not build is left out.

        `asv run` would build them too, but it records a null for every benchmark of a commit that does not build: a
        compiler that is missing today would erase recorded values.
        """
        repo: Any = get_repo(self._conf)
        if again:
            self._environment.forget_failures(self.commits)
        self._environment.create()
        for commit in self._environment.forget_changed(self.commits):
            print(changed(commit), file=out)
        for commit in self.commits:
            self._check_toolchain(commit, again, out)
            if self._environment.is_built(commit):
                continue
            began = time.time()
            try:
                with log.set_level(logging.CRITICAL):  # the error is printed below
                    twin = self._environment.build(repo, commit)
            except CommitNotBuilt as error:
                self.failed_builds[commit] = f"build failed: {error}"
                print(f"{commit[:SHORT]} does not build (`kv track --again 1` tries it again)", file=out, flush=True)
                continue
            self.build_seconds[commit] = time.time() - began
            print(built(commit, twin, self.build_seconds[commit]), file=out, flush=True)
            for note in code_identity.notes(fingerprint.build_info(self._environment.unpacked(commit))):
                print(f"note: {commit[:SHORT]}: {note}", file=out)

    def _compile_cuda(self, out: TextIO) -> tuple[str, ...]:
        """Compile the CUDA code of the tracked commits that was left out of what is timed: its figures are tracked.

        Returns:
            the commits whose CUDA code does not compile.
        """
        broken = []
        self.reader.pause(time.time())
        repo: Any = get_repo(self._conf)
        tracked = self.tracked if self.series.figures else ()
        for commit in (commit for commit in tracked if self._environment.lacks_figures(commit)):
            began = time.time()
            try:
                with log.set_level(logging.CRITICAL):
                    twin = self._environment.compile_cuda(repo, commit)
            except CommitNotBuilt as error:
                self.failed_builds[commit] = f"its CUDA code was not compiled: {error}"
                broken.append(commit)
            else:
                spent = time.time() - began
                self.build_seconds[commit] = self.build_seconds.get(commit, 0.0) + spent
                done = f"compiled in {spent:.1f} s" if twin is None else f"as {twin[:SHORT]} has it"
                print(f"CUDA code of {commit[:SHORT]}, for its figures: {done}", file=out, flush=True)
        return tuple(broken)

    def _check_toolchain(self, commit: str, again: bool, out: TextIO) -> None:
        """Remove a build by another toolchain if `again`, else print a note."""
        toolchain = self._environment.other_toolchain(commit)
        if toolchain is None:
            return
        if again:
            self._environment.forget_build(commit)
        elif toolchain:
            hint = "`kv track --again 1` builds it with the compilers of today"
            print(f"note: {commit[:SHORT]} was built with {toolchain}; {hint}", file=out)

    def recover(self, out: TextIO) -> None:
        """Ingest what a killed run left, and remove its temporary folders and files."""
        self._ingest(math.inf, out)
        for folder in (self.results / name for name in MEASURING_FOLDERS):
            if folder.is_dir():
                shutil.rmtree(folder)
                print(f"{folder}: left by an interrupted run, removed", file=out)
        for path in (*remove_left(self.results), *remove_left(self.root / ".asv" / "journals")):
            print(f"{path}: left by an interrupted run, removed", file=out)

    def measure(self, again: bool, out: TextIO, *, first_look: bool = False) -> None:
        """Have asv measure the built commits that are incomplete, rounds interleaved over the commits.

        With `first_look` the dashboard is written after the first round, too, and when all have as many as others had.
        Series that PyTorch has to compile first have their first round after that page. After FIRST_LOOK rounds those
        series go on whose interval is not narrow yet (`is_enough`).

        Errors and compiler figures are taken once, after the last round, where they disturb no timing. However this
        ends, no series loses rounds, unless it gains the wanted number.

        Raises:
            KernelVelocityError: asv itself failed.
        """
        built = [commit for commit in self.commits if commit not in self.failed_builds and self.is_readable(commit)]
        self.measured = tuple(commit for commit in built if again or not self.is_measured(commit))
        if len(self.measured) < len(built):
            complete = len(built) - len(self.measured)
            print(f"{units.count(complete, 'commit')} measured already (`kv track --again 1` repeats them)", file=out)
        tracked = self.series.tracked
        pending = (
            commit
            for commit in built
            if not select.is_tracked(self._stored_series(commit), tracked, failures=self._failure_counts(commit))
        )
        self.tracked = tuple(dict.fromkeys((*(self.measured if tracked else ()), *pending)))
        if not self.measured and not self.tracked:
            return
        self._began = time.time()
        done = {commit: 0 if again else self._resumable_rounds(commit) for commit in self.measured}
        if line := resuming_line(done, self.rounds, SHORT):
            print(line, file=out)
        try:
            self._measure_rounds(resuming_steps(done, self.rounds, first_look=first_look), first_look, out)
            broken = self._compile_cuda(out)
            if self.tracked and not self.measured:  # asv has not listed the benchmarks of today's suite yet
                self._run(self.tracked[:1], ["--bench", "just-discover"], (), out)
            whole = tuple(commit for commit in self.tracked if commit not in broken)
            for commits, once in ((whole, self.series.tracked), (broken, self.series.errors)):
                for commit in commits if once else ():
                    print(f"errors, counts and code figures of commit {commit[:SHORT]}", file=out, flush=True)
                    self._track(commit, once)
        finally:
            self._ended = time.time()
            # Processes that crashed or timed out could not write their failures themselves
            for commit, failure in self.reader.failures((*self.measured, *self.tracked), self._ended):
                add_failure(failures_spool(self.root, self.environment, commit), failure)
            self._ingest(self.rounds, out)
            if quiet.rounds_in_vain(self.root / ".asv" / "cache" / "gauge") >= quiet.IN_VAIN:
                self.notes[NEVER_QUIET] = None

    def _measure_rounds(self, steps: Sequence[AsvRun], first_look: bool, out: TextIO) -> None:
        """Measure the rounds of some steps. With `first_look` there is a page after each but the last.

        What PyTorch has yet to compile is measured after the first page, so that this does not wait for the compiler.
        """
        uncompiled = packages.lacking(self.series.series)
        for step in steps:
            series = self._unsettled(step, out)
            if not series:
                continue
            is_looked_at = first_look and step is not steps[-1]
            at_once = tuple(key for key in series if key not in uncompiled) if is_looked_at else ()
            later = tuple(key for key in series if at_once and key not in at_once)
            at_once = at_once or series
            if uncompiled and not later:
                self._compile(uncompiled, out)
            self._measure_step(step, at_once, out)
            if is_looked_at:
                self._show(step, step.before + step.rounds - steps[0].before, len(at_once) / len(series), out)
            if later:
                self._compile(uncompiled, out)
                self._measure_step(step, later, out)
            uncompiled = ()

    def _track(self, commit: str, wanted: Sequence[Series]) -> None:
        """Take the errors, counts and figures of code of a commit, and store them in asv's form.

        Raises:
            KernelVelocityError: the process that takes them does not begin.
        """
        began = time.time()
        self.reader.pause(began, commit)
        suite = config.suite(self.root)
        variables = {
            "ASV_CONF_DIR": str(self.root.absolute()),
            "ASV_ENV_NAME": self.environment,
            "ASV_COMMIT": commit,
        }
        unpacked = self._environment.unpacked(commit)
        answers, code = figures.values(suite, unpacked, wanted, variables)
        if code:
            folder = self.path(commit).parent / sessions.CODE
            listings = {name: listing.store(text, folder) for name, text in code.items()}
            facts = replace(fingerprint.session(began, unpacked, os.environ), listings=listings)
            append_line(sessions.spool_path(self.root, self.environment, commit), sessions.encode(facts))
        spool = failures_spool(self.root, self.environment, commit)
        values: dict[str, dict[tuple[str, ...], float | None]] = {}
        for (benchmark, params), value in answers.items():
            of_benchmark = values.setdefault(benchmark, {})
            if not isinstance(value, figures.Missing):
                of_benchmark[params] = float(value)
                continue
            of_benchmark[params] = None if value.failed else math.nan
            failure = Failure(
                benchmark=benchmark,
                params=params,
                time=time.time(),
                error=in_a_line(value.why),
                died=value.died,
                skipped=not value.failed,
            )
            add_failure(spool, failure)
        file, seconds = StoredFile(self.path(commit)), (time.time() - began) / len(values)
        for benchmark, of_benchmark in values.items():
            axes, version = figures.axes(suite, benchmark), self.series.versions[benchmark]
            file.track(benchmark, version, axes, of_benchmark, began=began, seconds=seconds)
        file.save()

    def _measure_step(self, step: AsvRun, series: Sequence[Series], out: TextIO) -> None:
        rounds = ["--interleave-rounds", "--record-samples", "--attribute", f"rounds={step.rounds}"]
        append = ["--append-samples"] if step.before else []
        self._run(step.commits, [*rounds, *append], series, out, (step.before, self.rounds))

    def _compile(self, series: Sequence[Series], out: TextIO) -> None:
        """Have PyTorch compile what some series run, in a process beside which nothing is timed."""
        cases = packages.cases(series)
        print(f"PyTorch compiles {units.count(len(cases), 'test case')}, once in this clone", file=out, flush=True)
        began, printed = time.time(), ["it printed nothing"]
        arguments = [text for case in cases for text in case]
        status = run_measuring(packages.MODULE, arguments, lambda line: printed.append(line.strip() or printed[-1]))
        if status:
            self.notes[f"PyTorch's compiling ended with status {status}: {printed[-1]}; rounds compile the rest"] = None
        print(f"compiled in {time.time() - began:.0f} s", file=out, flush=True)

    def _unsettled(self, step: AsvRun, out: TextIO) -> tuple[Series, ...]:
        """Return the series to measure in a step: from FIRST_LOOK on those that have not enough rounds at some commit.

        They are measured at all of its commits, in turns, so that a pair of commits is compared by rounds of the same
        minutes.
        """
        if step.before < FIRST_LOOK:
            return self.series.series
        stored = [self._stored_series(commit) for commit in step.commits]
        wide = tuple(
            series
            for series in self.series.series
            if any(not has_enough(values.get(series), self.rounds) for values in stored)
        )
        settled = len(self.series.series) - len(wide)
        if settled:
            print(f"{settled} of {len(self.series.series)} series have enough after {step.before} rounds", file=out)
        return wide

    def _show(self, step: AsvRun, new: int, share: float, out: TextIO) -> None:
        """Write the dashboard while rounds are still to come, from a copy: what is recorded depends on all rounds.

        Args:
            step: the last one. new: rounds of each commit that this run measured. share: of its series in these.
        """
        self.reader.pause(time.time())
        done, a_round = step.before + step.rounds, (time.time() - self._began) / new / share
        minutes = max(round(a_round * (self.rounds - done) / 60), 1)
        commits = units.count(len(self.measured), "commit")
        measured = f"{done} of {units.count(self.rounds, 'round')} of {commits} measured"
        compiling = f" ({COMPILED} follows: PyTorch compiles it now)" if share < 1 else ""
        rest = f"the others take about {units.count(minutes, 'minute')} from {time.strftime('%H:%M')} on"
        text = f"Provisional: {measured}{compiling}, {rest}"
        until = time.time() + 2 * 60 * minutes + UNEXPECTED
        self._site.parent.mkdir(parents=True, exist_ok=True)
        try:
            with tempfile.TemporaryDirectory(dir=self.root / ".asv") as folder:
                results = Path(folder, "results")
                shutil.copytree(self.results, results)
                shutil.copytree(self.root / ".asv" / "spool", Path(folder, ".asv", "spool"))
                ingest.ingest(Path(folder), results=results, machine=self.machine)
                write_site(results=results, repository=self.root, out=self._site.parent, unfinished=(until, text))
        except KernelVelocityError as error:  # the rounds to come are worth more
            print(f"no first look: {error}", file=out, flush=True)
        else:
            print(f"First look: {self._site.as_uri()} (it renews itself)", file=out, flush=True)

    def end_look(self, out: TextIO) -> None:
        """Replace a provisional dashboard, of a run that ends early, by one of what is recorded."""
        try:
            if PROVISIONAL not in self._site.read_text(encoding="utf-8"):
                return
            write_site(results=self.results, repository=self.root, out=self._site.parent)
        except FileNotFoundError:  # there is none yet
            return
        except (KernelVelocityError, OSError) as error:
            print(f"the dashboard stays provisional: {error}", file=out, flush=True)
        else:
            print(f"Dashboard of what was measured: {self._site.as_uri()}", file=out, flush=True)

    def _run(
        self,
        commits: tuple[str, ...],
        options: list[str],
        series: Sequence[Series],
        out: TextIO,
        rounds: tuple[int, int] = (0, 1),
    ) -> None:
        """Have asv run series of some commits.

        Args:
            rounds: how many were measured before, of how many.

        Raises:
            KernelVelocityError: asv itself failed.
        """
        began = time.time()
        ended = self._asv_run(commits, series, options, lambda line: self._progress(line, began, rounds, out))
        if not ended.is_whole:
            raise KernelVelocityError(str(ended))

    def _asv_run(
        self,
        commits: tuple[str, ...],
        series: Sequence[Series],
        options: list[str],
        on_line: Callable[[str], object] = lambda line: None,
    ) -> Ended:
        """Have asv run series of some commits."""
        return run_asv(
            measuring(self.root / ".asv" / "track-commits.txt", commits, series, self.machine, options),
            root=self.root,
            environment=os.environ,
            log=self._log,
            on_line=on_line,
        )

    def measure_ceilings(self, device: str, out: TextIO) -> None:
        """Have asv measure the ceilings of a device ("cpu", "cuda") for the newest commit that this run measured.

        A failure is a note: the timings are valid without ceilings. A recorded ceiling that cannot be measured now is
        kept. A processor's serve the runs of an hour: they took 35 of the 74 s of a commit with one round. A GPU's are
        measured each time, as only torch, in another process, knows of which GPU recorded ones are.
        """
        if not self.measured or not Path(self._conf.benchmark_dir, CEILINGS_MODULE).is_file():
            return
        # Those of `kv peaks` are in no results, which others get
        recorded = ceilings.recorded((self.results / self.machine).glob("*.json"), device) if device == "cpu" else ()
        ages = [time.time() - before.began for before in recorded if before.figures.get(THREADS) == threads()]
        if latest := [age for age in ages if 0 <= age < CEILINGS_SERVE]:
            print(f"the machine's ceilings: those recorded {min(latest) / 60:.0f} minutes ago", file=out)
            return
        print("measuring the ceilings of the machine (device.*), about half a minute", file=out, flush=True)
        newest = self.measured[:1]
        try:
            ended = self._asv_run(newest, (), ["--bench", ceilings_expression(device)])
        finally:
            self._ingest(math.inf, out)
        if ended.status != 0:
            self.notes[f"the machine's ceilings were not all measured: {ended}"] = None

    def _progress(self, line: str, began: float, rounds: tuple[int, int], out: TextIO) -> None:
        now = time.time()
        step = self.reader.read(line, now)
        if step is not None:
            which = f"round {rounds[0] + step.round}/{rounds[1]}, commit {step.commit}"
            spent, rest = now - self._began, left(step.percent / 100, now - began)
            print(f"[{step.percent:3.0f}%] {which}, {spent:.0f} s{rest}", file=out, flush=True)

    def path(self, commit: str) -> Path:
        """Return the path of asv's results file of a commit."""
        return lines.results_path(self.results / self.machine, commit, self.environment)

    def is_readable(self, commit: str) -> bool:
        """Return whether asv can read a commit's results file. A broken one is noted, because asv would abort."""
        try:
            self._stored_series(commit)
        except ResultsError as error:
            self.unreadable[commit] = f"not measured: {commit[:SHORT]}: {error}; move that file away"
        return commit not in self.unreadable

    def failed_before(self, commit: str) -> bool:
        """Return whether a failed build of a commit is recorded."""
        return self._environment.failed_before(commit)

    def forget_failures(self) -> None:
        """Remove the records of failed builds of this run's commits, so that they are built again."""
        self._environment.forget_failures(self.commits)

    def measured_since(self, commit: str, when: float) -> bool:
        """Return whether every recorded round of a commit's chosen series is newer than a Unix time, s. False: none."""
        wanted = set(self.series.series)
        times = [record.time for record in self.recorded_rounds(commit) if (record.benchmark, record.params) in wanted]
        now = time.time()  # a later time was recorded before the clock was set back
        return bool(times) and all(when <= moment <= now for moment in times)

    def is_measured(self, commit: str) -> bool:
        """Return whether every series of a commit has its rounds by this run's method, or a reason for their lack."""
        stored, recorded = self._stored_series(commit), by_series(self.recorded_rounds(commit))
        other = {series for series, rounds in recorded.items() if rounds[-1].method != self._method}
        failures = self._failure_counts(commit)
        settled = {
            series
            for series, rounds in recorded.items()
            if is_enough(len(rounds), round_interval([round_.estimate for round_ in rounds]), self.rounds)
        }
        return select.is_measured(
            stored, self.series.series, self.rounds, failures=failures, other_method=other, settled=settled
        )

    def _resumable_rounds(self, commit: str) -> int:
        """Return how many rounds of a commit this run can append to. 0 where the machine has changed."""
        last = sessions.at(lines.read_sessions(self.path(commit), []), None)
        if last is not None and sessions.changes(last.facts, fingerprint.now(os.environ)):
            return 0
        return resumable_rounds(
            self._stored_series(commit),
            by_series(self.recorded_rounds(commit)),
            self.series.series,
            failures=self._failure_counts(commit),
            rounds=self.rounds,
            method=self._method,
            now=time.time(),
        )

    def _stored_series(self, commit: str) -> dict[Series, StoredSeries]:
        """Return the stored series of a commit whose version is that of today's suite.

        Raises:
            ResultsError: the results file is not one of asv.
        """
        if not (path := self.path(commit)).exists():
            return {}
        stored, versions = StoredFile(path), self.series.versions
        return {key: value for key, value in stored.series() if stored.version(key[0]) == versions.get(key[0])}

    def _failure_counts(self, commit: str) -> Counter[Series]:
        """Return the number of recorded failures of each series, inapplicable ones included."""
        failures = self._lines(commit, FAILURES, decode_failure)
        return Counter((failure.benchmark, failure.params) for failure in failures)

    def recorded_rounds(self, commit: str) -> list[Round]:
        """Return the recorded rounds of a commit. Malformed lines are noted."""
        return self._lines(commit, lines.ROUNDS, lines.decode_round)

    def _lines(self, commit: str, suffix: str, decode: Callable[[str], Line]) -> list[Line]:
        notes: list[str] = []
        try:
            records = lines.read(lines.beside(self.path(commit), suffix), decode, notes)
        except ResultsError as error:
            records, notes = [], [str(error)]
        self.notes.update(dict.fromkeys(notes))
        return records

    def _ingest(self, wanted: float, out: TextIO) -> None:
        """Move telemetry beside asv's results. Print a line for each restored or malformed entry."""
        summary = ingest.ingest(self.root, results=self.results, machine=self.machine, wanted=wanted)
        for line in (*summary.restored, *summary.problems):
            print(line, file=out)
        self.notes.update(dict.fromkeys(self.reader.left))
        if (branch := checked_out(self.results)) != self._branch:
            self.notes[
                f"{self.results.name}/: {self._branch} was checked out when this run began, {branch} is now; what was "
                f"measured since lies beside the results of {branch}: switch branches between runs"
            ] = None

    @property
    def _site(self) -> Path:
        """The dashboard's first page."""
        return Path(self._conf.html_dir).absolute() / PAGES / "index.html"

    def publish(self, out: TextIO) -> Path:
        """Write asv's site with our pages in it. Return the path of our index.

        One unreadable file of any machine fails asv's whole site. Our pages are then written without it.
        """
        ended = run_asv(["publish"], root=self.root, environment=os.environ, log=self._log)
        index = self._site
        if ended.status != 0 or not index.exists():
            print(f"asv's own page could not be made: {ended.last} (log: {self._log}); ours is below", file=out)
            write_site(results=self.results, repository=self.root, out=index.parent)
        return index

    def has_results(self) -> bool:
        """Return whether asv's list of benchmarks exists, without which it publishes nothing."""
        return (self.results / "benchmarks.json").exists()

    def measurements(self) -> list[Measurement]:
        """Return the recorded measurements of the run's commits and series on this machine."""
        if not self.has_results():
            return []
        recorded = past.open(self.results, self.root, commits=self.commits)
        self.notes.update(dict.fromkeys(recorded.problems))
        return self.among(recorded)

    def among(self, recorded: Past) -> list[Measurement]:
        """Return, of a recorded history, the measurements of the run's commits and series on this machine."""
        here, wanted = (self.machine, self.environment), set(self.series.series)
        return [
            measurement
            for commit in recorded.paths
            if commit in self.commits
            for measurement in recorded.at(commit)
            for key in [measurement.key]
            if (key.machine, key.environment) == here and (key.benchmark, (key.implementation, key.case)) in wanted
        ]

    def failures(self, *, of_this_run: bool = False) -> dict[str, list[Failure]]:
        """Return the recorded failures of each commit, or those of this run alone."""
        recorded = {commit: self._lines(commit, FAILURES, decode_failure) for commit in self.commits}
        return {
            commit: [failure for failure in several if not of_this_run or failure.time >= self._began]
            for commit, several in recorded.items()
        }

    def wrong_errors(self) -> dict[str, list[Series]]:
        """Return, by commit, the errors that failed although the same call has a time."""
        readable = (commit for commit in self.commits if commit not in self.unreadable)
        return {commit: select.wrong_errors(self._stored_series(commit), self.series.errors) for commit in readable}

    def costs(self) -> list[Cost]:
        """Return the cost of each commit in this run, oldest first."""
        wall = report.wall_clock(self.reader.steps, self._ended)

        def cost(commit: str) -> Cost:
            rounds = [round_ for round_ in self.recorded_rounds(commit) if round_.time >= self._began]
            return report.cost(commit, self.build_seconds.get(commit, 0.0), wall.get(commit[:SHORT], 0.0), rounds)

        return [cost(commit) for commit in reversed(self.measured)]


def built(commit: str, twin: str | None, seconds: float) -> str:
    """Return how a commit got its build: by itself, or from one that has the same files to build."""
    if twin is None:
        return f"built {commit[:SHORT]} in {seconds:.1f} s"
    return f"{commit[:SHORT]} takes the build of {twin[:SHORT]}, which has the same files to build"


def changed(commit: str) -> str:
    """Return that a build is made again."""
    return f"note: {commit[:SHORT]}: files of its build were changed since it was made; it is built again"


def ceilings_expression(device: str) -> str:
    """Return the regular expression that selects the ceilings of a device, and nothing else."""
    return rf"^device\.{DEVICES[device]}\.track_"


# How an interrupted run resumes ---------------------------------------------------------------------------------------
# Rounds are interleaved over the commits of a run, so an interruption leaves every commit with about as many. A resumed
# run measures the missing ones. Rounds of an earlier session are measured again, because sessions differ (docs: false
# alarms) and a measurement should be of one session.


@dataclass(frozen=True, kw_only=True)
class AsvRun:
    """One run of asv: `rounds` more rounds of each of some commits."""

    commits: tuple[str, ...]
    rounds: int
    before: int  # stored rounds to append to; 0: they are replaced


def resuming_steps(done: Mapping[str, int], rounds: int, *, first_look: bool = False) -> tuple[AsvRun, ...]:
    """Return the runs of asv that bring every commit to `rounds` rounds. The commits with the fewest come first.

    One ends at each of `looks`, where series that have enough are left out of the next.

    Args:
        done: resumable rounds by commit, in the order in which asv gets the commits.
        first_look: whether the first round of all is a run of its own.
    """
    begins = {number for number in done.values() if number < rounds}
    if not begins:
        return ()
    levels = sorted({*begins, *(look for look in looks(rounds) if look > min(begins))})
    if first_look and levels[0] == 0 < rounds:
        levels = sorted({*levels, 1})
    return tuple(
        AsvRun(
            commits=tuple(commit for commit, number in done.items() if number <= low),
            rounds=high - low,
            before=low,
        )
        for low, high in pairwise(levels)
    )


def has_enough(stored: StoredSeries | None, most: int) -> bool:
    """Return whether a series that was measured in this run needs no further rounds at a commit.

    One without a value does not apply, or failed: a wrong kernel is wrong in every round, and a crash or a timeout
    would cost as much again.
    """
    samples = () if stored is None else stored.samples or ()
    return not samples or is_enough(len(samples), round_interval(samples), most)


def resumable_rounds(
    stored: Mapping[Series, StoredSeries],
    measured: Mapping[Series, Sequence[Round]],
    wanted: Iterable[Series],
    *,
    failures: Mapping[Series, int],
    rounds: int,
    method: str,
    now: float,
) -> int:
    """Return how many rounds of a commit a run can append to. 0: it measures all rounds.

    Every series with a value must have the same number of rounds (a failed round counts), or enough, each with its
    sample and its telemetry, timed by this run's method in this session.

    Args:
        stored: asv's values. measured: the recorded rounds. wanted: the run's series.
        failures: number of recorded failures of a series.
        rounds: of a complete measurement. method: of this run.
        now: Unix time, s. Rounds that began later, or more than LONGEST_SESSION earlier, belong to another session.
    """
    counts: set[int] = set()
    for series in wanted:
        value = stored.get(series)
        if value is None:
            return 0
        if value.value is None:
            if not (value.failed or failures.get(series, 0)):
                return 0  # an earlier run left it out
            continue
        records = measured.get(series, ())
        if value.samples is None or len(records) != len(value.samples):
            return 0
        if not all(record.method == method and now - LONGEST_SESSION <= record.time <= now for record in records):
            return 0
        if len(records) < FIRST_LOOK or not has_enough(value, rounds):
            counts.add(len(records) + failures.get(series, 0))
    (count,) = counts if len(counts) == 1 else (0,)
    return count if count < rounds else 0


def resuming_line(done: Mapping[str, int], rounds: int, digits: int) -> str | None:
    """Return a line on the resumed commits, named by `digits` digits. None where none is resumed."""
    commits = [f"{commit[:digits]} after {number}" for commit, number in done.items() if number]
    return f"resuming {', '.join(commits)} of {rounds} rounds" if commits else None
