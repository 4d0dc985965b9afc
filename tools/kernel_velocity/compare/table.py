"""A comparison as text for a terminal: the system, and per problem times, speed-ups, whole functions and errors."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernel_velocity import units
from kernel_velocity.compare import text
from kernel_velocity.compare.result import Accuracy, Comparison, Row
from kernel_velocity.stats import speedup
from kernel_velocity.tables import columns

WIDEST = 160  # characters: more than that is no easier to read
NARROWEST = 60
NONE = "-"
NO_BREAK = "\u00a0"
GAP = 2  # blanks between columns, as `tables.columns` sets them
BINS = 8  # of a histogram
BLOCKS = "▁▂▃▄▅▆▇█"
_MIXED = "GFLOPS/GOPS"
LEGEND: Mapping[str, str] = {  # of the columns that need one
    "where": "where: the innermost memory that holds the working set",
    "MB": "MB: of the largest tensor",
    "time ±95%": "time: median of the rounds, ± the larger side of its interval over rounds",
    "mean ±std": "mean, std, p50, p99: of all samples",
    "eff.": "eff.: efficiency, of the DRAM roof or the peak, at most 100% (!: doubtful, see below)",
    "cache": "cache: benefit, times faster than DRAM allows",
    "samples": "samples: fastest to p99",
    _MIXED: "GOPS: for integers",
}
_SYSTEM = ("device", "caches", "clocks", "free memory", "load", "cores", "threads", "python", "torch", "cuda", "driver")
_SETTINGS = ("preset", "rule", "parameters", "rounds", "warm-up", "sample", "tolerance", "reference")


@dataclass(frozen=True)
class Column:
    """A column of ready strings. `keep`: the lower, the earlier a narrow terminal loses it; None: never."""

    head: str
    cells: Sequence[str]
    keep: int | None = None

    @property
    def width(self) -> int:
        """Return how many characters it takes."""
        return max(map(len, (self.head, *self.cells)))


def table(comparison: Comparison, width: int) -> str:
    """Return the whole comparison, in lines of at most `width` characters where its columns allow.

    Args:
        comparison: what is shown.
        width: of the terminal; taken as between NARROWEST and WIDEST.
    """
    width = min(max(width, NARROWEST), WIDEST)
    parts = [_system(comparison, width)]
    for (problem, device), rows in comparison.problems().items():
        parts += [f"{problem} on {device}\n{_times(rows, width)}", speed_ups(comparison, problem, device, width)]
        parts += [_functions(rows, width), _accuracies(rows, width), "\n".join([*_absent(rows), *_doubts(rows)])]
    parts.append("\n".join([*(f"note: {each}" for each in comparison.warnings), accuracy_line(comparison)]))
    return "\n\n".join(part for part in parts if part) + "\n"


def _system(comparison: Comparison, width: int) -> str:
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
    """Return parts with "; " between them, broken between parts, later lines indented by two."""
    whole = "; ".join(part.replace(" ", NO_BREAK) for part in parts)
    lines = textwrap.fill(
        whole, width, initial_indent=head, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return lines.replace(NO_BREAK, " ")


def _times(rows: Sequence[Row], width: int) -> str:
    """Return the table of times and rates, and what its columns mean."""
    kinds = {units.rate_unit(row.compared.dtype) for row in rows}
    cells: Mapping[str, tuple[Callable[[Row], str], int | None]] = {
        "by": (lambda row: row.timed.implementation, None),
        "where": (lambda row: row.compared.memory or "", 7),
        "MB": (text.megabytes, 3),
        "elements": (lambda row: f"{row.compared.elements:,}", 1),
        "time ±95%": (time, None),
        "mean ±std": (text.mean, 2),
        "p50": (lambda row: units.seconds(row.spread.p50) if row.spread else "", 4),
        "p99": (lambda row: units.seconds(row.spread.p99) if row.spread else "", 6),
        (_MIXED if len(kinds) > 1 else kinds.pop()): (lambda row: _per_second(row.rate), 12),
        "GB/s": (lambda row: _per_second(row.bandwidth), 11),
        "eff.": (efficiency, 10),
        "bound": (lambda row: text.bound(row).partition(",")[0], 9),
        "cache": (text.cache_benefit, 8),
        "samples": (histogram, 5),
    }
    all_columns = [Column("case", blank_repeats([row.compared.case for row in rows]))]
    all_columns += [Column(head, [cell(row) or NONE for row in rows], keep) for head, (cell, keep) in cells.items()]
    kept = fitting(all_columns, width)
    legend = [LEGEND[column.head] for column in kept if column.head in LEGEND]
    if any(row.timing is not None and row.timing.half_width is None for row in rows):
        legend.append("±95% needs 3 rounds")
    return f"{_lines(kept)}\n{wrapped('  ', legend, width)}"


def time(row: Row) -> str:
    """Return "61.2 µs ±0.4%", "61.2 µs" where too few rounds give an interval, FAIL, or n/a."""
    return text.time(row) or ("FAIL" if row.timed.failed is not None else "n/a")


def _per_second(value: float | None) -> str:
    return "" if value is None else units.significant(value / 1e9)


def efficiency(row: Row) -> str:
    """Return the share of the attainable rate, with "!" where the roofline warns of it."""
    doubtful = row.roofline is not None and (row.roofline.impossible or row.roofline.warnings)
    return text.share(row) + ("!" if doubtful else "")


def histogram(row: Row) -> str:
    """Return the samples from the fastest to the 99th percentile as blocks; slower ones count in the last."""
    if row.spread is None:
        return ""
    if row.spread.min == row.spread.p99:
        return "all equal"
    return bars(speedup.histogram(row.timed.samples, BINS))


def bars(counts: Sequence[int]) -> str:
    """Return counts as a row of blocks: a blank where a count is 0, the lowest block at least where it is not.

    The outermost blanks are dots, so that alignment does not swallow them.
    """
    most = max(counts)
    shown = [BLOCKS[min(count * len(BLOCKS) // most, len(BLOCKS) - 1)] if count else " " for count in counts]
    for edge in (0, -1):
        shown[edge] = shown[edge].replace(" ", "·")
    return "".join(shown)


def speed_ups(comparison: Comparison, problem: str, device: str, width: int) -> str:
    """Return every pairwise speed-up with its error: a row per case, a column per pair, in blocks as wide as fit."""
    cases = [each for each in comparison.compared if (each.problem, each.device) == (problem, device)]
    cells: dict[str, dict[str, str]] = {}
    for compared in cases:
        for pair in compared.speed_ups(comparison.settings.get("reference")):
            unclear = " ~" if pair.clear is False else ""
            cells.setdefault(f"{pair.faster} vs {pair.slower}", {})[compared.case] = text.speed_up(pair) + unclear
    if not cells:
        return ""
    names = [compared.case for compared in cases]
    first = Column("speed-up", names)
    pairs = [Column(head, [found.get(name, NONE) for name in names]) for head, found in cells.items()]
    blocks = [_lines([first, *block]) for block in _blocks(pairs, width - first.width)]
    note = "A vs B: time of B / time of A, ± its standard error; ~: within two errors of 1"
    return "\n\n".join(blocks) + f"\n  {note}"


def _blocks(found: Sequence[Column], width: int) -> Iterator[list[Column]]:
    """Yield consecutive columns that fit into `width` together; one that is wider stands alone."""
    block: list[Column] = []
    for column in found:
        if block and sum(each.width + GAP for each in (*block, column)) > width:
            yield block
            block = []
        block.append(column)
    yield block


def _functions(rows: Sequence[Row], width: int) -> str:
    """Return the time of the whole function and its overhead; "" where none was measured."""
    shown = [(row, row.timed.function) for row in rows if row.overhead is not None]
    if not shown:
        return ""
    head = [
        Column("whole function", blank_repeats([row.compared.case for row, _ in shown])),
        Column("implementation", [row.timed.implementation for row, _ in shown]),
        Column("time", [units.seconds(seconds or 0.0) for _, seconds in shown]),
        Column("outside the kernel", [overhead(row) for row, _ in shown]),
    ]
    return _lines(fitting(head, width)) + "\n  with allocation and checks; -: what is called is the whole function"


def overhead(row: Row) -> str:
    """Return the part of the whole function outside the kernel; "within noise" where it is negative."""
    outside = row.overhead
    if not outside:  # 0: the call is the function, and was timed once
        return NONE
    return "within noise" if outside < 0 else units.seconds(outside)


def _accuracies(rows: Sequence[Row], width: int) -> str:
    """Return the errors of every output; "" where nothing was verified."""
    pairs = [(row, each) for row in rows for each in row.timed.accuracy]
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
    shown = [
        Column("accuracy", blank_repeats([row.compared.case for row, _ in pairs])),
        Column("implementation", [row.timed.implementation for row, _ in pairs]),
        Column("output", [each.output for _, each in pairs]),
        Column("result", ["right" if each.right else "FAIL" for _, each in pairs]),
        *(Column(head, [_number(each, name) for _, each in pairs], keep) for head, (name, keep) in figures.items()),
    ]
    return _lines(fitting(shown, width))


def _number(accuracy: Accuracy, name: str) -> str:
    value = accuracy.number(name)
    return NONE if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


def _absent(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each implementation without a time, with the reason."""
    for row in rows:
        if row.timed.reason:
            kind = "FAIL" if row.timed.missing is None else "n/a"
            yield f"{kind}: {text.name(row)}: {row.timed.reason}"


