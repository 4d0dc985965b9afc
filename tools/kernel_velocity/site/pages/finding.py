"""finding-<id>.html: what happened, the evidence, whose doing it is, what was decided, and how to decide.

findings.html lists them, open ones first, with filters in the address.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from kernel_velocity import units
from kernel_velocity.findings import text
from kernel_velocity.findings.evidence import BisectionPath, Evidence, Purpose, Rerun
from kernel_velocity.findings.finding import OPEN, Affected, Finding, Kind, State, finding_href
from kernel_velocity.past.columns import Columns
from kernel_velocity.results import git, identity
from kernel_velocity.results import sessions as session_facts
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.identity import environment_of
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.results.records import Commit, name_parts
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.site import text as pages
from kernel_velocity.site.charts.plot import COLOURS, Mark, Plot, Span, around, legend_mark
from kernel_velocity.site.model import Site
from kernel_velocity.site.pages import home_table
from kernel_velocity.site.text import DASH, Cell, PageTable, Platform
from kernel_velocity.site.writer import Page
from kernel_velocity.stats.sequential import Answer, Comparison
from kernel_velocity.verdict.ranges import is_other_code, is_same_code

MOST_RERUNS = 12  # with figures
UNFOLDED = 2  # re-runs that are open from the start
MOST_COMMITS = 10  # shown with the files that they touched
MOST_FILES = 12
MOST_SERIES = 40
AROUND = 20  # measured commits on either side of a trend
ANSWERS = {Answer.DIFFERENT: "different", Answer.SAME: "the same", Answer.UNKNOWN: "not settled"}
# What a bisection says of a commit, by Tried.slow: words and colour class
VERDICTS = {True: ("slow", "slower"), False: ("fast", "faster"), None: ("not told", "")}
STATES = {
    State.NEW: "New: nobody has reviewed it yet.",
    State.SUSPECT: "Re-measured, neither confirmed nor refuted: every night tests it again.",
    State.CONFIRMED: "Confirmed: it waits for a decision.",
    State.EXPECTED: "Accepted: this change is wanted.",
    State.ACKNOWLEDGED: "Acknowledged: left alone until a date.",
    State.ENVIRONMENT: "The machine changed: no commit is to blame, no action is needed.",
    State.METHOD: "The way it is measured changed, so its series ended.",
    State.RESOLVED: "Gone again.",
}
# Columns of tables: head -> CSS class
LOOK = {"rounds a side": "", "change of time": "value", "95% interval": "value", "99.9% interval": "value"}
LOOK |= {"p": "value", "answer": ""}
TRIED = {
    "": "num",
    "commit": "who-did",
    "is": "",
    "time against the good one": "value",
    "rounds a side": "value",
    "why": "",
}
AFFECTED = {"series": "", "machine": "machine-name", "change": "", "test": "", "rate around it": ""}
DAY, REASON = "YYYY-MM-DD", "WHY"  # in a command: what only the reader knows
_WORSE = {"time": ("slower", "faster"), "error": ("less exact", "more exact")}


@dataclass(frozen=True, kw_only=True)
class Sources:
    """What the pages of all findings are made from besides the findings."""

    site: Site
    commits: Mapping[str, Commit]  # that findings or their evidence name and that the repository has
    touched: Mapping[str, Sequence[str]]  # the files that the suspected commits changed
    series: Mapping[tuple[str, ...], SeriesKey]  # by slot and version, as findings name them
    sessions: Mapping[Platform, Mapping[str, SessionFacts]]  # the newest session of each commit

    def line(self, sha: str) -> pages.CommitLine:
        """Return a commit as a line."""
        return pages.named_commit(sha, self.commits.get(sha), self.site.past.paths)


def build_pages(site: Site) -> Iterator[Page]:
    """Yield the page of every finding."""
    commits = _commits(site)
    suspected = [sha for finding in site.findings for sha in finding.commits[-MOST_COMMITS:] if sha in commits]
    changed = git.changed_lines(site.repository, tuple(dict.fromkeys(suspected)))
    sources = Sources(
        site=site,
        commits=commits,
        touched={sha: [name for name, *_ in files] for sha, files in changed.items()},
        series=site.past.slots,
        sessions={platform: dict(site.sessions(platform)) for platform in site.platforms},
    )
    for finding in site.findings:
        yield Page(name=finding_href(finding.id), template="finding.html", context={"page": _page(sources, finding)})


def _commits(site: Site) -> Mapping[str, Commit]:
    """Return every commit that findings or their evidence name and that the repository has."""
    wanted: set[str] = set()
    for finding in site.findings:
        wanted |= {*finding.commits[-MOST_COMMITS:], *([finding.anchor] if finding.anchor else [])}
        for stored in site.evidence[finding.id][0].values():
            wanted |= {sha for rerun in stored.reruns for sha in (rerun.before, rerun.after)}
            wanted |= {step.commit for path in stored.paths for step in path.tried} | {
                path.good for path in stored.paths
            }
    return git.read(site.repository, wanted).commits if wanted else {}


def _page(sources: Sources, finding: Finding) -> dict[str, Any]:
    """Return what the template shows of a finding."""
    evidence, unread = sources.site.evidence[finding.id]
    reruns = [rerun for of_machine in evidence.values() for rerun in of_machine.reruns]
    reruns.sort(key=lambda rerun: (rerun.purpose is Purpose.CULPRIT, -abs(rerun.effect or 0.0)))
    left_out = max(0, len(reruns) - MOST_RERUNS) + sum(of_machine.left_out for of_machine in evidence.values())
    machine = _machine(sources, finding)
    earlier = len(finding.commits) - MOST_COMMITS
    return {
        "finding": finding,
        "state": state(finding),
        "chip": chip(finding),
        "state_words": STATES[finding.state],
        "today": sources.site.today(finding),
        "headline": headline(finding),
        "accusation": text.role(finding) if finding.commits else "",
        "suspected": [_suspected(sources, finding.subject, sha) for sha in finding.commits[-MOST_COMMITS:]],
        "further": f"and {units.count(earlier, 'earlier commit')}" if earlier > 0 else "",
        "anchor": sources.line(finding.anchor) if finding.anchor else None,
        "found": f"{finding.found:%Y-%m-%d %H:%M %Z}",
        "shown_by": text.shown_by(finding),
        "file": f"{sources.site.findings_folder}/{finding.id}.toml",
        "decide": decisions(finding),
        "look": looks(finding),
        "missing": "" if reruns else missing(finding),
        "unread": unread,
        "reruns": [_rerun(rerun, number >= UNFOLDED) for number, rerun in enumerate(reruns[:MOST_RERUNS])],
        "left_out": f"{units.count(left_out, 'further re-run')} not shown" if left_out > 0 else "",
        "paths": [_path(sources, path) for of_machine in evidence.values() for path in of_machine.paths],
        "signs": [legend_mark(shape, colour) for _, shape, colour in SIDES],
        "series": _series(sources, finding),
        "machine": machine,
        "code": [*machine["code"], *_codes(evidence)],
        "decisions": [(decision, f"{decision.when:%Y-%m-%d %H:%M %Z}") for decision in finding.decisions],
    }


def _suspected(sources: Sources, kernel: str, sha: str) -> dict[str, Any]:
    """Return a commit with the files that it touched: the kernel's, those of all kernels, and how many others."""
    files = sources.touched.get(sha, ())
    kernels = {name_parts(key.benchmark).kernel for key in sources.site.keys} | {kernel}
    owners = sources.site.project.owners(kernels)
    built = {name: owners(name) for name in files if sources.site.project.builds_from(name)}
    of_kernel = [name for name, kernels in built.items() if kernel in kernels]
    shared = [name for name, kernels in built.items() if not kernels]
    left = len(files) - len(of_kernel) - len(shared)
    noun = "other file" if of_kernel or shared else "file"
    others = f"{units.count(left, noun)}, which {kernel} is not built from" if left else ""
    return {"line": sources.line(sha), "own": _few(of_kernel), "shared": _few(shared), "others": others}


