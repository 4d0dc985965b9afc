"""What a replay found, as text: figures become ready strings here, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

from kernel_velocity.lab.rules import Proof, Result, Summary
from kernel_velocity.tables import Table, aligned, percent
from kernel_velocity.units import seconds

COLUMNS = (
    "rule",
    "median error",
    "p90",
    "within .5%",
    "total time",
    "coverage",
    "of the mean",
    "lag 1",
    "kept",
    "stopped by",
)
FOOTNOTES = (
    "error: |estimate - truth| / truth, the estimate being the harness's (10% trimmed mean without the first fifth) of "
    "what the rule kept; of the mean: median error of the plain mean of the same samples",
    "coverage: share of traces whose within-run 95% interval holds the truth",
    "lag 1: median autocorrelation of a sample with the next, of all samples taken; kept: of those behind the estimate",
    "trace ended: the rule wanted more than the trace had; on recorded traces its error is then near 0 by construction",
)


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _row(found: Summary) -> tuple[str, ...]:
    reasons = ", ".join(f"{reason} {count}" for reason, count in found.reasons)
    return (
        found.rule,
        percent(found.median),
        percent(found.p90),
        percent(found.close),
        seconds(found.total),
        percent(found.coverage),
        percent(found.median_of_mean),
        _plain(found.correlation),
        _plain(found.correlation_kept),
        reasons,
    )


def _result(found: Result) -> Table:
    compared = "; ".join(
        f"{each.first} is worse in the median in {percent(each.worse_median)}, in p90 in {percent(each.worse_p90)}"
        for each in found.comparisons
    )
    note = f"{found.traces} traces; paired bootstrap over what was measured, with a fixed time that costs as much: "
    note += f"{compared} of resamples"
    rows = [_row(each) for each in sorted(found.summaries, key=lambda each: each.median)]
    return Table(found.title, note, COLUMNS, rows)


def tables(found: Proof) -> list[Table]:
    """Return every table of a replay, as ready strings."""
    rules = [each.rule for each in found.repeatabilities]
    families = [
        [rule, *(percent(errors[rule]) for errors in found.families.values())]
        for rule in sorted(rules, key=lambda rule: max(errors[rule] for errors in found.families.values()))
    ]
    repeated = [
        [each.rule, percent(each.deviation), seconds(each.seconds)]
        for each in sorted(found.repeatabilities, key=lambda each: each.deviation)
    ]
    return [
        *(_result(each) for each in found.results),
        Table("one family of noise at a time", "median error, held out", ["rule", *found.families], families),
        Table(
            "15 repetitions",
            "relative standard deviation of the estimates, and time of a repetition; medians over mixtures, held out",
            ["rule", "RSD", "run time"],
            repeated,
        ),
    ]


def text(found: Proof) -> str:
    """Return the tables as text, columns aligned."""
    parts = [aligned(replace(table, title=f"{table.title} (seed {found.seed})")) for table in tables(found)]
    return "\n\n".join((*parts, *FOOTNOTES)) + "\n"
