"""machines.html: what each machine is, what changed on it, and what it can do at most, with the history of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from kernel_velocity import units
from kernel_velocity.findings import text as finding_text
from kernel_velocity.machine.device_figures import UNITS
from kernel_velocity.names import DEVICES
from kernel_velocity.results import sessions as session_facts
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.records import Machine
from kernel_velocity.results.sessions import Sessions
from kernel_velocity.roofline import ceilings
from kernel_velocity.roofline.roofs import SESSIONS, CeilingSession, of_newest, roof
from kernel_velocity.site import text
from kernel_velocity.site.charts.plot import SPARK_WIDE, sparkline
from kernel_velocity.site.model import Site
from kernel_velocity.site.text import DASH, Cell, PageTable, Platform
from kernel_velocity.site.writer import Page

NAME = "machines"
LISTED = 40  # newest sessions in the table of ceilings
NAMES = 3  # other machines that a remark names
SAME_HARDWARE = ("arch", "cpu", "num_cpu", "ram")  # of machine.json: what a renamed machine keeps
MOVED = Markup('<span class="moved">{} <span class="badge">moved</span></span>')


def build(site: Site) -> Iterator[Page]:
    """Yield the page."""
    sections = [_section(site, machine, number) for number, machine in enumerate(site.past.machines, start=1)]
    yield Page(name=f"{NAME}.html", template=f"{NAME}.html", context={"machines": sections})


def _section(site: Site, machine: Machine, number: int) -> dict[str, Any]:
    """Return what the template shows of a machine."""
    platforms = {platform.environment: platform for platform in site.platforms if platform.machine == machine.name}
    by_environment = {name: site.sessions(platform) for name, platform in platforms.items()}
    sessions = sorted((pair for pairs in by_environment.values() for pair in pairs), key=lambda pair: pair[1].began)
    facts = session_facts.newest_facts(sessions)
    history = {device: site.ceilings(_anywhere(machine), device) for device in DEVICES.values()}
    environments = [
        (name, f"{len(site.keys_at(platform)):,}", _span(by_environment[name])) for name, platform in platforms.items()
    ]
    return {
        "anchor": f"machine-{number}",
        "name": machine.name,
        "details": text.details_of(machine),
        "remarks": tuple(_remarks(site, machine, facts)),
        "environments": PageTable(
            f"environments of {machine.name}", {"environment": "", "series": "value", "sessions": ""}, environments
        ),
        "facts": PageTable(
            f"facts of {machine.name}",
            {"fact": "", "found": "fact", "since": "value"},
            [(name, value, units.utc(since)) for name, (value, since) in facts.items()],
        ),
        "changes": _changes(site, machine, by_environment),
        "devices": [_device(site, machine, name, sessions) for name, sessions in history.items() if sessions],
    }


def _anywhere(machine: Machine) -> Platform:
    """Return a platform on a machine: its ceilings are the same in all of its environments."""
    return Platform(anchor="", machine=machine.name, environment="", details=())


def _span(sessions: Sessions) -> str:
    """Return when sessions were recorded."""
    times = [session.began for _, session in sessions]
    if not times:
        return "no session recorded"
    first, last = units.utc(min(times)), units.utc(max(times))
    return first if first == last else f"{first} to {last}"


def _remarks(site: Site, machine: Machine, facts: Mapping[str, tuple[str, float]]) -> Iterator[str]:
    """Yield doubts about a machine's identity."""
    described = dict(machine.details)
    if machine.called is None:
        yield "machine.json is missing or unreadable: run `asv machine` on it"
    elif machine.called != machine.name:
        yield f"its folder is {machine.name}, its machine.json says {machine.called}: rename one of them"
    yield from site.hardware_doubts(machine.name)
    for device in DEVICES.values():
        history = site.ceilings(_anywhere(machine), device)
        others = len(history) - len(of_newest(history))
        if others:
            yield (
                f"{units.count(others, 'session')} measured the ceilings of another {device} under this name, or with "
                "another number of threads; the roofs leave them out"
            )
    if "cpu" in described and "cpu" in facts and described["cpu"] != facts["cpu"][0]:
        yield f"machine.json says its cpu is {described['cpu']}, the newest session found {facts['cpu'][0]}"
    hardware = _hardware(machine)
    alike = [other.name for other in site.past.machines if other.name != machine.name and _hardware(other) == hardware]
    if alike and len(hardware) == len(SAME_HARDWARE):
        yield (
            f"the same hardware as {units.listed(alike, NAMES)}: it may be that machine under another name, and its "
            f"series begin anew here; `kv join {alike[0]} {machine.name}` makes one machine of both"
        )


def _hardware(machine: Machine) -> dict[str, str]:
    """Return what asv says of a machine and a new name does not change."""
    return {key: value for key, value in machine.details if key in SAME_HARDWARE}


