"""The page of the machines: what each is, what changed on it, and what it can do at most, with the history of both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernel_velocity import units
from kernel_velocity.findings import text as finding_text
from kernel_velocity.harness.cases import DEVICES
from kernel_velocity.harness.device_figures import UNITS
from kernel_velocity.results import sessions as session_facts
from kernel_velocity.results.git import SHORT
from kernel_velocity.results.records import Machine
from kernel_velocity.roofline import ceilings as ceiling_history
from kernel_velocity.roofline import table
from kernel_velocity.roofline.roofs import SESSIONS, CeilingSession, of_newest, roof
from kernel_velocity.site import text as pages
from kernel_velocity.site.charts import small
from kernel_velocity.site.charts.small import SmallChart
from kernel_velocity.site.model import Site
from kernel_velocity.site.outputs import DataFile, Page
from kernel_velocity.site.text import Place

NAME = "machines"
FORMAT = 1  # of the data file
LISTED = 40  # newest sessions in a table of ceilings; the data file has all
SAME_HARDWARE = ("arch", "cpu", "num_cpu", "ram")  # of machine.json: what a renamed machine keeps


@dataclass(frozen=True, kw_only=True)
class Environment:
    """One of asv's environments on a machine."""

    name: str
    series: str
    measured: str  # when sessions were recorded


@dataclass(frozen=True, kw_only=True)
class Fact:
    """What the newest session found."""

    name: str
    text: str
    since: str


@dataclass(frozen=True, kw_only=True)
class Change:
    """A fact that changed."""

    when: str
    environment: str
    commit: str
    href: str
    name: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True)
class Ceiling:
    """One ceiling of a device, and its history."""

    title: str
    newest: str
    roof: str
    why: str
    moved: str  # against the sessions before; "" where it did not move by more than is usual
    change: str
    chart: SmallChart | None
    span: str  # of the chart's values


@dataclass(frozen=True, kw_only=True)
class Row:
    """One session in the table of the history."""

    when: str
    commit: str
    href: str
    cells: tuple[tuple[str, bool], ...]  # value, and whether it has moved


@dataclass(frozen=True, kw_only=True)
class Device:
    """The ceilings of one device of a machine."""

    name: str
    lead: str
    warnings: tuple[str, ...]
    ceilings: tuple[Ceiling, ...]
    titles: tuple[str, ...]  # of the columns of `rows`
    rows: tuple[Row, ...]  # newest first
    further: str


@dataclass(frozen=True, kw_only=True)
class MachineSection:
    """One machine."""

    anchor: str
    name: str
    details: tuple[tuple[str, str], ...]
    remarks: tuple[str, ...]
    environments: tuple[Environment, ...]
    facts: tuple[Fact, ...]
    changes: tuple[Change, ...]  # newest first
    devices: tuple[Device, ...]
    missing: str  # what there are no ceilings of, and how to get some; "" where there are


def build(found: Site) -> Iterator[Page | DataFile]:
    """Yield the page, and the history of every machine's ceilings as data."""
    sections = tuple(_section(found, machine, number) for number, machine in enumerate(found.machines, start=1))
    yield Page(name=f"{NAME}.html", template=f"{NAME}.html", context={"machines": sections})
    yield DataFile(name=NAME, value=_data(found))


def _section(found: Site, machine: Machine, number: int) -> MachineSection:
    places = [place for place in found.places if place.machine == machine.name]
    recorded = {place.environment: found.sessions(place) for place in places}
    sessions = sorted((pair for each in recorded.values() for pair in each), key=lambda pair: pair[1].began)
    ceilings = {device: found.ceilings(_anywhere(machine), device) for device in DEVICES.values()}
    devices = tuple(_device(found, name, known) for name, known in ceilings.items() if known)
    facts = session_facts.newest_facts(sessions)
    return MachineSection(
        anchor=f"machine-{number}",
        name=machine.name,
        details=pages.details_of(machine),
        remarks=tuple(_remarks(found, machine, sessions, facts)),
        environments=tuple(_environment(found, place, recorded[place.environment]) for place in places),
        facts=tuple(Fact(name=name, text=text, since=units.utc(since)) for name, (text, since) in facts.items()),
        changes=tuple(_changes(found, recorded)),
        devices=devices,
        missing="" if devices else "No ceilings are recorded, so there are no roofs to hold its kernels against.",
    )


def _anywhere(machine: Machine) -> Place:
    """Return a place on a machine: its ceilings are the same in all of its environments."""
    return Place(anchor="", machine=machine.name, environment="", details=())


def _environment(found: Site, place: Place, sessions: session_facts.Sessions) -> Environment:
    times = [session.began for _, session in sessions]
    first, last = (units.utc(pick(times)) if times else "" for pick in (min, max))
    return Environment(
        name=place.environment,
        series=f"{len(found.keys_at(place)):,}",
        measured="no session recorded" if not times else first if first == last else f"{first} to {last}",
    )


def _remarks(
    found: Site, machine: Machine, sessions: session_facts.Sessions, facts: Mapping[str, tuple[str, float]]
) -> Iterator[str]:
    """Yield what is doubtful about a machine's identity."""
    described = dict(machine.details)
    if machine.called is None:
        yield "asv recorded nothing of it: machine.json is missing or cannot be read. Run asv machine on it"
    elif machine.called != machine.name:
        yield f"its folder is named {machine.name}, its machine.json says {machine.called}: one of them was renamed"
    # where no session knows the hardware, the results of a plain asv run do
    yield from list(session_facts.hardware_doubts(sessions)) or session_facts.hardware_doubts(
        found.hardware(machine.name)
    )
    yield from _other_devices(found, machine)
    if "cpu" in described and "cpu" in facts and described["cpu"] != facts["cpu"][0]:
        yield f"machine.json says its cpu is {described['cpu']}, the newest session found {facts['cpu'][0]}"
    yield from (
        f"the same hardware as {other.name}: it may be that machine under another name, and its series begin anew here"
        for other in found.machines
        if other.name != machine.name and _is_same_hardware(machine, other)
    )