def _few(names: Sequence[str]) -> list[str]:
    left = len(names) - MOST_FILES
    return [*names[:MOST_FILES], *([f"and {left} more"] if left > 0 else [])]


def _rerun(rerun: Rerun, is_folded: bool) -> dict[str, Any]:
    """Return a re-run. A folded one says in a few words what came of it."""
    machine, series, purpose = rerun.identity.machine, str(rerun.identity), _purpose(rerun)
    label = f"{series}, {machine}, {purpose}"
    tones = {Answer.SAME: "same", Answer.UNKNOWN: ""}
    change = f", {text.change(rerun.looks[-1].ratio)}" if rerun.looks else ""
    looks = [
        (
            str(look.rounds),
            Cell(text=text.change(look.ratio)),
            f"{text.change(look.low)} to {text.change(look.high)}",
            f"{text.change(look.least)} to {text.change(look.most)}",
            f"{look.p:.2g}",
            ANSWERS[look.answer],
        )
        for look in rerun.looks
    ]
    return {
        "series": series,
        "machine": machine,
        "purpose": purpose,
        "answer": ANSWERS[rerun.answer],
        "tone": tones.get(rerun.answer, "slower" if (rerun.effect or 0) > 0 else "faster"),
        "folded": f"{ANSWERS[rerun.answer]}{change}" if is_folded else "",
        "reason": rerun.reason,
        "floor": f"{100 * rerun.floor:.3g}%",
        "adjusted": "adjusted: corrected for machine noise in the same milliseconds"
        if rerun.is_adjusted
        else "as measured: no gauge was recorded to adjust them by",
        "figure": rounds_chart(rerun),
        "looks": PageTable(f"the test's result at each look: {label}", LOOK, looks),
    }


