"""A comparison as text for a terminal: what it ran on, a table per problem, speed-ups, errors, a closing line. Pure.

The figures of one implementation on one test case as text, one function for each column of the table. Pure.

A table that fits the terminal: columns that are missed least are left out until it does. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from kernel_velocity import units
from kernel_velocity.compare.result import Accuracy, Compared, Comparison, Timed
from kernel_velocity.roofline.model import percent as roofs_percent
from kernel_velocity.stats import speedup
from kernel_velocity.stats.speedup import Spread, Timing
from kernel_velocity.tables import columns

WIDEST = 160  # characters: more than that is no easier to read
NARROWEST = 60
_MIXED = "GFLOPS/GOPS"
LEGEND: Mapping[str, str] = {  # of the columns that do not say it themselves
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

NONE = "-"
BINS = 8  # of the histogram in a row
MEGABYTE = 1e6
CONSTANT = "all equal"

GAP = 2  # blanks between columns, as `text_tables.columns` sets them
BLOCKS = "▁▂▃▄▅▆▇█"


def table(comparison: Comparison, width: int) -> str:
    """Return all of a comparison, lines of at most `width` characters where its columns allow, ended by a line break.

    Args:
        comparison: what was found.
        width: of the terminal; taken as between NARROWEST and WIDEST.
    """
    width = min(max(width, NARROWEST), WIDEST)
    parts = [system(comparison, width)]
    reference = comparison.settings.get("reference")
    for _, group in groupby(comparison.compared, key=lambda each: (each.problem, each.device)):
        parts += problem(list(group), reference, width)
    parts.append("\n".join([*(f"note: {each}" for each in comparison.warnings), accuracy_line(comparison)]))
    return "\n\n".join(part for part in parts if part) + "\n"


def system(comparison: Comparison, width: int) -> str:
    """Return what it ran on and how it was measured: a few wrapped lines of "name value"."""
    there = comparison.environment
    variables = [f"{name}={value}" for name, value in there.items() if name.isupper()]
    others = [name for name in there if name not in _SYSTEM and not name.isupper()]
    said = [f"{name} {there[name]}" for name in (*_SYSTEM, *others) if name in there]
    how = [f"{name} {comparison.settings[name]}" for name in _SETTINGS if name in comparison.settings]
    how.append(f"took {units.seconds(comparison.took)}" if comparison.took > 0 else "")
    lines = [_wrapped("system: ", said, width), _wrapped("measured: ", [each for each in how if each], width)]
    return "\n".join([*lines, *([_wrapped("environment: ", variables, width)] if variables else [])])


def _wrapped(head: str, said: Sequence[str], width: int) -> str:
    """Return parts with "; " between them, broken between parts, later lines indented by two."""
    lines = [head]
    for number, part in enumerate(said):
        more = part + (";" if number + 1 < len(said) else "")
        if len(lines[-1]) + len(more) > width and lines[-1] != head:
            lines[-1] = lines[-1].rstrip()
            lines.append("  ")
        lines[-1] += more + " "
    return "\n".join(line.rstrip() for line in lines)


def problem(compared: Sequence[Compared], reference: str | None, width: int) -> list[str]:
    """Return the parts that belong to one problem: times, speed-ups, whole functions, errors, what has no time."""
    rows = [row for each in compared for row in rows_of(each)]
    title = f"{compared[0].problem} on {compared[0].device}"
    return [
        f"{title}\n{times(rows, width)}",
        speed_up_table(compared, reference, width),
        _functions(rows, width),
        _accuracies(rows, width),
        "\n".join([*absent(rows), *_doubts(rows)]),
    ]


def times(rows: Sequence[Row], width: int) -> str:
    """Return the table of times and rates, and what its columns mean; where it is narrow those missed least go."""
    named: Mapping[str, tuple[Callable[[Row], str], int | None]] = {
        "by": (lambda row: row.timed.implementation, None),
        "where": (lambda row: row.compared.memory or NONE, 7),
        "MB": (lambda row: size(row.compared), 3),
        "elements": (lambda row: f"{row.compared.elements:,}", 1),
        "time ±95%": (time, None),
        "mean ±std": (mean, 2),
        "p50": (p50, 4),
        "p99": (p99, 6),
        _rates({row.compared.dtype for row in rows}): (rate, 12),
        "GB/s": (bandwidth, 11),
        "eff.": (efficiency, 10),
        "bound": (bound, 9),
        "cache": (cache_benefit, 8),
        "samples": (histogram, 5),
    }
    found = [Column(head="case", cells=blank_repeats([row.compared.case for row in rows]))]
    found += [Column(head=head, cells=[cell(row) for row in rows], keep=keep) for head, (cell, keep) in named.items()]
    kept = fitting(found, width)
    said = [LEGEND[column.head] for column in kept if column.head in LEGEND]
    if any(row.timing is not None and row.timing.half_width is None for row in rows):
        said.append("±95% needs 3 rounds")
    return f"{text(kept, width)}\n{_wrapped('  ', said, width)}"


def _rates(dtypes: Collection[str]) -> str:
    """Return the head of the column of rates; short, where a table has both kinds of them."""
    known = {units.rate_unit(dtype) for dtype in dtypes}
    return _MIXED if len(known) > 1 else units.rate_unit(*dtypes)


def speed_up_table(compared: Sequence[Compared], reference: str | None, width: int) -> str:
    """Return every pairwise speed-up with its error: a row per case, a column per pair, in blocks as wide as fit."""
    cells: dict[str, dict[str, str]] = {}
    for each in compared:
        found = {row.timed.implementation: row.timing for row in rows_of(each) if row.timing is not None}
        for pair in speedup.pairwise(found, reference):
            cells.setdefault(f"{pair.faster} vs {pair.slower}", {})[each.case] = _speed_up(pair)
    if not cells:
        return ""
    cases = [each.case for each in compared]
    pairs = [Column(head=head, cells=[found.get(case, NONE) for case in cases]) for head, found in cells.items()]
    first = Column(head="speed-up", cells=cases)
    blocks = [text([first, *block], width) for block in _blocks(pairs, width - first.width)]
    note = "A vs B: time of B / time of A, ± its standard error; ~: within two errors of 1"
    return "\n\n".join(blocks) + f"\n  {note}"


def _blocks(found: Sequence[Column], width: int) -> Iterator[list[Column]]:
    """Yield consecutive columns that fit into `width` together; one that is wider stands alone."""
    block: list[Column] = []
    for column in found:
        if block and sum(each.width + 2 for each in (*block, column)) > width:
            yield block
            block = []
        block.append(column)
    yield block


def _speed_up(pair: speedup.SpeedUp) -> str:
    """Return "2.31x ±0.02", or "1.01x ±0.02 ~" where it is not told from 1."""
    said = f"{as_ratio(pair.ratio)}x"
    if pair.error is None:
        return said
    error = f"{pair.error:.2f}" if pair.error >= 0.005 else units.significant(pair.error)
    return f"{said} ±{error}" + ("" if pair.clear else " ~")


def _functions(rows: Sequence[Row], width: int) -> str:
    """Return the time in the whole function and its overhead; "" where none was measured."""
    shown = [row for row in rows if function(row) != NONE]
    if not shown:
        return ""
    found = [
        Column(head="whole function", cells=blank_repeats([row.compared.case for row in shown])),
        Column(head="implementation", cells=[row.timed.implementation for row in shown]),
        Column(head="time", cells=[function(row) for row in shown]),
        Column(head="outside the kernel", cells=[overhead(row) for row in shown]),
    ]
    return text(found, width) + "\n  with allocation and checks; -: what is called is the whole function"


def _accuracies(rows: Sequence[Row], width: int) -> str:
    """Return the errors of every output; "" where nothing was verified."""
    pairs = [(row, each) for row in rows for each in row.timed.accuracy]
    if not pairs:
        return ""
    heads = {
        "max abs error": ("max_absolute_error", None),
        "mean abs error": ("mean_absolute_error", None),
        "total error": ("total_error", 4),
        "max rel error": ("max_relative_error", 3),
        "max ulp": ("max_ulp_error", 1),
        "off by one": ("off_by_one", 2),
    }
    found = [
        Column(head="accuracy", cells=blank_repeats([row.compared.case for row, _ in pairs])),
        Column(head="implementation", cells=[row.timed.implementation for row, _ in pairs]),
        Column(head="output", cells=[each.output for _, each in pairs]),
        Column(head="result", cells=["right" if each.right else "FAIL" for _, each in pairs]),
    ]
    found += [
        Column(head=head, cells=[figure(each, name) for _, each in pairs], keep=keep)
        for head, (name, keep) in heads.items()
    ]
    return text(found, width)


def absent(rows: Sequence[Row]) -> list[str]:
    """Return a line for each implementation that has no time, with the reason."""
    lines = []
    for row in rows:
        what = f"{row.compared.problem} {row.compared.case} {row.timed.implementation}"
        if row.timed.failed is not None:
            lines.append(f"FAIL: {what}: {row.timed.failed}")
        elif row.timed.missing is not None:
            lines.append(f"n/a: {what}: {row.timed.missing}")
    return lines


def _doubts(rows: Sequence[Row]) -> list[str]:
    """Return what speaks against timings: flags of rounds, warnings of the roofline; each once, with whom it is of.

    What a warning says behind its first semicolon, which is what to look at, stands once below them all.
    """
    said: dict[str, list[str]] = {}
    advice: dict[str, None] = {}
    for row in rows:
        if row.timing is None:
            continue
        whom = f"{row.timed.implementation} {row.compared.case}"
        warned = row.timed.roofline.warnings if row.timed.roofline is not None else ()
        for doubt in (*(f"flagged {flag}" for flag in row.timed.flags), *warned):
            what, _, rest = doubt.partition("; ")
            said.setdefault(what, []).append(whom)
            advice |= {rest: None} if rest else {}
    return [*(f"{doubt}: {', '.join(whom)}" for doubt, whom in said.items()), *(f"  {each}" for each in advice)]


def accuracy_line(comparison: Comparison) -> str:
    """Return the closing line: how many outputs are right, the largest error, how many pass 1e-5."""
    found = [
        (f"{compared.problem} {compared.case} {timed.implementation}", each)
        for compared in comparison.compared
        for timed in compared.timed
        for each in timed.accuracy
    ]
    raised = sum(
        timed.failed is not None and all(output.right for output in timed.accuracy)
        for each in comparison.compared
        for timed in each.timed
    )
    failed = f"; {units.count(raised, 'implementation')} FAILED otherwise" if raised else ""
    if not found:
        return f"accuracy: nothing was verified{failed}"
    wrong = [what for what, each in found if not each.right]
    right = f"{len(found) - len(wrong)} of {units.count(len(found), 'output')} right"
    if wrong:
        return f"accuracy: {right}; WRONG: {', '.join(wrong)}{failed}"
    return f"accuracy: {right}{_largest(found)}{_passing([each for _, each in found])}{failed}"


def _largest(found: Sequence[tuple[str, Accuracy]]) -> str:
    """Return the largest error and whose it is: of every element the absolute or the relative, whichever is smaller."""
    errors = [(_known(each.details, "max_error"), what) for what, each in found]
    known = [(error, what) for error, what in errors if error is not None]
    if not known:
        return ""
    error, what = max(known)
    return "; all exact" if error == 0 else f"; largest error {error:.3g}, absolute or relative ({what})"


def _passing(found: Sequence[Accuracy]) -> str:
    said = [each.details["passes_1e5"] for each in found if isinstance(each.details.get("passes_1e5"), bool)]
    return f"; {sum(map(bool, said))} of {len(said)} pass 1e-5" if said else ""


def _known(details: Mapping[str, object], name: str) -> float | None:
    value = details.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


@dataclass(frozen=True, kw_only=True)
class Row:
    """An implementation on a case; `timing` and `spread` are None where no time counts."""

    compared: Compared
    timed: Timed
    timing: Timing | None
    spread: Spread | None

    @property
    def samples(self) -> list[float]:
        """All samples of all rounds, s."""
        return [sample for each in self.timed.rounds for sample in each]


def rows_of(compared: Compared) -> list[Row]:
    """Return the rows of a case."""
    return [row(compared, timed) for timed in compared.timed]


def row(compared: Compared, timed: Timed) -> Row:
    """Return one row: a wrong implementation has no time, whatever was measured before it was found wrong."""
    counts = timed.failed is None and timed.missing is None and bool(timed.estimates)
    samples = [sample for each in timed.rounds for sample in each]
    return Row(
        compared=compared,
        timed=timed,
        timing=speedup.timing(timed.estimates) if counts else None,
        spread=speedup.spread(samples) if counts and samples else None,
    )


def time(found: Row) -> str:
    """Return "61.2 µs ±0.4%", "61.2 µs" where too few rounds give an interval, FAIL, or n/a."""
    if found.timing is None:
        return "FAIL" if found.timed.failed is not None else "n/a"
    half = found.timing.half_width
    said = units.seconds(found.timing.seconds)
    return said if half is None else f"{said} ±{percent(half)}"


def percent(fraction: float) -> str:
    """Return an error's fraction in percent with two digits: "0.41%", "12%"; never 0% unless it is 0."""
    value = 100 * fraction
    if value == 0:
        return "0%"
    digits = max(0, 1 - math.floor(math.log10(float(f"{value:.1e}"))))
    return f"{value:.{min(digits, 4)}f}%" if value >= 5e-5 else "<0.0001%"


