"""What shows the site's results elsewhere: an Atom feed, and badges for READMEs.

feed.xml (RFC 4287) has the changes of the overview's cards and the findings, newest first. Every kernel and device has
`badge-<kernel>-<Device>.svg` with its newest rate, and how near that is to the roof: from the newest commit that has a
time of an implementation of our own.
"""

from __future__ import annotations

import unicodedata
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kernel_velocity.findings.finding import Finding
from kernel_velocity.names import CONTROLS
from kernel_velocity.past.columns import NONE, comparable_before
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.measurement import Measurement
from kernel_velocity.results.records import name_parts
from kernel_velocity.roofline.model import percent
from kernel_velocity.site import text
from kernel_velocity.site.model import Site, below
from kernel_velocity.site.text import Platform
from kernel_velocity.site.writer import Page
from kernel_velocity.suite import config
from kernel_velocity.tables import plain
from kernel_velocity.verdict.verdicts import Verdict

FEED = "feed.xml"
MOST_ENTRIES = 100


@dataclass(frozen=True, kw_only=True)
class FeedEntry:
    """A change or a finding, in letters that XML can hold."""

    id: str  # an IRI, the same in every feed of the repository
    title: str
    href: str
    when: datetime
    summary: str

    @property
    def updated(self) -> str:
        """The time as Atom wants it."""
        return self.when.isoformat(timespec="seconds")


def build_feed(
    site: Site, cards: Sequence[Mapping[str, Any]], findings: Sequence[tuple[Finding, Mapping[str, Any]]]
) -> Page:
    """Return the feed of the overview's cards, and of findings with their lines. A card tells its finding, too."""
    root = uuid.uuid5(uuid.NAMESPACE_OID, site.line[0])
    shown, used_ids = {card["data"]["finding"] for card in cards}, set[str]()
    entries = [
        *(_of_card(site, root, card, used_ids) for card in cards),
        *(_of_finding(root, finding, line) for finding, line in findings if finding.id not in shown),
    ]
    entries.sort(key=lambda entry: (entry.when, entry.id), reverse=True)
    times = [site.commits[sha].committed for sha in site.measured]
    times += [entry.when for entry in entries] + [night.when for night in site.verdicts]
    project = config.asv_settings(site.repository).get("project") or "kernel-velocity"
    feed = {
        "id": root.urn,
        "title": plain(f"{project}: changes in performance"),
        "updated": max(times).isoformat(timespec="seconds"),
        "entries": entries[:MOST_ENTRIES],
    }
    return Page(name=FEED, template=FEED, context={"feed": feed})


def _of_card(site: Site, root: uuid.UUID, card: Mapping[str, Any], used_ids: set[str]) -> FeedEntry:
    """Return a card's entry, which stays the same when the change ends.

    Args:
        used_ids: of the entries before it. Where the changes of one commit end at several, only one keeps its id.
    """
    about, line = card["data"], card["commit"]
    shown_at = about["end"]["commit"] if about["end"] else about["commit"]
    names = ("commit", "machine", "environment", "kernel", "device", "state", "implementation")
    state = [card["finding"][1]] if card["finding"] else []
    others = [f"also {', '.join(card['others'])}"] if card["others"] else []
    what = " ".join(filter(None, (card["name"], card["case"])))
    change = " ".join(filter(None, (card["change"], card["margin"], card["lasted"])))
    parts = [*(about[name] for name in names), card["tone"]]
    ids = [uuid.uuid5(root, "\0".join(some)).urn for some in (parts, [*parts, shown_at])]
    used_ids.add(entry_id := ids[ids[0] in used_ids])
    return FeedEntry(
        id=entry_id,
        title=plain(f"{what}: {', '.join([change, *state])}"),
        href=card["href"],
        when=site.commits[shown_at].committed,
        summary=plain(" · ".join([line.words, card["times"], card["where"], *others])),
    )


def _of_finding(root: uuid.UUID, finding: Finding, line: Mapping[str, Any]) -> FeedEntry:
    causes = [cause.words for cause in line["commits"]]
    words = [line["state"], line["interval"], line["where"], *causes]
    return FeedEntry(
        id=uuid.uuid5(root, finding.id).urn,
        title=plain(f"{line['subject']}: {line['change']}"),
        href=line["href"],
        when=finding.found,
        summary=plain(" · ".join(filter(None, words))),
    )


# ---- badges ----------------------------------------------------------------------------------------------------