def _purpose(rerun: Rerun) -> str:
    """Return what a re-run was for."""
    before, after = rerun.before[:SHORT], rerun.after[:SHORT]
    if rerun.purpose is Purpose.CULPRIT:
        return f"the build that the bisection found, {after}, against the one before it, {before}"
    return f"{after} against {before}"


def _path(sources: Sources, path: BisectionPath) -> dict[str, Any]:
    """Return a bisection."""
    site = sources.site
    good, bad = site.order.get(path.good), site.order.get(path.bad)
    between = site.line[good : bad + 1] if good is not None and bad is not None else ()
    after = f"{units.count(len(between) - 1, 'commit')} after {path.good[:SHORT]}, " if between else ""
    rows = [
        (
            str(number),
            sources.line(step.commit),
            Cell(text="", change=VERDICTS[step.slow][0], tone=VERDICTS[step.slow][1]),
            _change(step.comparison),
            str(step.comparison.rounds) if step.comparison.rounds else DASH,
            step.comparison.reason,
        )
        for number, step in enumerate(path.tried, start=1)
    ]
    return {
        "series": str(path.identity),
        "machine": path.identity.machine,
        "lead": f"{after}{len(path.tried)} of them measured: {path.reason}",
        "steps": PageTable("the commits measured, in order", TRIED, rows),
    }


def _change(comparison: Comparison) -> str:
    """Return the change that a comparison found, with its interval."""
    if comparison.ratio is None:
        return DASH
    return text.change(comparison.ratio) + text.interval(comparison.low, comparison.high)


def _series(sources: Sources, finding: Finding) -> PageTable:
    """Return the series that show a finding, the largest change first."""
    ordered = sorted(finding.affected, key=lambda affected: (-abs(affected.effect), affected.identity))
    positions = [sources.site.order[sha] for sha in finding.commits if sha in sources.site.order]
    ends = (min(positions), max(positions)) if positions else None
    left = len(ordered) - MOST_SERIES
    rows = [_affected(sources, finding, affected, ends) for affected in ordered[:MOST_SERIES]]
    further = f"and {left} more: `kv findings show {finding.id}` lists them" if left > 0 else ""
    return PageTable("affected series", AFFECTED, rows, further)