def p50(found: Row) -> str:
    """Return the median of all samples."""
    return NONE if found.spread is None else units.seconds(found.spread.p50)


def p99(found: Row) -> str:
    """Return the 99th percentile of all samples."""
    return NONE if found.spread is None else units.seconds(found.spread.p99)


def mean(found: Row) -> str:
    """Return mean and standard deviation of all samples, as published tables have them."""
    if found.spread is None:
        return NONE
    said = units.seconds(found.spread.mean)
    return said if found.spread.deviation is None else f"{said} ±{units.seconds(found.spread.deviation)}"


def rate(found: Row) -> str:
    """Return 10^9 operations per second."""
    return _per_second(found.compared.flops, found.timing)


def bandwidth(found: Row) -> str:
    """Return GB/s (10^9 B/s)."""
    return _per_second(found.compared.bytes, found.timing)


def _per_second(amount: int | None, timing: Timing | None) -> str:
    return NONE if amount is None or timing is None else units.significant(amount / timing.seconds / 1e9)


def efficiency(found: Row) -> str:
    """Return the share of the attainable rate, capped at 100%; with "!" where the roofline warns of it."""
    roofline = found.timed.roofline
    if roofline is None or found.timing is None:
        return NONE
    return roofs_percent(roofline.efficiency) + ("!" if roofline.impossible or roofline.warnings else "")


