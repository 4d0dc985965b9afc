"""Scores what pages say against what is true: on generated trees with planted changes, and on pure noise.

What is scored is what a reader sees in Chromium: everything of class `slower` or `faster` that is about one kernel is a
claim that a series changed, at a commit or over a time. It is false where the series' true times did not change so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from playwright.sync_api import Page

from kernel_velocity.names import CONTROLS
from kernel_velocity.site import report
from tests import large_tree
from tests.large_tree import PAIRS, Change, Shape

RECENT = 25  # commits: what changed in them belongs on home's first screen
CARDS, ROWS = 10, 40  # of the first screen
SLACK = 2  # commits by which a change that names its commit may be off
MONTH = 30  # days: the most that home looks back without naming the commit
SIZES = (0.10, 0.05, 0.03, 0.02)
# Coloured elements that are about one kernel. Each has the HTML of what holds it, innermost first, up to the first that
# names a kernel, and where it is on the page.
CLAIMS = r"""() => {
  const html = (item) => {
    const copy = item.cloneNode(true);
    copy.querySelectorAll("svg").forEach((svg) => svg.remove());
    return copy.outerHTML;
  };
  const kernels = (text) => new Set(text.match(/kernel_\d{3}/g)).size;
  const seen = (item) => item.checkVisibility() && item.getClientRects().length > 0;
  const rows = [...document.querySelectorAll("tbody tr")].filter(seen);
  const cards = [];
  return [...document.querySelectorAll(".slower, .faster")].flatMap((item) => {
    if (item.closest("[hidden], svg") || item.parentElement.closest("td.slower, td.faster")) return [];
    const row = item.closest("tbody tr"), cell = item.closest("td, th");
    const levels = [];
    let holder = row ?? item;
    for (; holder !== document.body; holder = holder.parentElement) {
      levels.push(html(holder));
      if (kernels(levels.at(-1))) break;
    }
    if (kernels(levels.at(-1)) !== 1 && holder !== item) return []; // a card is about the first that it names
    if (!row && seen(item) && !cards.includes(holder)) cards.push(holder);
    const head = cell && [...(cell.closest("table").tHead?.rows ?? [])].at(-1)?.cells[cell.cellIndex]?.textContent;
    return [{
      tone: item.classList.contains("slower") ? "slower" : "faster", levels, head: head ?? "",
      text: (cell ?? item).textContent, row: row ? rows.indexOf(row) : -1, card: row ? -1 : cards.indexOf(holder),
    }];
  });
}"""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a page says: one of these series got slower or faster, from a commit to another."""

    series: frozenset[int]
    tone: str
    base: int  # index of the commit before
    target: int
    is_first: bool  # on the first screen


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A generated tree with its site."""

    shape: Shape
    changes: Sequence[Change]
    commits: tuple[str, ...]
    out: Path

    def drift(self, series: int, base: int, target: int) -> float:
        """Return the logarithm of what a series' time truly changed by between two commits."""
        return sum(math.log(c.factor) for c in self.changes if series in c.series and base < c.at <= target)

    def is_true(self, claim: Claim) -> bool:
        """Whether one of a claim's series truly changed in its direction."""
        sign = 1 if claim.tone == "slower" else -1
        return any(sign * self.drift(series, claim.base, claim.target) > 1e-9 for series in claim.series)

    def claims(self, tab: Page, at: int | None, base: int | None = None) -> Iterator[Claim]:
        """Yield the claims of the page that a tab shows.

        Args:
            at: the commit that the page is about. None: home, which is about the newest and names others. base: that
                it is compared with, where an element names no other. None: the one before.
        """
        newest, everything = len(self.commits) - 1, frozenset(range(self.shape.series))
        for claim in tab.evaluate(CLAIMS):
            is_row, is_count = claim["row"] >= 0, bool(re.fullmatch(r"\W*\d+\s*", claim["text"]))
            named = self._named(claim["text"] if is_row and not is_count else claim["levels"][-1])
            if at is not None:
                start, end = (named[0] if named else at - 1 if base is None else base), at
            elif named and (is_count or not is_row):
                start, end = max(named[0] - 1 - SLACK, 0), named[0] + SLACK
            else:
                start, end = newest - reach(claim["head"]), newest
            yield Claim(
                series=everything if is_count else series_of(claim["levels"], self.shape),
                tone=claim["tone"],
                base=start,
                target=end,
                is_first=0 <= claim["row"] < ROWS or 0 <= claim["card"] < CARDS,
            )

    def _named(self, text: str) -> list[int]:
        """Return the commits that a text names, as indices."""
        positions = {sha[:8]: index for index, sha in enumerate(self.commits)}
        return [positions[name] for name in re.findall(r"\b[0-9a-f]{8}\b", text) if name in positions]