def _doubts(rows: Sequence[Row]) -> list[str]:
    """Return what speaks against timings, each once with the rows that it is about: flags, warnings of the roofline.

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
    return [*(f"{doubt}: {', '.join(names)}" for doubt, names in about.items()), *(f"  {each}" for each in advice)]


def accuracy_line(comparison: Comparison) -> str:
    """Return the closing line: how many outputs are right, the largest error, how many pass 1e-5.

    An element's error is its absolute or its relative one, whichever is smaller.
    """
    rows = list(comparison.rows())
    outputs = [(text.name(row), each) for row in rows for each in row.timed.accuracy]
    others = sum(row.timed.failed is not None and all(each.right for each in row.timed.accuracy) for row in rows)
    failed = f"; {units.count(others, 'implementation')} FAILED otherwise" if others else ""
    if not outputs:
        return f"accuracy: nothing was verified{failed}"
    wrong = [name for name, each in outputs if not each.right]
    line = f"accuracy: {len(outputs) - len(wrong)} of {units.count(len(outputs), 'output')} right"
    if wrong:
        return f"{line}; WRONG: {', '.join(wrong)}{failed}"
    errors = [(error, name) for name, each in outputs if (error := each.number("max_error")) is not None]
    if errors:
        error, name = max(errors)
        line += f"; largest error {error:.3g}, absolute or relative ({name})" if error else "; all exact"
    passes = [passed for _, each in outputs if isinstance(passed := each.details.get("passes_1e5"), bool)]
    return line + (f"; {sum(passes)} of {len(passes)} pass 1e-5" if passes else "") + failed


def blank_repeats(cells: Sequence[str]) -> list[str]:
    """Return the cells, those left blank that repeat the one above."""
    return ["" if number and cell == cells[number - 1] else cell for number, cell in enumerate(cells)]


def fitting(found: Sequence[Column], width: int) -> list[Column]:
    """Return the columns that fit into `width` characters, in their order; those never left out even where they do not.

    Columns in which every cell is "-" or blank are left out first.
    """
    kept = [each for each in found if each.keep is None or any(cell not in ("", NONE) for cell in each.cells)]
    while sum(each.width for each in kept) + GAP * (len(kept) - 1) > width:
        droppable = [each for each in kept if each.keep is not None]
        if not droppable:
            break
        kept.remove(min(droppable, key=lambda each: each.keep or 0))
    return kept


def _lines(shown: Sequence[Column]) -> str:
    """Return columns as aligned lines, heads first; the first column to the left."""
    return columns(list(zip(*((each.head, *each.cells) for each in shown), strict=True)))