def bound(found: Row) -> str:
    """Return what binds: "memory", "compute"; "tf32" where it is TF32's peak that does."""
    roofline = found.timed.roofline
    if roofline is None or found.timing is None:
        return NONE
    return roofline.dtype if roofline.dtype == "tf32" and roofline.bound == "compute" else roofline.bound


def cache_benefit(found: Row) -> str:
    """Return how many times faster than DRAM alone would allow: "1.00x"."""
    roofline = found.timed.roofline
    return NONE if roofline is None or found.timing is None else f"{as_ratio(roofline.cache_benefit)}x"


def as_ratio(ratio: float) -> str:
    """Return a ratio with two decimals, or more digits where it is small; never 1 unless it is 1, never 0."""
    said = f"{ratio:.2f}" if ratio >= 0.1 else units.significant(ratio)
    if ratio != 1 and float(said) == 1:
        return "1.00+" if ratio > 1 else "1.00-"
    return said


def histogram(found: Row) -> str:
    """Return the samples from the fastest to the 99th percentile as blocks; what is slower counts in the last."""
    if found.spread is None:
        return NONE
    if found.spread.min == found.spread.p99:
        return CONSTANT
    return bars(speedup.histogram(found.samples, BINS))


def function(found: Row) -> str:
    """Return the time in the whole function."""
    return NONE if found.timed.function is None or found.timing is None else units.seconds(found.timed.function)


