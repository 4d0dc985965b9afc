"""A comparison as text for a terminal: the system, and per problem times, speed-ups, whole functions and errors.

`all_samples` has the figures of all samples (`--stats`).
"""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernel_velocity import units
from kernel_velocity.compare.result import FAILED, Average, Compared, ComparedRow, LiveComparison
from kernel_velocity.roofline import model
from kernel_velocity.stats import speedup
from kernel_velocity.stats.speedup import SpeedUp, Spread
from kernel_velocity.tables import columns
from kernel_velocity.unproven import UNPROVEN

WIDEST = 160  # characters: more than that is no easier to read
NARROWEST = 60
NONE = "-"
MEGABYTE = 1e6  # bytes
NO_BREAK = "\u00a0"
GAP = 2  # blanks between columns, as `tables.columns` sets them
HISTOGRAM_BINS = 8  # of a histogram
BARS = "▁▂▃▄▅▆▇█"
LEGEND: Mapping[str, str] = {  # of the columns that need one
    "where": "where: the innermost memory that holds the working set",
    "MB": "MB: of the largest tensor",
    "time ±95%": "time: median of the rounds, ± the larger half of its 95% interval",
    "mean ±std": "mean, std, p50, p99: of all samples",
    "eff.": "eff.: roofline efficiency, the share of what memory or the peak allows (!: see the warnings)",
    "cache": "cache: benefit, times faster than DRAM allows",
    "samples": "samples: histogram, fastest to p99",
}
_SYSTEM = ("device", "caches", "clocks", "free memory", "load", "cores", "threads", "python", "torch", "cuda", "driver")
_SETTINGS = ("preset", "rule", "parameters", "rounds", "warm-up", "sample", "tolerance", "reference")


@dataclass(frozen=True)
class Column:
    """A column of ready strings. A narrow terminal drops columns by rising `keep`, and never those of None."""

    head: str
    cells: Sequence[str]
    keep: int | None = None

    @property
    def width(self) -> int:
        """Return how many characters it takes."""
        return max(map(len, (self.head, *self.cells)))


def table(comparison: LiveComparison, width: int) -> str:
    """Return the whole comparison, in lines of at most `width` characters where its columns allow.

    Args:
        width: of the terminal, taken as NARROWEST to WIDEST.
    """
    width = min(max(width, NARROWEST), WIDEST)
    parts = [_system(comparison, width)]
    for (problem, device), cases in comparison.problems().items():
        rows = [row for compared in cases for row in compared.rows()]
        times = speed_ups(cases, comparison.settings.get("reference"), width)
        averages = [
            average for average in comparison.averages() if (average.problem, average.device) == (problem, device)
        ]
        parts += [f"{problem} on {device}\n{_times(rows, width)}", times, _averages(averages), _traffic(cases)]
        parts += [_functions(rows), _accuracies(rows, width), "\n".join([*_absent(rows), *_doubts(rows)])]
    parts.append("\n".join([*(f"note: {warning}" for warning in comparison.warnings), accuracy_line(comparison)]))
    return "\n\n".join(part for part in parts if part) + "\n"


def _system(comparison: LiveComparison, width: int) -> str:
    """Return what it ran on and how it was measured: a few wrapped lines of "name value"."""
    facts = comparison.environment
    variables = [f"{name}={value}" for name, value in facts.items() if name.isupper()]
    names = [*_SYSTEM, *(name for name in facts if name not in _SYSTEM and not name.isupper())]
    settings = [f"{name} {comparison.settings[name]}" for name in _SETTINGS if name in comparison.settings]
    settings += [f"took {units.seconds(comparison.took)}"] if comparison.took > 0 else []
    lines = [wrapped("system: ", [f"{name} {facts[name]}" for name in names if name in facts], width)]
    lines.append(wrapped("measured: ", settings, width))
    return "\n".join(lines + ([wrapped("environment: ", variables, width)] if variables else []))


