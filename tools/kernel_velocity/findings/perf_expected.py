"""`Perf-Expected:` lines of commit messages: the author says that a change of speed is wanted.

    Perf-Expected: matmul +3% because the bias is added in the epilogue
    Perf-Expected: quantize_int8.Cuda -20%
    Perf-Expected: * any because the compiler's flags changed

A line names series, how far their value may move (`any`: however far), and why. Series: a kernel, or a series' name or
its beginning, with `*` for any letters. The percentage is of the value, time for most: +3% allows 3% more time and no
more, -20% expects up to 20% less. A line in a merged branch counts for its merge, too. Pure. What is in a message is
what a stranger typed: a pattern of these letters only, and never a regular expression, which can be made to take for
ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kernel_velocity.findings.decisions import Expectation
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.records import Commit
from kernel_velocity.stats.sequential import Comparison

KEY = "Perf-Expected"
_LINE = re.compile(rf"^{KEY}[ \t]*:(.*)$", re.MULTILINE | re.IGNORECASE)
_SAID = re.compile(
    r"\s*(?P<series>[\w.*-]{1,100})\s+(?P<much>any|[+-]\d{1,4}(?:\.\d{1,3})?%)(?:\s+(?:because|:|-)?\s*(?P<why>\S.*))?",
    re.ASCII,
)
_FORM = f"`{KEY}: SERIES +3%|-3%|any [because REASON]`"


def expectations(
    commits: Iterable[Commit], merged: Mapping[str, Iterable[Commit]] | None = None
) -> tuple[tuple[Expectation, ...], tuple[str, ...]]:
    """Return what the messages of commits expect, and a note for each line that says nothing that can be read.

    Args:
        merged: the commits that a merge brought, by its SHA: what they expect may be seen at the merge alone.
    """
    found: list[Expectation] = []
    notes = []
    brought = ((merge, commit) for merge, items in (merged or {}).items() for commit in items)
    for sha, commit in (*((commit.sha, commit) for commit in commits), *brought):
        for number, text in enumerate(_LINE.findall(commit.message), start=1):
            said = _SAID.fullmatch(text.strip())
            if said is None:
                shown = "".join(letter if letter.isprintable() else "?" for letter in text.strip()[:60])
                notes.append(f"{commit.sha[:8]}: {KEY}: {_FORM} is wanted, got {shown!r}; nothing is expected by it")
            else:
                found.append(_expectation(commit, number, said, sha))
    return tuple(found), tuple(dict.fromkeys(notes))


def slower_as_expected(found: Mapping[Series, Comparison], said: Iterable[Expectation]) -> dict[Series, str]:
    """Return the series that are slower, or may be, but no more than somebody expects, each with the reason given."""
    expected = {}
    for series, item in found.items():
        if item.ratio is None or not (item.slower or item.suspect):
            continue
        name = " ".join([series[0], *series[1]])
        one = next((one for one in said if one.allows(name, item.ratio, item.low, item.high)), None)
        if one is not None:
            expected[series] = one.reason
    return expected


def _expectation(commit: Commit, number: int, said: re.Match[str], sha: str) -> Expectation:
    much = said["much"]
    return Expectation(
        id=f"{commit.sha[:8]}-{number}",
        commits=(sha,),
        bench=_pattern(said["series"]),
        reason=f"{KEY} in {commit.sha[:8]}: {said['why'] or much}",
        who=commit.author,
        when=commit.date,
        most=None if much == "any" else 1 + float(much.rstrip("%")) / 100,
    )


def _pattern(series: str) -> str:
    """Return the regular expression of a pattern: from the name's beginning to the end of a part of it.

    What lies between two stars is taken where it first fits, for good (an atomic group): to try every other place, star
    by star, takes a time exponential in the stars.
    """
    first, *rest = (re.escape(part) for part in re.split(r"\*+", series))
    between = "".join(rf"(?>\S*?{part})" for part in rest[:-1])
    last = rf"\S*{rest[-1]}" if rest else ""
    return rf"^{first}{between}{last}(?:[. ]|$)"