def overhead(found: Row) -> str:
    """Return what of the whole function lies outside the kernel; "within noise" where it is negative."""
    if found.timing is None:
        return NONE
    outside = speedup.overhead(found.timed.function, found.timing.seconds)
    if outside is None or outside == 0:  # 0: the call is the function, and was timed once
        return NONE
    return "within noise" if outside < 0 else units.seconds(outside)


def figure(accuracy: Accuracy, name: str) -> str:
    """Return an error figure of an output."""
    return number(accuracy.details, name)


def number(details: Mapping[str, object], name: str) -> str:
    """Return a figure of details with three digits, "-" where there is none."""
    value = details.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return NONE
    if isinstance(value, int):
        return f"{value:,}"
    return "0" if value == 0 else f"{value:.3g}"


def size(compared: Compared) -> str:
    """Return the MB (10^6 bytes) of the largest tensor."""
    return units.significant(compared.tensor_bytes / MEGABYTE)


def blank_repeats(cells: Sequence[str]) -> list[str]:
    """Return cells with those left blank that say what the one above said."""
    return ["" if number and cell == cells[number - 1] else cell for number, cell in enumerate(cells)]


def one_line(found: Row) -> str:
    """Return "61us (RSD 0.124; min -41%; max +182%)": mean, standard deviation and extremes relative to it."""
    if found.spread is None:
        return f"FAIL: {found.timed.failed}" if found.timed.failed is not None else f"n/a: {found.timed.missing}"
    spread, micro = found.spread, found.spread.mean * 1e6
    mean_text = f"{micro:,.0f}us" if micro >= 10 else f"{units.significant(micro)}us"
    if spread.deviation is None:
        return f"{mean_text} (one sample)"
    deviation = spread.deviation / spread.mean
    rsd = "<0.001" if 0 < deviation < 0.0005 else f"{deviation:.3f}"
    return f"{mean_text} (RSD {rsd}; min {_signed(spread.min / spread.mean)}; max {_signed(spread.max / spread.mean)})"