def _affected(
    sources: Sources, finding: Finding, affected: Affected, ends: tuple[int, int] | None
) -> tuple[str | Cell, ...]:
    """Return the row of a series. `ends`: of the first and the last suspected commit on the line."""
    identity = affected.identity
    key = sources.series.get((*identity.slot, identity.version))
    trend = Markup("") if key is None else _trend(sources.site.series(key), ends)
    is_timed = finding.kind is not Kind.VANISHED
    return (
        Cell(text=str(identity), href="" if key is None else pages.trend_href(key)),
        identity.machine,
        Cell(
            text="",
            change=text.effect(affected) if is_timed else "no value now",
            tone={True: "slower", False: "faster", None: ""}[finding.worse(affected)] if is_timed else "",
        ),
        text.tested(affected) or DASH,
        trend or DASH,
    )


def _trend(series: Columns, ends: tuple[int, int] | None) -> Markup:
    """Return a series around the suspected commits, or its last values without such. Empty for fewer than two."""
    first, last = (len(series), len(series)) if ends is None else np.searchsorted(series.position, ends).tolist()
    start = max(0, first - AROUND)
    marked = None if ends is None else last - start
    return home_table.sparkline(series.between(start, last + AROUND), marked)


def _machine(sources: Sources, finding: Finding) -> dict[str, Any]:
    """Return what the machine was before and after a finding, and whether the code differs."""
    if finding.kind is Kind.ENVIRONMENT:
        changes = dict(sorted((finding.changes or {}).items()))
        lead = "What changed on the machine." if changes else "No recorded fact of the machine changed."
        return _facts(lead, changes)
    worst = finding.worst
    if worst is None or finding.anchor is None or not finding.commits:
        return _facts("")
    before, after = _ends(sources, worst, finding.anchor, finding.bad or finding.commits[-1])
    if before is None or after is None:
        return _facts("The facts of the machine then are not recorded.")
    changes = session_facts.changes(before.facts, after.facts)
    count = f"{units.count(len(changes), 'fact')} changed." if changes else "no recorded fact changed."
    same = [pair for pair in sorted(after.facts.items()) if pair[0] not in changes]
    kernel = worst.identity.kernel
    old, new = before.code.get(kernel), after.code.get(kernel)
    code = f"{kernel}, as built for the history: {_code('code', old, new)}" if old and new else ""
    return _facts(f"{worst.identity.machine}, when the history was measured: {count}", changes, same, code)


def _facts(
    lead: str,
    changes: Mapping[str, tuple[str, str]] | None = None,
    same: Sequence[tuple[str, str]] = (),
    code: str = "",
) -> dict[str, Any]:
    rows = [(name, old, new) for name, (old, new) in (changes or {}).items()]
    table = PageTable("what changed on the machine", {"fact": "", "before": "", "after": ""}, rows)
    return {"lead": lead, "changes": table, "same": same, "code": [code] if code else []}


def _ends(
    sources: Sources, worst: Affected, before: str, after: str
) -> tuple[SessionFacts | None, SessionFacts | None]:
    """Return the sessions that measured two commits of a series last."""
    identity = worst.identity
    for platform, sessions in sources.sessions.items():
        here = (platform.machine, environment_of(platform.environment, identity.implementation))
        if here == (identity.machine, identity.environment) and after in sessions:
            return sessions.get(before), sessions[after]
    return None, None


def _code(noun: str, old: str, new: str) -> str:
    before, after = (code.removeprefix(session_facts.scheme(code))[:12] for code in (old, new))
    if is_same_code(old, new):
        return f"the {noun} is the same ({before})"
    if is_other_code(old, new):
        return f"the {noun} is another one ({before} to {after})"
    return f"whether the {noun} is the same is unknown: it was hashed in two ways"


def _codes(evidence: Mapping[str, Evidence]) -> Iterator[str]:
    """Yield what is known of the code that the re-runs ran, each sentence once."""
    sentences = {}
    for rerun in (rerun for of_machine in evidence.values() for rerun in of_machine.reruns):
        old, new = rerun.code
        if old is not None and new is not None:
            ends = f"{rerun.identity.kernel}, {rerun.before[:SHORT]} to {rerun.after[:SHORT]}"
            sentences[ends, old == new] = f"{ends}: {_code('machine code', old, new)}"
    yield from sentences.values()


