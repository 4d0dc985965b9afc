"""``kv gate --counts BASE HEAD``: what differs between two commits in figures of code and in counts of calls.

Nothing is timed, so it needs no quiet machine, and no lock where both commits are built. A figure differs or not. More
is not slower: the rules of the section (`counts.changes.Rules`) say which change is a regression (10) or a
suspect (11).

A count that HEAD lacks and BASE had is a suspect, one that fails at HEAD alone a failed benchmark (20). Where a commit
does not build, or no call that the suite wants counted could be counted at both, nothing was compared (22).
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from kernel_velocity import lock, statuses, units
from kernel_velocity.ab.session import AsvRunner
from kernel_velocity.counts import callgrind, compiled, machine_code
from kernel_velocity.counts.changes import Change, Rules, differing
from kernel_velocity.counts.gpu_figures import readable
from kernel_velocity.errors import NothingMeasured
from kernel_velocity.findings.report import JUnitCase, Report, commit_line
from kernel_velocity.findings.text import change as in_percent
from kernel_velocity.names import COUNTS, FIGURES, counted_case, is_gpu
from kernel_velocity.results import git
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.records import Commit
from kernel_velocity.runner import figures
from kernel_velocity.runner.checks import installed_torch
from kernel_velocity.runner.figures import Side
from kernel_velocity.runner.select import matching
from kernel_velocity.statuses import Status
from kernel_velocity.suite import config, counting
from kernel_velocity.suite.counting import Call
from kernel_velocity.tables import columns, literal, plain

NOTE = "more or fewer, not slower or faster: a count is no time"
MOST_OPCODES = 12  # of a kernel, that the report names
_TOOLS = {"valgrind": "counted", "nvdisasm": "code read"}
_HEADS = ("figure", "BASE", "HEAD", "change", "of")


@dataclass(frozen=True, kw_only=True)
class CountReport:
    """All that `kv gate --counts` reports, in any format."""

    base: Commit
    head: Commit
    before: Side
    after: Side
    calls: Sequence[Call]  # that were wanted
    rules: Rules
    seconds: float  # that counting took
    notes: Sequence[str] = ()

    @property
    def changes(self) -> list[Change]:
        """What differs: regressions, suspects, others, by the order of the figures."""
        changes = differing(self.before.figures, self.after.figures)
        return sorted(changes, key=lambda change: (not self.is_regression(change), not self.is_suspect(change)))

    def is_regression(self, change: Change) -> bool:
        """Return whether the rules call a change a regression."""
        return change.worsens(self.rules.regression, self.rules)

    def is_suspect(self, change: Change) -> bool:
        """Return whether the rules call a change a suspect."""
        return change.worsens(self.rules.suspect, self.rules)

    @property
    def compared(self) -> int:
        """How many figures both sides have."""
        return len(self.before.figures.keys() & self.after.figures.keys())

    @property
    def gone(self) -> list[Call]:
        """The calls that BASE alone has counts of, for a reason that is no failure."""
        return [call for call in self.calls if not self.before.reason(call) and call in self.after.unavailable]

    @property
    def broken(self) -> list[Call]:
        """The calls that failed at HEAD, and not at BASE."""
        return [call for call in self.calls if call in self.after.failed and call not in self.before.failed]

    @property
    def status(self) -> Status:
        """The exit status."""
        has_counted = any(not self.before.reason(call) and not self.after.reason(call) for call in self.calls)
        changes = self.changes
        return statuses.first(
            {
                Status.NOTHING: not self.compared or (bool(self.calls) and not has_counted and not self.broken),
                Status.REGRESSION: any(map(self.is_regression, changes)),
                Status.BENCHMARK_FAILED: bool(self.broken),
                Status.SUSPECT: any(map(self.is_suspect, changes)) or bool(self.gone),
            }
        )

    @property
    def words(self) -> str:
        """The verdict in words, with its reasons."""
        changes = self.changes
        regressions, suspects = ([c for c in changes if judge(c)] for judge in (self.is_regression, self.is_suspect))
        counted = {
            "worse although they must not be": units.count(len(regressions), "figure"),
            "to look at": units.count(len(suspects), "figure"),
            "failing": units.count(len(self.broken), "call"),
            "not counted any more": units.count(len(self.gone), "call"),
        }
        reasons = [f"{what}: {number}" for what, number in counted.items() if not number.startswith("0")]
        reasons += [f"differing: {len(changes)} of {units.count(self.compared, 'figure')}"]
        lead = "unlike before" if self.status is Status.SUSPECT and suspects else self.status.words
        return "; ".join([lead, *reasons])


def compare(args: argparse.Namespace, err: TextIO) -> CountReport:
    """Build both commits where they are not, count, compare."""
    config.check(args.root)
    installed_torch()
    is_tree = args.head == "."
    with chdir(args.root):
        base = git.resolve(Path(), "BASE", args.base)
        head = git.working_tree(Path()) if is_tree else git.resolve(Path(), "HEAD", args.head)
        names = ("BASE", "the unchanged working tree" if is_tree else "HEAD")
        git.check_two(Path(), names, base, head, NothingMeasured)
        suite, project = config.suite(Path()), config.project(Path())
        _matching(counting.calls(suite, None), args.bench)  # before minutes of building
        runner = AsvRunner(Path(), device="cpu", err=err, again=args.again, with_cuda=True)
        _build(runner, (base, head), wait=args.wait)
        began = time.monotonic()
        builds = [runner.unpacked(commit) for commit in (base, head)]
        infos = [runner.build_info(commit) for commit in (base, head)]
        calls = _matching(counting.calls(suite, infos), args.bench)
        if calls:
            print(f"counting {units.count(len(calls), 'call')} at 2 commits", file=err, flush=True)
        before, after = figures.count(suite, builds, calls)
        kernels = dict.fromkeys((*suite.modules(), *project.kernels)) if args.bench is None else ()
        for side, info in zip((before, after), infos, strict=True):
            side.figures |= compiled.figures(info, dict.fromkeys((*kernels, *(call.kernel for call in calls))))
        if not calls and not before.figures:
            raise NothingMeasured(
                "nothing is counted here: give a definition of the suite @kv.benchmark(counts=[...]), whose "
                "implementation is a C function, or gpu={...}, the GPU code of its implementations"
            )
        commits = git.read(Path(), [base, head]).commits
        changed = git.changed_files(Path(), base, head, suite.folder)
        notes = [f"not compared, because both sides run the benchmarks that lie here: {units.listed(changed)}"]
        return CountReport(
            base=commits[base],
            head=commits[head],
            before=before,
            after=after,
            calls=calls,
            rules=project.counts,
            seconds=time.monotonic() - began,
            notes=notes if changed else (),
        )


def _matching(calls: Sequence[Call], bench: str | None) -> list[Call]:
    """Return the calls of which a series matches a regular expression, as asv writes series."""
    series: dict[Series, Call] = {
        (
            f"{call.kernel}.{'Cuda' if is_gpu(call.case) else 'Cpu'}.track_{name}",
            (call.implementation, call.of_series),
        ): call
        for call in calls
        for name in (FIGURES["cuda"] if is_gpu(call.case) else COUNTS)
    }
    return [*dict.fromkeys(series[key] for key in matching([*series], bench))]


def _build(runner: AsvRunner, commits: Sequence[str], *, wait: bool) -> None:
    """Build the commits that are not built, under the clone's lock, which other runs of the clone have, too.

    Raises:
        NothingMeasured: one does not build.
    """
    missing = [commit for commit in commits if not runner.is_prepared(commit)]
    if not missing:
        return
    held = lock.take(Path(), measures=False, wait=wait)
    try:
        for commit in missing:
            if (why := runner.prepare(commit)) is not None:
                raise NothingMeasured(f"nothing to compare: {why}")
    finally:
        if held is not None:
            held.close()


# The report -----------------------------------------------------------------------------------------------------------


def as_text(report: CountReport) -> str:
    """Return what differs, the worst first, what could not be counted, and the verdict."""
    lines = [f"{role} {commit_line(commit)}" for role, commit in (("BASE", report.base), ("HEAD", report.head))]
    if report.changes:
        lines += ["", columns([_HEADS, *map(_cells, report.changes)]), f"  {NOTE}"]
    lines += ["", *_explained(report)]
    lines += [f"{text}: {', '.join(names)}" for text, names in _missing(report).items()]
    lines += [f"note: {note}" for note in report.notes]
    lines += [_summary(report), f"verdict: {_verdict(report)}"]
    return "\n".join(lines) + "\n"


def _cells(change: Change) -> tuple[str, ...]:
    key, ratio = change.key, change.ratio
    name = " ".join((key.kernel, key.implementation, key.case))
    return name, f"{change.before:,}", f"{change.after:,}", "new" if ratio is None else in_percent(ratio), _of(change)


def _of(change: Change) -> str:
    return change.unit if change.key.figure not in COUNTS else change.key.figure.replace("_", " ")


def _explained(report: CountReport) -> Iterator[str]:
    """Yield what in the GPU code of calls differs: occupancies of kernels, and instructions by opcode."""
    for call in report.calls:
        if call not in report.before.code or call not in report.after.code:
            continue
        before, after = report.before.code[call], report.after.code[call]
        for kernel, words in before["occupancies"].items():
            if (now := after["occupancies"].get(kernel, words)) != words:
                yield f"{' '.join(call)}, {readable(kernel)}: {words} -> {now}"
        opcodes: Counter[str] = Counter(after["details"])
        opcodes.subtract(before["details"])
        differing = sorted((name for name, more in opcodes.items() if more), key=lambda name: -abs(opcodes[name]))
        texts = [
            f"{name} {before['details'].get(name, 0):,} -> {after['details'].get(name, 0):,}" for name in differing
        ]
        if before["details"] and after["details"] and texts:
            yield f"{' '.join(call)}: {units.listed(texts, MOST_OPCODES)}"


def _missing(report: CountReport) -> dict[str, list[str]]:
    """Return why calls were not compared, with their names."""
    reasons: dict[str, list[str]] = {}
    for call in report.calls:
        sides = {"BASE": report.before.reason(call), "HEAD": report.after.reason(call)}
        why = {side: text for side, text in sides.items() if text}
        if len(set(sides.values())) == 1 and why:
            why = {"both": why["HEAD"]}
        for side, text in why.items():
            word = "failed" if call in (report.before if side == "BASE" else report.after).failed else "n/a"
            reasons.setdefault(f"{word} ({side}), {plain(text)}", []).append(" ".join(call))
    for call in report.calls:
        lacking = [set(side.code.get(call, {}).get("missing", {}).values()) for side in (report.before, report.after)]
        for why in sorted(lacking[0] | lacking[1]):
            role = "both" if why in lacking[0] & lacking[1] else "BASE" if why in lacking[0] else "HEAD"
            reasons.setdefault(f"n/a ({role}) in part, {plain(why)}", []).append(" ".join(call))
    return reasons


def _summary(report: CountReport) -> str:
    by = _counted_by()
    counted = "".join(f", {verb} by {name} {by[name]}" for name, verb in _TOOLS.items() if name in by)
    differ = len(report.changes)
    return f"{units.count(report.compared, 'figure')}: {differ} differ, {report.compared - differ} equal{counted}; " + (
        f"{report.seconds:.0f} s"
    )


def _counted_by() -> dict[str, str]:
    return callgrind.counted_by() | machine_code.read_by()


def _verdict(report: CountReport) -> str:
    return f"{report.words} (exit status {report.status})"


def as_report(report: CountReport) -> Report:
    """Return what is written to files."""
    return Report(
        parts=list(_markdown(report)),
        data={
            "verdict": report.words,
            "exit_status": report.status,
            "base": {"sha": report.base.sha, "subject": report.base.subject, "author": report.base.author},
            "head": {"sha": report.head.sha, "subject": report.head.subject, "author": report.head.author},
            "counted_by": _counted_by(),
            "seconds": report.seconds,
            "notes": list(report.notes),
            "explained": list(_explained(report)),
            "compared": report.compared,
            "changes": [
                {**change.key._asdict(), "unit": change.unit, "before": change.before, "after": change.after}
                | {"regression": report.is_regression(change), "suspect": report.is_suspect(change)}
                for change in report.changes
            ],
            "missing": [
                {**call._asdict(), "base": report.before.reason(call), "head": report.after.reason(call)}
                for call in report.calls
                if report.before.reason(call) or report.after.reason(call)
            ],
        },
        cases=list(_cases(report)),
        suite={"name": "gate --counts", "time": f"{report.seconds:.1f}"},
    )


def _markdown(report: CountReport) -> Iterator[str]:
    yield f"**{_verdict(report)}**"
    yield f"Base {literal(commit_line(report.base))}, head {literal(commit_line(report.head))}"
    if report.changes:
        rows = [[literal(name), *rest] for name, *rest in map(_cells, report.changes)]
        table = [_HEADS, ("---", "--:", "--:", "--:", "---"), *rows]
        yield "\n".join(f"| {' | '.join(row)} |" for row in table)
        yield f"{NOTE[0].upper()}{NOTE[1:]}."
    yield from map(literal, _explained(report))
    yield from (f"{literal(text)}: {literal(', '.join(names))}" for text, names in _missing(report).items())
    yield from (f"Note: {literal(note)}" for note in report.notes)
    yield f"{_summary(report)}."


def _cases(report: CountReport) -> Iterator[JUnitCase]:
    """Yield each call as a test case: regressions are failures, what failed an error, n/a skipped."""
    changes: dict[tuple[str, ...], list[Change]] = {}
    for change in report.changes:
        changes.setdefault(change.key[:3], []).append(change)
    keys = dict.fromkeys((*(key[:3] for key in report.before.figures), *changes))
    for key in keys:
        of_key = changes.get(key, [])
        tag = "failure" if any(map(report.is_regression, of_key)) else None
        text = "; ".join(f"{_of(change)}: {change.before:,} -> {change.after:,}" for change in of_key) or "equal"
        yield JUnitCase(key[0], " ".join(key[1:]), tag, text)
    for call in report.calls:
        if why := report.after.reason(call):
            tag = "error" if call in report.after.failed else "skipped"
            yield JUnitCase(call.kernel, f"{call.implementation} {counted_case(call.case)}", tag, plain(why))