def _is_same_hardware(machine: Machine, other: Machine) -> bool:
    """Return whether asv says the same of two machines, of all that a new name does not change."""
    one, two = ({key: text for key, text in each.details if key in SAME_HARDWARE} for each in (machine, other))
    return one == two and len(one) == len(SAME_HARDWARE)


def _other_devices(found: Site, machine: Machine) -> Iterator[str]:
    for device in DEVICES.values():
        sessions = found.ceilings(_anywhere(machine), device)
        others = len(sessions) - len(of_newest(sessions))
        if others:
            yield (
                f"{units.count(others, 'session')} measured the ceilings of another {device} under this name, or with "
                "another number of threads; the roofs leave them out"
            )


def _changes(found: Site, recorded: Mapping[str, session_facts.Sessions]) -> list[Change]:
    """Return what changed in every environment, newest first."""
    changed = [(name, item) for name, sessions in recorded.items() for item in session_facts.fact_changes(sessions)]
    changed.sort(key=lambda pair: -pair[1].began)
    return [
        Change(
            when=units.utc(item.began),
            environment=name,
            commit=item.commit[:SHORT],
            href=pages.commit_href(item.commit) if item.commit in found.commits else "",
            name=item.name,
            before=item.before,
            after=item.after,
        )
        for name, item in changed
    ]


def _device(found: Site, name: str, sessions: Sequence[CeilingSession]) -> Device:
    used = of_newest(sessions)
    shown = [each for each in ceiling_history.names(name.lower()) if _values(used, each)]
    ratios = {each: ceiling_history.ratios(used, each) for each in shown}
    rows = [_row(found, session, _cells(name, session, shown, ratios, index)) for index, session in enumerate(used)]
    return Device(
        name=name,
        lead=_lead(used),
        warnings=used[-1].warnings,
        ceilings=tuple(_ceiling(name, each, used, ratios[each]) for each in shown),
        titles=tuple(table.title(each) for each in shown),
        rows=tuple(rows[::-1][:LISTED]),
        further=f"{units.count(len(rows) - LISTED, 'older session')} in data/{NAME}.json" if len(rows) > LISTED else "",
    )


def _lead(used: Sequence[CeilingSession]) -> str:
    threads = used[-1].figures.get("threads")
    with_threads = f", with {units.count(int(threads), 'thread')}" if threads else ""
    if len(used) == 1:
        when = units.utc(used[0].began)
        return f"Measured once, {when}{with_threads}: only further sessions tell whether it was busy then."
    return f"{len(used)} sessions{with_threads}, the newest {units.utc(used[-1].began)}."


def _values(sessions: Sequence[CeilingSession], name: str) -> list[float]:
    return [value for session in sessions if (value := session.figures.get(name)) is not None]


def _ceiling(device: str, name: str, sessions: Sequence[CeilingSession], ratios: Sequence[float | None]) -> Ceiling:
    unit, values = UNITS[device.lower()][name], _values(sessions, name)
    top, ratio = roof(sessions, name), ratios[-1]
    has_moved = ceiling_history.has_moved(ratio)
    drawn = small.line(
        [session.figures.get(name) for session in sessions],
        marked=[ceiling_history.has_moved(each) for each in ratios],
        level=top,
        label=f"{table.title(name)} over {units.count(len(sessions), 'session')}",
    )
    low, high = (table.value(pick(values), unit, name) for pick in (min, max))
    return Ceiling(
        title=table.title(name),
        newest=table.value(sessions[-1].figures.get(name), unit, name),
        roof=table.value(top, unit, name),
        why=ceiling_history.why(name, len(_values(sessions[-SESSIONS:], name))),
        moved="moved" if has_moved else "",
        change="" if ratio is None else finding_text.change(ratio),
        chart=drawn,
        span="" if len(values) == 1 else low if low == high else f"{low} to {high}",
    )


def _cells(
    device: str,
    session: CeilingSession,
    shown: Sequence[str],
    ratios: Mapping[str, Sequence[float | None]],
    index: int,
) -> tuple[tuple[str, bool], ...]:
    """Return a session's ceilings, and whether each has moved; `index` is its place among the sessions."""
    named = UNITS[device.lower()]
    return tuple(
        (
            table.value(session.figures.get(name), named[name], name),
            ceiling_history.has_moved(ratios[name][index]),
        )
        for name in shown
    )


def _row(found: Site, session: CeilingSession, cells: tuple[tuple[str, bool], ...]) -> Row:
    return Row(
        when=units.utc(session.began),
        commit=session.commit[:SHORT],
        href=pages.commit_href(session.commit) if session.commit in found.commits else "",
        cells=cells,
    )


def _data(found: Site) -> dict[str, Any]:
    """Return all that the page shows of ceilings, and more sessions of them, in base units."""
    machines = []
    for machine in found.machines:
        known = {device: found.ceilings(_anywhere(machine), device) for device in DEVICES.values()}
        devices = {device: ceiling_history.columns(sessions, device.lower()) for device, sessions in known.items()}
        machines.append({"machine": machine.name, "devices": {name: each for name, each in devices.items() if each}})
    return {"format": FORMAT, "machines": machines}