STATE = "hot"
SIZE = 11  # px, of the letters
EDGE = 6  # px, of the space beside them
MOST_LETTERS = 32  # of a name; the title has all of it
GREY = "#3d444b"  # behind the name; white on every one of these has a contrast of 4.5:1
COLOURS = {"faster": "#14713f", "slower": "#b3261e"}  # behind the rate, by its change
COLOUR = "#0b5cad"  # behind a rate without a distinct change
# Widths of the letters from " " to "~" in DejaVu Sans, thousandths of its size.
WIDTHS = (
    *(318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337),
    *(636, 636, 636, 636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531),
    *(1000, 684, 686, 698, 770, 632, 575, 775, 752, 295, 295, 656, 557, 863, 748, 787),
    *(603, 787, 695, 635, 611, 732, 684, 989, 685, 611, 685, 390, 337, 390, 838, 500),
    *(500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579, 278, 974, 634, 612),
    *(635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838),
)
SIGNS = {"·": 318, "≈": 838, "…": 1000, "µ": 636}  # what the pages write besides
WIDE, OTHER = 1000, 636  # of letters from East Asia and pictures; of all others


def build_badges(site: Site) -> Iterator[Page]:
    """Yield the badge of every kernel and device that has a time of an implementation of our own."""
    for benchmark in dict.fromkeys(key.benchmark for key in site.keys):
        kernel, device, state = name_parts(benchmark)
        newest = _newest(site, benchmark) if device and state == STATE else None
        if newest is not None:
            context = {"badge": _badge(site, *newest)}
            yield Page(name=f"badge-{text.in_file_name(kernel)}-{device}.svg", template="badge.svg", context=context)


def _newest(site: Site, benchmark: str) -> tuple[Platform, Measurement, Verdict | None] | None:
    """Return the newest time of a benchmark of ours with its machine, and what it did since the value before.

    At the newest commit that has one: of the last test case, which is the largest, the fastest time.
    """
    candidates = []
    for platform in site.platforms:
        keys = site.keys_at(platform, benchmark)
        cases = list(dict.fromkeys(key.case for key in keys))
        for key in keys:
            series = site.series(key)
            entries = series.is_measured.nonzero()[0]
            if key.implementation not in CONTROLS and entries.size:
                last = int(entries[-1])
                now, base = series.measurement(last, site.line), int(comparable_before(series, last)[0])
                verdict = None if base == NONE else site.levels[key].between(base, last)
                rank = (int(series.position[last]), cases.index(key.case), -(now.seconds or 0.0))
                candidates.append((rank, (platform, now, verdict)))
    return max(candidates, key=lambda pair: pair[0])[1] if candidates else None


def _badge(site: Site, platform: Platform, now: Measurement, verdict: Verdict | None) -> dict[str, object]:
    """Return what the template shows of a measured value. Lengths in px."""
    key = now.key
    kernel, device, _ = name_parts(key.benchmark)
    change, tone = ("", "") if verdict is None else (text.verdict(verdict), text.tone(verdict.word))
    share = _share(site, platform, device, now)
    rate = " · ".join(filter(None, (text.rate(now), share or change)))
    origin = f"{key.implementation}, {key.case}, {key.machine}, commit {now.commit[:SHORT]}"
    left = _box(f"{kernel if len(kernel) <= MOST_LETTERS else f'{kernel[: MOST_LETTERS - 1]}…'} {device}", 0, GREY)
    right = _box(rate, left["width"], COLOURS.get(tone, COLOUR))
    title = plain(f"{kernel} on {device}: {rate} ({origin})")
    return {"title": title, "width": left["width"] + right["width"], "boxes": (left, right)}


def _share(site: Site, platform: Platform, device: str, measurement: Measurement) -> str:
    """Return the share of its limit. "" where its ceilings or the work are not known."""
    roofline = below(measurement, measurement.seconds, site.roof_choice(platform, device, measurement.commit).roofs)
    if roofline is None:
        return ""
    return f"{percent(roofline.of_limit)} of {roofline.limit}"


def _box(words: str, start: int, colour: str) -> dict[str, Any]:
    """Return one half of a badge. Its letters are set to `length`, whatever font there is."""
    length = width(words) * SIZE / 1000
    whole = round(length) + 2 * EDGE
    middle = f"{start + whole / 2:g}"
    return {
        "text": words, "start": start, "width": whole, "middle": middle, "length": f"{length:.1f}", "colour": colour
    }  # fmt: skip


def width(words: str) -> int:
    """Return how wide a text is, in thousandths of its size."""
    return sum(map(_width, words))


def _width(letter: str) -> int:
    if " " <= letter <= "~":
        return WIDTHS[ord(letter) - ord(" ")]
    if letter in SIGNS or unicodedata.combining(letter):
        return SIGNS.get(letter, 0)
    return WIDE if unicodedata.east_asian_width(letter) in "WF" else OTHER
