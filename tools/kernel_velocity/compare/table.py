"""A comparison as text for a terminal: what it ran on, a table per problem, speed-ups, errors, a closing line. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import groupby

from kernel_velocity import units
from kernel_velocity.compare import compare_rows
from kernel_velocity.compare.compare_columns import Column, fitting, text
from kernel_velocity.compare.compare_rows import NONE, Row, blank_repeats
from kernel_velocity.compare.result import Accuracy, Compared, Comparison
from kernel_velocity.stats import speedup as speed_ups

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
    rows = [row for each in compared for row in compare_rows.rows(each)]
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
        "MB": (lambda row: compare_rows.size(row.compared), 3),
        "elements": (lambda row: f"{row.compared.elements:,}", 1),
        "time ±95%": (compare_rows.time, None),
        "mean ±std": (compare_rows.mean, 2),
        "p50": (compare_rows.p50, 4),
        "p99": (compare_rows.p99, 6),
        _rates({row.compared.dtype for row in rows}): (compare_rows.rate, 12),
        "GB/s": (compare_rows.bandwidth, 11),
        "eff.": (compare_rows.efficiency, 10),
        "bound": (compare_rows.bound, 9),
        "cache": (compare_rows.cache_benefit, 8),
        "samples": (compare_rows.histogram, 5),
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
        found = {row.timed.implementation: row.timing for row in compare_rows.rows(each) if row.timing is not None}
        for pair in speed_ups.pairwise(found, reference):
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


def _speed_up(pair: speed_ups.SpeedUp) -> str:
    """Return "2.31x ±0.02", or "1.01x ±0.02 ~" where it is not told from 1."""
    said = f"{compare_rows.times(pair.ratio)}x"
    if pair.error is None:
        return said
    error = f"{pair.error:.2f}" if pair.error >= 0.005 else units.significant(pair.error)
    return f"{said} ±{error}" + ("" if pair.clear else " ~")


def _functions(rows: Sequence[Row], width: int) -> str:
    """Return the time in the whole function and its overhead; "" where none was measured."""
    shown = [row for row in rows if compare_rows.function(row) != NONE]
    if not shown:
        return ""
    found = [
        Column(head="whole function", cells=blank_repeats([row.compared.case for row in shown])),
        Column(head="implementation", cells=[row.timed.implementation for row in shown]),
        Column(head="time", cells=[compare_rows.function(row) for row in shown]),
        Column(head="outside the kernel", cells=[compare_rows.overhead(row) for row in shown]),
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
        Column(head=head, cells=[compare_rows.figure(each, name) for _, each in pairs], keep=keep)
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