def _signed(ratio: float) -> str:
    """Return a ratio's distance from 1 with its sign: "-41%", "+0.3%"; 0% only for 1."""
    distance = abs(ratio - 1)
    if distance == 0:
        return "0%"
    shown = f"{100 * distance:.0f}%" if distance >= 0.01 else f"{100 * distance:.1f}%"
    return ("-" if ratio < 1 else "+") + ("<0.1%" if shown == "0.0%" else shown)


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of ready strings. `keep`: the higher, the later it is left out; None: never."""

    head: str
    cells: Sequence[str]
    keep: int | None = None

    @property
    def width(self) -> int:
        """How many characters it takes."""
        return max(len(text) for text in (self.head, *self.cells))


def fitting(found: Sequence[Column], width: int) -> list[Column]:
    """Return the columns that fit into `width` characters, in their order; those never left out even where they do not.

    Columns in which no cell says anything ("-" or blank) are left out first.
    """
    kept = [each for each in found if each.keep is None or any(cell not in ("", "-") for cell in each.cells)]
    while sum(each.width for each in kept) + GAP * (len(kept) - 1) > width:
        droppable = [each for each in kept if each.keep is not None]
        if not droppable:
            break
        kept.remove(min(droppable, key=lambda each: each.keep or 0))
    return kept


def text(found: Sequence[Column], width: int) -> str:
    """Return a table of the columns that fit, heads first, as aligned lines; the first column to the left."""
    kept = fitting(found, width)
    return columns(list(zip(*((each.head, *each.cells) for each in kept), strict=True)))


def bars(counts: Sequence[int]) -> str:
    """Return counts as a row of blocks; what is not empty shows, however little it is, and what is empty is a blank.

    The outermost blanks are dots, so that alignment does not swallow them.
    """
    most = max(counts, default=0)
    if most == 0:
        return ""
    shown = [" " if count == 0 else BLOCKS[min(count * len(BLOCKS) // most, len(BLOCKS) - 1)] for count in counts]
    for edge in (0, -1):
        if shown[edge] == " ":
            shown[edge] = "·"
    return "".join(shown)