def wrapped(head: str, parts: Sequence[str], width: int) -> str:
    """Return parts separated by semicolons, broken between parts, later lines indented by two."""
    whole = "; ".join(part.replace(" ", NO_BREAK) for part in parts)
    lines = textwrap.fill(
        whole, width, initial_indent=head, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return lines.replace(NO_BREAK, " ")


def _times(rows: Sequence[ComparedRow], width: int) -> str:
    """Return the table of times and rates, and what its columns mean."""
    kinds = sorted({units.rate_unit(row.compared.dtype) for row in rows})
    rates, bandwidths = _prefix(row.rate for row in rows), _prefix(row.bandwidth for row in rows)
    cells: Mapping[str, tuple[Callable[[ComparedRow], str], int | None]] = {
        "by": (lambda row: row.timed.implementation, None),
        "where": (lambda row: row.compared.memory or "", 7),
        "MB": (lambda row: units.significant(row.compared.tensor_bytes / MEGABYTE), 3),
        "elements": (lambda row: f"{row.compared.elements:,}", 1),
        "time ±95%": (time, None),
        "mean ±std": (mean, 2),
        "p50": (lambda row: units.seconds(row.spread.p50) if row.spread else "", 4),
        "p99": (lambda row: units.seconds(row.spread.p99) if row.spread else "", 6),
        "/".join(f"{rates[0]}{kind[1:]}" for kind in kinds): (lambda row: _per_second(row.rate, rates), 12),
        f"{bandwidths[0]}B/s": (lambda row: _per_second(row.bandwidth, bandwidths), 11),
        "eff.": (efficiency, 10),
        "bound": (bound, 9),
        "cache": (cache_benefit, 8),
        "samples": (histogram, 5),
    }
    all_columns = [Column("case", blank_repeats([row.compared.case for row in rows]))]
    all_columns += [Column(head, [cell(row) or NONE for row in rows], keep) for head, (cell, keep) in cells.items()]
    fitted = fitting(all_columns, width)
    legend = [LEGEND[column.head] for column in fitted if column.head in LEGEND]
    legend += [f"{rates[0]}OPS: of integers"] if len(kinds) > 1 else []
    if any(row.timing is not None and row.timing.half_width is None for row in rows):
        legend.append("±95% needs 3 rounds")
    return f"{_lines(fitted)}\n{wrapped('  ', legend, width)}"


def time(row: ComparedRow) -> str:
    """Return "61.2 µs ±0.4%" with the larger side of the interval, "61.2 µs" without an interval, FAIL, or n/a."""
    if row.timing is None:
        return "FAIL" if row.timed.failed is not None else "n/a"
    half = row.timing.half_width
    return units.seconds(row.timing.seconds) + ("" if half is None else f" ±{percent(half)}")


def _prefix(values: Iterable[float | None]) -> tuple[str, float]:
    """Return the prefix of a column of rates, that of its median, and how many 10^9 it is."""
    rates = [value / 1e9 for value in values if value is not None]
    return units.prefix(statistics.median_low(rates)) if rates else ("G", 1.0)


def _per_second(value: float | None, prefix: tuple[str, float]) -> str:
    return "" if value is None else units.significant(value / 1e9 / prefix[1])


def efficiency(row: ComparedRow) -> str:
    """Return the share of its limit, with "!" where the roofline warns of it."""
    roof = row.timed.roofline
    if roof is None:
        return ""
    return model.percent(roof.of_limit) + ("!" if roof.impossible or roof.warnings else "")


def histogram(row: ComparedRow) -> str:
    """Return a histogram of the samples from the fastest to p99 as blocks, with slower ones in the last."""
    if row.spread is None:
        return ""
    if row.spread.min == row.spread.p99:
        return "all equal"
    return bars(speedup.histogram(row.timed.samples, HISTOGRAM_BINS))


def bars(counts: Sequence[int]) -> str:
    """Return counts as a row of blocks: a blank where a count is 0, the lowest block at least where it is not.

    The outermost blanks are dots, so that alignment does not swallow them.
    """
    most = max(counts)
    blocks = [BARS[min(count * len(BARS) // most, len(BARS) - 1)] if count else " " for count in counts]
    for edge in (0, -1):
        blocks[edge] = blocks[edge].replace(" ", "·")
    return "".join(blocks)


def speed_ups(cases: Sequence[Compared], reference: str | None, width: int) -> str:
    """Return every pairwise speed-up with its error: a row per case, a column per pair, in blocks as wide as fit."""
    cells: dict[str, dict[str, str]] = {}
    for compared in cases:
        for pair in compared.speed_ups(reference):
            unclear = " ~" if pair.clear is False else ""
            cells.setdefault(f"{pair.faster} vs {pair.slower}", {})[compared.case] = speed_up(pair) + unclear
    if not cells:
        return ""
    names = [compared.case for compared in cases]
    first = Column("speed-up", names)
    pairs = [Column(head, [ratios.get(name, NONE) for name in names]) for head, ratios in cells.items()]
    blocks = [_lines([first, *block]) for block in _blocks(pairs, width - first.width)]
    note = "A vs B: time of B / time of A, ± standard error; ~: at most two errors from 1"
    return "\n\n".join(blocks) + f"\n  {note}"


def _blocks(pairs: Sequence[Column], width: int) -> Iterator[list[Column]]:
    """Yield consecutive columns that fit into `width` together, a wider one alone."""
    block: list[Column] = []
    for column in pairs:
        if block and sum(member.width + GAP for member in (*block, column)) > width:
            yield block
            block = []
        block.append(column)
    yield block


def _averages(averages: Sequence[Average]) -> str:
    """Return the average rates and times of a problem, "" where there is one test case."""
    several = [average for average in averages if average.cases > 1]
    if not several:
        return ""
    rates, bandwidths = _prefix(_rates(several)), _prefix(average.bytes_per_second for average in several)
    heads = [f"{average.dtype}, {units.count(average.cases, 'case')}" for average in several]
    kinds = sorted({units.rate_unit(average.dtype) for average in several})
    table = [
        Column("average", blank_repeats(heads)),
        Column("by", [average.implementation for average in several]),
        Column("time", [units.seconds(average.runtime_ms * 1e-3) for average in several]),
        Column(
            "/".join(f"{rates[0]}{kind[1:]}" for kind in kinds),
            [_per_second(rate, rates) or NONE for rate in _rates(several)],
        ),
        Column(
            f"{bandwidths[0]}B/s",
            [_per_second(average.bytes_per_second, bandwidths) or NONE for average in several],
        ),
    ]
    return f"{_lines(table)}\n  arithmetic means over the test cases with a time"


def _rates(averages: Sequence[Average]) -> list[float | None]:
    return [None if average.gflops is None else average.gflops * 1e9 for average in averages]


def _traffic(cases: Sequence[Compared]) -> str:
    """Return the traffic of one kernel and of the reference's operations, "" where it is unknown."""
    table = [
        (
            compared.case,
            *(units.value(amount, units.BYTES) for amount in (moved.fused, moved.unfused)),
            f"{ratio(moved.ratio)}{units.MULTIPLE}",
        )
        for compared in cases
        if (moved := compared.traffic) is not None and moved.ratio > 1
    ]
    if not table:
        return ""
    note = "fused: the least of one kernel; unfused: what the reference's operations move one by one"
    return f"{columns([('traffic', 'fused', 'unfused', 'ratio'), *table])}\n  {note}"


def _functions(rows: Sequence[ComparedRow]) -> str:
    """Return the times of whole functions and their overheads, "" where none was measured."""
    timed = [row for row in rows if row.overhead is not None]
    if not timed:
        return ""
    table = [
        Column("whole function", blank_repeats([row.compared.case for row in timed])),
        Column("implementation", [row.timed.implementation for row in timed]),
        Column("time", [units.seconds(row.timed.function or 0.0) for row in timed]),
        Column("outside the kernel", [overhead(row) for row in timed]),
    ]
    note = "as users call it, with allocation and checks; -: the timed call is the whole function"
    return f"{_lines(table)}\n  {note}"


def overhead(row: ComparedRow) -> str:
    """Return the part of the whole function outside the kernel, "within noise" where it is negative."""
    outside = row.overhead
    if not outside:  # 0: the call is the function, and was timed once
        return NONE
    return "within noise" if outside < 0 else units.seconds(outside)


def _accuracies(rows: Sequence[ComparedRow], width: int) -> str:
    """Return the errors of every output, "" where nothing was verified."""
    pairs = [(row, output) for row in rows for output in row.timed.accuracy]
    if not pairs:
        return ""
    figures = {
        "max abs error": ("max_absolute_error", None),
        "mean abs error": ("mean_absolute_error", None),
        "total error": ("total_error", 4),
        "max rel error": ("max_relative_error", 3),
        "max ulp": ("max_ulp_error", 1),
        "off by one": ("off_by_one", 2),
    }
    table = [
        Column("accuracy", blank_repeats([row.compared.case for row, _ in pairs])),
        Column("implementation", [row.timed.implementation for row, _ in pairs]),
        Column("output", [output.output for _, output in pairs]),
        Column("result", [_result(row) if output.right else "FAIL" for row, output in pairs]),
    ]
    for head, (name, keep) in figures.items():
        values = [output.number(name) for _, output in pairs]
        cells = [NONE if v is None else f"{v:,}" if isinstance(v, int) else f"{v:.3g}" for v in values]
        table.append(Column(head, cells, keep))
    return _lines(fitting(table, width))


def _result(row: ComparedRow) -> str:
    return UNPROVEN if row.timed.status == UNPROVEN else "right"


def _absent(rows: Sequence[ComparedRow]) -> Iterator[str]:
    """Yield a line for each implementation without a time, or whose check proves nothing, with the reason."""
    for row in rows:
        if row.timed.reason:
            kind = "FAIL" if row.timed.missing is None else "n/a"
            yield f"{kind}: {row_name(row)}: {row.timed.reason}"
        elif row.timed.unproven:
            yield f"{UNPROVEN}: {row_name(row)}: {row.timed.unproven}"
    if any(row.timed.status == UNPROVEN for row in rows):
        yield "  a tolerance in the outputs' own size (--tolerance rtol=1e-4,norm=1e-4), or other inputs, can prove it"


def _doubts(rows: Sequence[ComparedRow]) -> list[str]:
    """Return the flags and roofline warnings of the rows, without repeats, with the names of their rows.

    A warning's advice, which follows its first semicolon, is given once below them all.
    """
    about: dict[str, list[str]] = {}
    advice: dict[str, None] = {}
    for row in rows:
        if row.timing is None:
            continue
        warnings = row.timed.roofline.warnings if row.timed.roofline is not None else ()
        for doubt in (*(f"flagged {flag}" for flag in row.timed.flags), *warnings):
            what, _, rest = doubt.partition("; ")
            about.setdefault(what, []).append(f"{row.timed.implementation} {row.compared.case}")
            advice |= {rest: None} if rest else {}
    return [*(f"{doubt}: {', '.join(names)}" for doubt, names in about.items()), *(f"  {line}" for line in advice)]


def accuracy_line(comparison: LiveComparison) -> str:
    """Return the closing line: how many outputs are right, the largest error, how many pass 1e-5.

    An element's error is its absolute or its relative one, whichever is smaller.
    """
    rows = list(comparison.rows())
    outputs = [(row_name(row), output) for row in rows for output in row.timed.accuracy]
    raised = sum(row.timed.status == FAILED for row in rows)
    failed = f"; {units.count(raised, 'implementation')} FAILED" if raised else ""
    if not outputs:
        return f"accuracy: nothing was verified{failed}"
    wrong = [name for name, output in outputs if not output.right]
    unproven = [row_name(row) for row in rows if row.timed.status == UNPROVEN]
    doubted = sum(len(row.timed.accuracy) for row in rows if row.timed.status == UNPROVEN)
    line = f"accuracy: {len(outputs) - len(wrong) - doubted} of {units.count(len(outputs), 'output')} right"
    line += f"; {UNPROVEN}: {', '.join(unproven)}" if unproven else ""
    if wrong:
        return f"{line}; WRONG: {', '.join(wrong)}{failed}"
    errors = [(error, name) for name, output in outputs if (error := output.number("max_error")) is not None]
    if errors:
        error, name = max(errors)
        line += f"; largest error {error:.3g}, absolute or relative ({name})" if error else "; all exact"
    passes = [passed for _, output in outputs if isinstance(passed := output.details.get("passes_1e5"), bool)]
    return line + (f"; {sum(passes)} of {len(passes)} pass 1e-5" if passes else "") + failed


def blank_repeats(cells: Sequence[str]) -> list[str]:
    """Return the cells, those left blank that repeat the one above."""
    return ["" if number and cell == cells[number - 1] else cell for number, cell in enumerate(cells)]


def fitting(table: Sequence[Column], width: int) -> list[Column]:
    """Return the columns that fit into `width` characters, in their order, and those that are never dropped.

    Columns in which every cell is "-" or blank are dropped first.
    """
    rest = [column for column in table if column.keep is None or set(column.cells) - {"", NONE}]
    while sum(column.width for column in rest) + GAP * (len(rest) - 1) > width:
        droppable = [column for column in rest if column.keep is not None]
        if not droppable:
            break
        rest.remove(min(droppable, key=lambda column: column.keep or 0))
    return rest


def _lines(table: Sequence[Column]) -> str:
    """Return columns as aligned lines, heads first, with the first column to the left."""
    return columns(list(zip(*((column.head, *column.cells) for column in table), strict=True)))


# Figures of a row, "" where unknown. Rounding never makes 0% or 1.00x of others. --------------------------------------


def row_name(row: ComparedRow) -> str:
    """Return problem, test case and implementation: "add_mul_exp float32-1M native"."""
    return f"{row.compared.problem} {row.compared.case} {row.timed.implementation}"


def percent(fraction: float) -> str:
    """Return the fraction of an error in percent with two digits: "0.41%", "12%"."""
    value = 100 * fraction
    if value == 0:
        return "0%"
    digits = max(0, 1 - math.floor(math.log10(float(f"{value:.1e}"))))
    return f"{value:.{min(digits, 4)}f}%" if value >= 5e-5 else "<0.0001%"


def ratio(value: float) -> str:
    """Return a ratio with two decimals, or more digits where it is small: "2.35", "1.00+" just above 1."""
    text = f"{value:.2f}" if value >= 0.1 else units.significant(value)
    if value != 1 and float(text) == 1:
        return "1.00+" if value > 1 else "1.00-"
    return text


def speed_up(pair: SpeedUp) -> str:
    """Return "2.31× ±0.02", or "2.31×" where there are too few rounds for an error."""
    if pair.error is None:
        return f"{ratio(pair.ratio)}{units.MULTIPLE}"
    error = f"{pair.error:.2f}" if pair.error >= 0.005 else units.significant(pair.error)
    return f"{ratio(pair.ratio)}{units.MULTIPLE} ±{error}"


def mean(row: ComparedRow) -> str:
    """Return mean and standard deviation of all samples, as published tables have them: "61.5 µs ±1.20 µs"."""
    if row.spread is None:
        return ""
    deviation = row.spread.deviation
    return units.seconds(row.spread.mean) + ("" if deviation is None else f" ±{units.seconds(deviation)}")


def bound(row: ComparedRow) -> str:
    """Return what binds: "memory", "compute", "compute in TF32"."""
    roof = row.timed.roofline
    if roof is None:
        return ""
    return "compute in TF32" if (roof.bound, roof.dtype) == ("compute", "tf32") else roof.bound


def cache_benefit(row: ComparedRow) -> str:
    """Return how many times faster than from DRAM alone: "1.00x"."""
    return "" if row.timed.roofline is None else f"{ratio(row.timed.roofline.cache_benefit)}{units.MULTIPLE}"


# All samples (--stats) ------------------------------------------------------------------------------------------------

STATISTICS = ("problem", "case", "implementation", "n", "mean", "std", "min", "max", "p50", "p99")


def all_samples(comparison: LiveComparison) -> str:
    """Return the figures of all samples of each implementation as a table."""
    lines = [_sample_figures(row, row.spread) for row in comparison.rows() if row.spread is not None]
    return f"{columns([STATISTICS, *lines])}\n" if lines else "no samples\n"


def _sample_figures(row: ComparedRow, spread: Spread) -> list[str]:
    figures = (spread.mean, spread.deviation, spread.min, spread.max, spread.p50, spread.p99)
    return [
        *(row.compared.problem, row.compared.case, row.timed.implementation, f"{spread.n:,}"),
        *(NONE if value is None else "0" if value == 0 else units.seconds(value) for value in figures),
    ]
