"""The report of a gate: exit status, order of the series, text for a terminal, files (findings/report.py). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kernel_velocity import statuses
from kernel_velocity.ab.confirm import GOES_ON
from kernel_velocity.findings.report import (
    COMPARISON_HEADS,
    ComparedSeries,
    JUnitCase,
    Report,
    commit_line,
    comparison_data,
    comparison_table,
)
from kernel_velocity.findings.text import bisection
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.records import Commit
from kernel_velocity.stats.sequential import LOOKS, Answer, Comparison, Obstacle
from kernel_velocity.statuses import Status
from kernel_velocity.tables import columns, literal
from kernel_velocity.verdict.ranges import CommitRange

NOTE = "change: of HEAD against BASE, + is slower; rounds: of each side; p: exact Mann-Whitney"
_NO_RUN = (Obstacle.FAILED, Obstacle.NOT_BUILT)


def doubt(comparison: Comparison) -> str:
    """Return why a series may be slower, in words. "" where it cannot be, or has no time at all."""
    if comparison.suspect:
        return "slower by the floor or more, but not settled"
    if comparison.unseen:
        return f"too few rounds for a look ({comparison.rounds} of {comparison.next_look or LOOKS[0]})"
    return "gone: it had times before" if comparison.obstacle is Obstacle.GONE else ""


@dataclass(frozen=True, kw_only=True)
class GateReport:
    """All that a gate reports, in any format."""

    base: Commit
    head: Commit
    comparisons: Mapping[Series, Comparison]
    budget: float  # s
    measured: float  # s that measuring took
    evidence: str  # the folder of the rounds
    expected: Mapping[Series, str] = field(default_factory=dict)  # slower, or may be, as announced: the reason
    commits: tuple[str, ...] = ()  # after `base` up to `head`, that can have changed a build; (): not known
    notes: tuple[str, ...] = ()
    unbuilt: str = ""  # why CUDA code that nothing here runs does not compile

    @property
    def _others(self) -> list[Comparison]:
        return [comparison for series, comparison in self.comparisons.items() if series not in self.expected]

    @property
    def status(self) -> Status:
        """The exit status.

        Nothing was compared where no series had a look, and one needed it: unchanged code of others says nothing about
        it. A commit that does not build leaves nothing to compare, either. A gate stays clean with improvements, with a
        series that is n/a on both sides or failed at the earlier commit alone, and with an unknown one that does not
        lean to slower.
        """
        series = self.comparisons.values()
        has_look = any(comparison.p is not None and not comparison.unseen for comparison in series)
        is_known = has_look or any(comparison.answer is Answer.SAME for comparison in series)
        return statuses.first(
            {
                Status.NOTHING: bool(self.unbuilt)
                or not is_known
                or (not has_look and any(comparison.unseen for comparison in series)),
                Status.REGRESSION: any(comparison.slower for comparison in self._others),
                Status.BENCHMARK_FAILED: any(comparison.obstacle is Obstacle.FAILED for comparison in series),
                Status.SUSPECT: any(map(doubt, self._others)),
            }
        )

    @property
    def words(self) -> str:
        """The verdict in words, with its reasons where the table may not show them."""
        reasons: list[str] = []
        if self.status is Status.SUSPECT:
            reasons = [*map(doubt, self._others)]
        if self.status is Status.NOTHING:
            because = (
                comparison.obstacle.value if comparison.obstacle else doubt(comparison) for comparison in self._others
            )
            reasons = [self.unbuilt, *because]
        goes_on = GOES_ON if any(comparison.next_look for comparison in self._others) else ""
        expected = f"{len(self.expected)} slower as expected" if self.expected else ""
        words = (self._lead, *reasons, goes_on * (self.status in (Status.NOTHING, Status.SUSPECT)), expected)
        return "; ".join(dict.fromkeys(filter(None, words)))

    @property
    def _lead(self) -> str:
        rounds = max((comparison.rounds for comparison in self._others if comparison.unseen), default=0)
        return "nothing was compared yet" if self.status is Status.NOTHING and rounds else self.status.words

    @property
    def cause(self) -> str:
        """Which of several commits made the worst series slower, and the command that finds it. "" without a doubt."""
        slower = next((series for series, row in self.rows.items() if row.comparison.slower), None)
        if slower is None or len(self.commits) < 2:
            return ""
        between = CommitRange(good=self.base.sha, bad=self.head.sha, commits=self.commits)
        implementation, case = slower[1]
        command = bisection(slower[0], implementation, case, self.base.sha, self.head.sha)
        return f"slower by {between}: {command}"

    @property
    def rows(self) -> dict[Series, ComparedSeries]:
        """The series, worst first: slower, failed, suspect, unknown, the same, faster. By how much within each."""

        def badness(series: Series) -> tuple[int, float, Series]:
            return _rank(self.comparisons[series]), -_size(self.comparisons[series]), series

        return {
            series: ComparedSeries(name(series), self.comparisons[series], self.expected.get(series))
            for series in sorted(self.comparisons, key=badness)
        }


def _rank(comparison: Comparison) -> int:
    ranks = (
        comparison.slower,
        comparison.obstacle in _NO_RUN,
        bool(doubt(comparison)),
        comparison.answer is Answer.UNKNOWN and comparison.obstacle is None,
        comparison.answer is Answer.UNKNOWN,
        not comparison.faster,
        True,
    )
    return ranks.index(True)


def _size(comparison: Comparison) -> float:
    if comparison.ratio is None:
        return 0.0
    return 1 / comparison.ratio if comparison.faster else comparison.ratio


def name(series: Series) -> str:
    """Return a series in one text: "matmul.Cpu.time_hot native float32-512x512x512"."""
    return " ".join([series[0], *series[1]])


def as_text(report: GateReport) -> str:
    """Return the table, worst first, the reasons of the answers, and the verdict."""
    lines = [f"{role} {commit_line(commit)}" for role, commit in (("BASE", report.base), ("HEAD", report.head))]
    if report.rows:
        lines += ["", columns([COMPARISON_HEADS, *(row.cells() for row in report.rows.values())]), f"  {NOTE}", ""]
        lines += [f"{text}:\n  {', '.join(names)}" for text, names in _reasons(report).items()]
    lines += [f"note: {note}" for note in report.notes]
    lines += [
        "",
        _summary(report),
        *filter(None, [report.cause]),
        f"rounds: {report.evidence}",
        f"verdict: {_verdict(report)}",
    ]
    return "\n".join(lines) + "\n"


def _reasons(report: GateReport) -> dict[str, list[str]]:
    """Return the reasons of the answers, each once, with the names of its series."""
    names: dict[str, list[str]] = {}
    for row in report.rows.values():
        names.setdefault(row.because, []).append(row.name)
    raw = [row.name for row in report.rows.values() if row.comparison.p is not None and not row.comparison.adjusted]
    if raw:
        names["not adjusted (not every round has something to adjust by that the series moves with)"] = raw
    return names


def _summary(report: GateReport) -> str:
    comparisons = report.comparisons.values()
    counts = {
        "slower": sum(comparison.slower for comparison in comparisons),
        "faster": sum(comparison.faster for comparison in comparisons),
        "the same": sum(comparison.answer is Answer.SAME for comparison in comparisons),
        "unknown": sum(comparison.answer is Answer.UNKNOWN for comparison in comparisons),
    }
    text = ", ".join(f"{count} {word}" for word, count in counts.items())
    return f"{len(comparisons)} series: {text}; {report.measured:.0f} s of measuring, of {report.budget:.0f} s"


def _verdict(report: GateReport) -> str:
    return f"{report.words} (exit status {report.status})"


def as_report(report: GateReport) -> Report:
    """Return what a gate writes to files."""
    rows = report.rows
    return Report(
        parts=list(_markdown(report)),
        data={
            "verdict": report.words,
            "exit_status": report.status,
            "base": _commit_data(report.base),
            "head": _commit_data(report.head),
            "candidates": report.commits,
            "budget": report.budget,
            "measured": report.measured,
            "evidence": report.evidence,
            "notes": report.notes,
            "series": [
                {"benchmark": benchmark, "implementation": implementation, "case": case}
                | comparison_data(row.comparison)
                | {"expected": row.expected}
                for (benchmark, (implementation, case)), row in rows.items()
            ],
        },
        cases=[_case(series, row) for series, row in rows.items()],
        suite={"name": "gate", "time": f"{report.measured:.1f}"},
    )


def _commit_data(commit: Commit) -> dict[str, str]:
    return {"sha": commit.sha, "subject": commit.subject, "author": commit.author}


def _markdown(report: GateReport) -> Iterator[str]:
    yield f"**{_verdict(report)}**"
    yield f"Base {literal(commit_line(report.base))}, head {literal(commit_line(report.head))}"
    if report.rows:
        yield comparison_table(report.rows.values())
        yield f"{NOTE[0].upper()}{NOTE[1:]}."
    yield from (f"Note: {literal(note)}" for note in report.notes)
    yield f"{_summary(report)}."
    if report.cause:
        yield f"{literal(report.cause)}."


def _case(series: Series, row: ComparedSeries) -> JUnitCase:
    """Return a series as a test case: slower is a failure if not expected, no run an error, unknown skipped."""
    comparison = row.comparison
    tag = "failure" if comparison.slower else "error" if comparison.obstacle in _NO_RUN else "skipped"
    has_passed = row.expected is not None or (tag == "skipped" and comparison.answer is not Answer.UNKNOWN)
    return JUnitCase(series[0], " ".join(series[1]), None if has_passed else tag, row.message)