def headline(finding: Finding) -> str:
    """Return what happened in one line: "matmul got slower: time +10.3% (95% interval +8.70% to +11.6%)"."""
    if finding.kind in (Kind.ENVIRONMENT, Kind.VANISHED) or finding.worst is None:
        title = text.title(finding)
        return title[0].upper() + title[1:] if finding.kind is Kind.ENVIRONMENT else title
    words = _WORSE.get(identity.noun(finding.worst.identity.benchmark), ("worse", "better"))
    word = words[finding.kind is Kind.IMPROVEMENT]
    got = "got" if finding.state not in (State.NEW, State.SUSPECT) else "may have got"
    return f"{finding.subject} {got} {word}: {text.headline(finding)}"


def state(finding: Finding) -> str:
    """Return the state in words, with the day of an acknowledgement."""
    return finding.state.value if finding.until is None else f"{finding.state.value} until {finding.until}"


def chip(finding: Finding) -> str:
    """Return the colour class of the state. An open improvement is nothing to be afraid of."""
    return finding.kind.value if finding.kind is Kind.IMPROVEMENT and finding.state in OPEN else finding.state.value


def missing(finding: Finding) -> str:
    """Return why there is no evidence of re-runs."""
    if finding.kind is Kind.ENVIRONMENT:
        return "No re-run: no commit is in question. The evidence is that the series below moved together."
    if finding.kind is Kind.VANISHED:
        return "No re-run: a series without a value needs none."
    if finding.worst is not None and finding.worst.identity.is_error:
        return "No re-run: an error of results is computed from fixed inputs, not timed."
    if finding.worst is not None and finding.worst.identity.is_figure:
        return "No re-run: this is a figure of the compiler, not a timing."
    return (
        "No rounds of a re-run are recorded here. The machine that measured them may not have published them. "
        "The command below measures it again."
    )


def decisions(finding: Finding) -> list[tuple[str, str]]:
    """Return the commands by which a reader decides about a finding, as its state allows: what each does, its text."""
    commands = []
    if finding.state in OPEN or finding.state is State.ACKNOWLEDGED:
        command = f"kv findings acknowledge {finding.id} --until {DAY} --reason {REASON}"
        commands.append(("Leave it alone until a date", command))
    if finding.state is State.CONFIRMED and finding.kind in (Kind.REGRESSION, Kind.IMPROVEMENT) and finding.commits:
        bench = shlex.quote(rf"^{re.escape(finding.subject)}\.")
        commits = finding.culprit or f"{finding.commits[0]}^..{finding.commits[-1]}"  # a git range
        command = f"kv findings expect {commits} --bench {bench} --reason {REASON}"
        commands.append(("Accept the change", command))
    if finding.state not in OPEN and finding.state is not State.ENVIRONMENT:
        commands.append(("Open it again", f"kv findings reopen {finding.id} --reason {REASON}"))
    return commands


def looks(finding: Finding) -> list[tuple[str, str]]:
    """Return the commands by which a reader looks at a finding again: what each does, its text."""
    commands = [("Show it in a terminal", f"kv findings show {finding.id}")]
    if command := text.narrowing(finding):
        commands.append(("Re-measure the worst series and bisect", command))
    return commands


# ---- the chart ------------------------------------------------------------------------------------------

SIDES = (("before", "circle", COLOURS["triton"]), ("after", "diamond", COLOURS["eager"]))  # name, shape, colour