def _changes(site: Site, machine: Machine, by_environment: Mapping[str, Sessions]) -> PageTable:
    """Return what changed in every environment, newest first."""
    changes = [
        (name, change) for name, sessions in by_environment.items() for change in session_facts.fact_changes(sessions)
    ]
    changes.sort(key=lambda pair: -pair[1].began)
    columns = {"when": "value", "what": "", "from": "fact", "to": "fact", "seen at": "sha", "environment": "fact"}
    rows = [
        (units.utc(change.began), change.name, change.before, change.after, _link(site, change.commit), name)
        for name, change in changes
    ]
    return PageTable(f"what changed on {machine.name}", columns, rows)


def _link(site: Site, sha: str) -> Cell:
    commit = site.commits.get(sha)
    return Cell(text=sha[:SHORT] or DASH, href="" if commit is None else text.commit_href(commit))


def _device(site: Site, machine: Machine, name: str, sessions: Sequence[CeilingSession]) -> dict[str, Any]:
    """Return what the template shows of the ceilings of a machine's device."""
    used, device = of_newest(sessions), name.lower()
    shown = [key for key in ceilings.names(device) if _values(used, key)]
    ratios = {key: ceilings.ratios(used, key) for key in shown}
    rows = [_session(site, device, session, index, ratios) for index, session in enumerate(used)]
    is_compared, left = len(used) > 1, len(rows) - LISTED
    columns = {"ceiling": "", "roof in use": "value"}
    if is_compared:
        columns |= {"newest": "value", "against the sessions before": "value", "over the sessions": ""}
    return {
        "name": name,
        "lead": _lead(used, device),
        "warnings": used[-1].warnings,
        "is_compared": is_compared,
        "ceilings": PageTable(
            f"ceilings of {machine.name}, {name}",
            columns,
            [_ceiling(device, key, used, ratios[key])[: len(columns)] for key in shown],
        ),
        "sessions": PageTable(
            f"history of the ceilings of {machine.name}, {name}",
            {"session": "value", "commit": "sha"} | {ceilings.figure_title(key): "value" for key in shown},
            rows[::-1][:LISTED],
            f"and {units.count(left, 'older session')}" if left > 0 else "",
        ),
    }


def _lead(used: Sequence[CeilingSession], device: str) -> str:
    threads = None if device == "cuda" else used[-1].figures.get("threads")
    with_threads = f", with {units.count(int(threads), 'thread')}" if threads else ""
    when = units.utc(used[-1].began)
    if len(used) == 1:
        return f"Measured once, {when}{with_threads}: a second session will show whether the machine was busy."
    return f"{len(used)} sessions{with_threads}, the newest {when}."


def _values(sessions: Sequence[CeilingSession], name: str) -> list[float]:
    return [value for session in sessions if (value := session.figures.get(name)) is not None]


def _ceiling(
    device: str, name: str, sessions: Sequence[CeilingSession], ratios: Sequence[float | None]
) -> tuple[str | Cell, ...]:
    """Return a ceiling's row: title, roof, newest value, its change against the sessions before, its history."""
    unit, values, top = UNITS[device][name], _values(sessions, name), roof(sessions, name)
    change = DASH if ratios[-1] is None else finding_text.change(ratios[-1])
    low, high = (ceilings.figure_text(pick(values), unit, name) for pick in (min, max))
    chart = sparkline(
        [session.figures.get(name) for session in sessions],
        f"{ceilings.figure_title(name)} over {units.count(len(sessions), 'session')}",
        marked=[index for index, ratio in enumerate(ratios) if ceilings.has_moved(ratio)],
        tone="slower",
        level=top,
        width=SPARK_WIDE,
    )
    span = "" if len(values) == 1 else low if low == high else f"{low} to {high}"
    why = ceilings.why(name, len(_values(sessions[-SESSIONS:], name))) if len(sessions) > 1 else ""
    return (
        ceilings.figure_title(name),
        Cell(text=ceilings.figure_text(top, unit, name), detail=why),
        ceilings.figure_text(sessions[-1].figures.get(name), unit, name),
        MOVED.format(change) if ceilings.has_moved(ratios[-1]) else change,
        chart + Markup('<span class="span">{}</span>').format(span),
    )


def _session(
    site: Site, device: str, session: CeilingSession, index: int, ratios: Mapping[str, Sequence[float | None]]
) -> tuple[str | Cell, ...]:
    """Return the row of a session. `ratios` are those of the ceilings shown, `index` is its own in them."""
    shown = ((name, ceilings.figure_text(session.figures.get(name), UNITS[device][name], name)) for name in ratios)
    cells = (MOVED.format(value) if ceilings.has_moved(ratios[name][index]) else value for name, value in shown)
    return (units.utc(session.began), _link(site, session.commit), *cells)