def reach(head: str) -> int:
    """Return how many commits back a column of home looks, by its head: "last 25 commits", "7 days"."""
    number = re.search(r"(\d+) (commit|day|night)", head)
    if number is None:
        return 24 * MONTH
    return int(number[1]) * (1 if number[2] == "commit" else 24)


def series_of(levels: Sequence[str], shape: Shape) -> frozenset[int]:
    """Return the series that the HTML around an element names, the innermost first. `native` where none is named."""

    def names(pattern: str, *, in_text: bool) -> set[str]:
        for html in levels:
            attributes = re.findall(rf'(?:data-\w+="|[=;#/-])(?:float32-)?({pattern})["&]', html)
            text = re.findall(rf"\b(?:{pattern})\b", re.sub(r"<[^>]*>", " ", html))
            if texts := attributes[:1] or (text if in_text else text[:1]):
                return set(texts)
        return set()

    kernel = re.search(r"kernel_\d{3}", levels[-1])[0]
    states = names("hot|cold", in_text=False) or {"hot", "cold"}
    implementations = names("eager|compile|native|triton", in_text=False) or {"native"}
    cases = {f"float32-{case}" for case in names("500k|1M|5M|10M|50M", in_text=True)} or set(large_tree.SIZES)
    return frozenset(
        number * len(PAIRS) + index
        for number, benchmark in enumerate(shape.benchmarks)
        for index, (implementation, case) in enumerate(PAIRS)
        if benchmark.startswith(kernel)
        and any(benchmark.endswith(state) for state in states)
        and implementation in implementations
        and case in cases
    )


def planted(shape: Shape) -> list[Change]:
    """Return changes of every size of SIZES, up and down, in the newest commits, and older ones elsewhere.

    A recent one is of `native` in a benchmark of its own: in one test case, or in all.
    """
    chance = np.random.default_rng([shape.seed, 23])
    benchmarks = chance.permutation(len(shape.benchmarks))
    ages = chance.permutation(RECENT)
    native = [index for index, (name, _) in enumerate(PAIRS) if name == "native"]
    factors = [factor for size in SIZES for factor in (1 + size, 1 / (1 + size))]
    changes = []
    for number, factor in enumerate(factors):
        cases = native if chance.random() < 0.5 else [chance.choice(native)]
        series = tuple(int(benchmarks[number]) * len(PAIRS) + int(case) for case in cases)
        changes.append(Change(at=shape.commits - 1 - int(ages[number]), factor=factor, series=series))
    for number in benchmarks[len(factors) :]:
        for index, (name, _) in enumerate(PAIRS):
            if name not in CONTROLS:
                at = int(chance.integers(shape.commits // 5, shape.commits - 2 * RECENT))
                changes.append(Change(at=at, factor=chance.choice(factors), series=(int(number) * len(PAIRS) + index,)))
    return changes


def make(folder: Path, shape: Shape, changes: Sequence[Change], family: str) -> Tree:
    """Build a tree with noise of a family, and its site."""
    commits = large_tree.build(folder, shape, changes, family)
    out = folder / "site"
    report.write_site(results=folder / "results", repository=folder / "repository", out=out)
    return Tree(shape=shape, changes=changes, commits=commits, out=out)


def home(tree: Tree, tab: Page) -> list[Claim]:
    """Return the claims of home."""
    tab.goto((tree.out / "index.html").as_uri())
    return list(tree.claims(tab, None))


def commit_pages(tree: Tree, tab: Page) -> Iterator[list[Claim]]:
    """Yield the claims of each commit's page."""
    for index, sha in enumerate(tree.commits):
        tab.goto((tree.out / f"commit-{sha[:8]}.html").as_uri())
        tab.wait_for_selector("body[data-ready=yes]")
        yield list(tree.claims(tab, index))


@dataclass
class Score:
    """How many claims some pages made, and how many were false."""

    pages: int = 0
    series: int = 0  # that could have been coloured, over all pages
    coloured: int = 0
    false: int = 0
    with_false: int = 0  # pages

    def add(self, tree: Tree, claims: Sequence[Claim]) -> None:
        """Add a page. What a page says twice of the same series counts once."""
        claims = dict.fromkeys(claims)
        false = {claim.series for claim in claims if not tree.is_true(claim)}
        self.pages += 1
        self.series += tree.shape.series
        self.coloured += len({claim.series for claim in claims})
        self.false += len(false)
        self.with_false += bool(false)


def recent(tree: Tree) -> Iterator[Change]:
    """Yield the changes that home should name."""
    return (change for change in tree.changes if change.at >= len(tree.commits) - RECENT)


def is_named(change: Change, claims: Sequence[Claim]) -> bool:
    """Whether a claim names a change: one of its series, its direction, and a time that has it."""
    tone = "slower" if change.factor > 1 else "faster"
    return any(
        claim.tone == tone and claim.base < change.at <= claim.target and claim.series & set(change.series)
        for claim in claims
    )