def rounds_chart(rerun: Rerun) -> Markup:
    """Return every round of both sides in the order measured. Empty without rounds."""
    if not rerun.rounds:
        return Markup("")
    unit = units.seconds(float(np.median([*rerun.compared[0], *rerun.compared[1]]))).split(" ")[1]
    scale = dict(units.TIME_UNITS)[unit]
    sides = [[value / scale for value in side] for side in rerun.compared]
    middles = [float(np.median(side)) for side in sides]
    counts = tuple(count for count in (1, 2, 4, 8, 16, 32, 64) if count <= rerun.rounds < 8 * count)
    rounds = Span(title="round", low=0.5, high=rerun.rounds + 0.5, at=counts)
    plot = Plot(rounds, around(f"time per call, {unit}", [*sides[0], *sides[1]]))
    for number, (name, shape, colour) in enumerate(SIDES):
        side, other = rerun.sides[number], rerun.sides[1 - number]
        plot.line([(plot.x.low, middles[number]), (plot.x.high, middles[number])], colour=colour)
        for index, value in enumerate(sides[number]):
            flags = f" ({', '.join(side.flags[index].split())})" if side.flags[index] else ""
            # the earlier one of a pair stands at the left
            x = index + 1 + (-0.16 if side.began[index] <= other.began[index] else 0.16)
            title = f"round {index + 1}, {name}: {units.significant(value)} {unit}{flags}"
            plot.mark(Mark(x=x, y=value, shape=shape, colour=colour, title=title, is_hollow=bool(flags)))
    before, after = (units.seconds(middle * scale) for middle in middles)
    return plot.svg(f"{rerun.rounds} rounds a side; median {before} before and {after} after")


# ---- the list ------------------------------------------------------------------------------------------

URGENCY = (Kind.REGRESSION, Kind.VANISHED, Kind.ENVIRONMENT, Kind.IMPROVEMENT)  # of open findings
LISTED_MACHINES = 3  # named in a row


def build_list(site: Site) -> Iterator[Page]:
    """Yield the list, also without any finding."""
    rows = [_list_row(site, finding) for finding in sorted(site.findings, key=_list_rank)]
    values = {
        "state": {finding.state.value for finding in site.findings},
        "kind": {finding.kind.value for finding in site.findings},
        "machine": {name for row in rows for name in row["machines"]},
    }
    choices = [
        (
            name,
            name,
            ({"open": "open"} if name == "state" else {}) | {"": "all"} | {value: value for value in sorted(of)},
        )
        for name, of in values.items()
        if len(of) > 1 or name == "state"
    ]
    yield Page(
        name="findings.html",
        template="findings.html",
        context={
            "rows": rows,
            "folder": site.findings_folder,
            "open": sum(row["is_open"] for row in rows),
            "choices": choices,
        },
    )


def _list_rank(finding: Finding) -> tuple[bool, int, bool, float, str]:
    """Return a sort key: open ones first, the worse before the better, confirmed before suspected. Then the newest."""
    is_open = finding.state in OPEN
    urgency = URGENCY.index(finding.kind) if is_open else 0
    return (
        not is_open,
        urgency,
        is_open and finding.state is not State.CONFIRMED,
        -finding.found.timestamp(),
        finding.id,
    )


def _list_row(site: Site, finding: Finding) -> dict[str, Any]:
    """Return a finding as a row. `searched` is the text that the filter by text looks at, in lower case."""
    machines = finding.machines or ((finding.subject,) if not finding.commits else ())
    subjects = [(sha[:SHORT], site.commits[sha].subject) for sha in finding.commits[:2] if sha in site.commits]
    only = finding.culprit is not None and bool(subjects)
    blamed, title = text.blamed(finding), headline(finding)
    words = (
        finding.id,
        finding.subject,
        title,
        blamed,
        *finding.commits,
        *machines,
        *(subject for _, subject in subjects),
    )
    return {
        "finding": finding,
        "href": finding_href(finding.id),
        "state": state(finding),
        "chip": chip(finding),
        "is_open": finding.state in OPEN,
        "headline": title,
        "today": site.today(finding),
        "blamed": blamed,
        "commit": subjects[0] if only else None,
        "machines": machines,
        "shown_machines": units.listed(machines, LISTED_MACHINES),
        "found": f"{finding.found:%Y-%m-%d}",
        "searched": " ".join(words).lower(),
    }
