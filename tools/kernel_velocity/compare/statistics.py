"""All samples of a comparison in figures: `--stats`, and `--oneline` as `futhark bench` prints it. Pure."""

from __future__ import annotations

from kernel_velocity import units
from kernel_velocity.compare import table as compare_rows
from kernel_velocity.compare.result import Comparison
from kernel_velocity.compare.table import NONE
from kernel_velocity.tables import columns


def table(comparison: Comparison) -> str:
    """Return mean, standard deviation, min, max, p50, p99 of all samples of each implementation, as a table."""
    heads = ["problem", "case", "implementation", "n", "mean", "std", "min", "max", "p50", "p99"]
    lines = []
    for compared in comparison.compared:
        for row in compare_rows.rows_of(compared):
            if row.spread is None:
                continue
            found = row.spread
            values = (found.mean, found.deviation, found.min, found.max, found.p50, found.p99)
            shown = [NONE if value is None else "0" if value == 0 else units.seconds(value) for value in values]
            lines.append([compared.problem, compared.case, row.timed.implementation, f"{found.n:,}", *shown])
    return columns([heads, *lines]) + "\n" if lines else "no samples\n"


def one_lines(comparison: Comparison) -> str:
    """Return a line per implementation: `add_mul_exp float32-1M native: 61us (RSD 0.124; min -41%; max +182%)`."""
    lines = []
    for compared in comparison.compared:
        for row in compare_rows.rows_of(compared):
            what = f"{compared.problem} {compared.case} {row.timed.implementation}"
            lines.append(f"{what}: {compare_rows.one_line(row)}")
    return "".join(f"{line}\n" for line in lines)
