"""Find vanished series, quiet or renamed machines, machines that may be one, series begun anew. Pure."""

from __future__ import annotations

import os
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from kernel_velocity.results.identity import Identity, Slot
from kernel_velocity.results.records import Machine
from kernel_velocity.verdict.history import SLACK, SeriesHistory

DAY = 86400.0  # s
STALE_AFTER = 7.0  # days without a value: a week of nights has been missed, and not a weekend
GONE_AFTER = 90.0  # days, after which a machine is no longer mentioned: it was renamed or given away
HARDWARE = ("arch", "cpu", "num_cpu")  # of machine.json
FEW_COMMITS, FEWEST_NAMES = 3, 3  # a machine of so many commits has no trend; so many names are no accident
AHEAD = 3600.0  # s by which another machine's value may be newer than our clock


@dataclass(frozen=True, kw_only=True)
class Vanished:
    """A series with values that does not apply at a later commit."""

    identity: Identity
    last: str  # the last commit that has a value
    commit: str  # the first after it that has none


@dataclass(frozen=True, kw_only=True)
class Stale:
    """Series of a machine without a recent value."""

    machine: str
    days: float  # since the newest value of any of them
    whole: bool  # whether these are all series of the machine
    series: tuple[Identity, ...]


@dataclass(frozen=True, kw_only=True)
class Superseded:
    """A series that another one continues, because the version or the timing method changed."""

    what: str  # "version" or "method", or both
    old: Identity
    new: Identity


def vanished(
    histories: Iterable[SeriesHistory], absent: Mapping[Slot, Sequence[str]], order: Mapping[str, int]
) -> tuple[Vanished, ...]:
    """Return the series that do not apply at a commit newer than all that have a value.

    Args:
        absent: slot of a series -> commits at which it did not apply. order: commit -> position on the line.
    """
    gone = []
    for history in current(histories):
        later = [sha for sha in absent.get(history.identity.slot, ()) if order[sha] > history.newest.position]
        if later:
            first = min(later, key=order.__getitem__)
            gone.append(Vanished(identity=history.identity, last=history.newest.commit, commit=first))
    return tuple(gone)


def stale(histories: Iterable[SeriesHistory], now: float) -> tuple[Stale, ...]:
    """Return, by machine, the series without a value for STALE_AFTER days at the Unix time `now`, s.

    Left out are series of unknown time, series that another one continues, and series without a value for GONE_AFTER
    days.
    """
    machines: dict[str, list[SeriesHistory]] = defaultdict(list)
    for history in current(histories):
        machines[history.identity.machine].append(history)
    quiet = []
    for machine, group in sorted(machines.items()):
        old = {
            history.identity: history.last_measured
            for history in group
            if history.last_measured is not None and STALE_AFTER * DAY < now - history.last_measured <= GONE_AFTER * DAY
        }
        if old:
            days = (now - max(old.values())) / DAY
            quiet.append(Stale(machine=machine, series=tuple(sorted(old)), days=days, whole=len(old) == len(group)))
    return tuple(quiet)


def superseded(histories: Iterable[SeriesHistory]) -> tuple[Superseded, ...]:
    """Return the series that the newest one of their slot continues with another version or method."""
    every = list(histories)
    newest = {history.identity.slot: history.identity for history in current(every)}
    replaced = []
    for history in every:
        old, new = history.identity, newest[history.identity.slot]
        changed = [name for name in ("version", "method") if getattr(old, name) != getattr(new, name)]
        if changed:
            replaced.append(Superseded(old=old, new=new, what=" and ".join(changed)))
    return tuple(replaced)


def current(histories: Iterable[SeriesHistory]) -> tuple[SeriesHistory, ...]:
    """Return the history of each slot that was measured last. Of unknown times, that of the newest commit."""
    newest: dict[Slot, SeriesHistory] = {}
    for history in histories:
        other = newest.get(history.identity.slot)
        if other is None or _age(history) > _age(other):
            newest[history.identity.slot] = history
    return tuple(newest.values())


def _age(history: SeriesHistory) -> tuple[float, int]:
    return history.last_measured or 0.0, history.newest.position


def from_the_future(histories: Iterable[SeriesHistory], now: float, here: str = "") -> tuple[str, ...]:
    """Return a note for each machine with values later than `now` (Unix time, s): its clock was set back, or is wrong.

    Args:
        here: the machine whose clock gave `now`. That of another one may be ahead by AHEAD.
    """
    ahead: dict[str, float] = {}
    for history in histories:
        last, machine = history.last_measured, history.identity.machine
        if last is not None and last - now > (SLACK if machine == here else AHEAD):
            ahead[machine] = max(ahead.get(machine, 0.0), last - now)
    return tuple(
        f"{machine}: has values measured {_span(seconds)} after now: a clock was set back, or is wrong; "
        "they do not count as this night's"
        for machine, seconds in sorted(ahead.items())
    )


def renamed(histories: Iterable[SeriesHistory], here: str) -> tuple[str, ...]:
    """Return a note for each earlier name that the machine `here` may have had.

    That is a machine of the same CPU and GPU whose values are all older than those of `here`, the newest by at most
    GONE_AFTER days.
    """
    times: dict[str, list[float]] = defaultdict(list)
    kinds: dict[str, tuple[float, Mapping[str, str]]] = {}
    for history in histories:
        machine = history.identity.machine
        for observation in history.observations:
            if observation.measured is not None:
                times[machine].append(observation.measured)
                if observation.facts and observation.measured >= kinds.get(machine, (0.0, {}))[0]:
                    kinds[machine] = observation.measured, observation.facts
    kind = _kind(kinds[here][1]) if here in kinds else None
    return tuple(
        f"{here}: is of the kind of {name} ({kind}), of which nothing was measured since {here} is: if this machine "
        f"was renamed, --machine {name} goes on with its history"
        for name in sorted(kinds)
        if name != here
        and kind is not None
        and _kind(kinds[name][1]) == kind
        and max(times[name]) < min(times[here])
        and max(times[here]) - max(times[name]) <= GONE_AFTER * DAY
    )


def scattered(machines: Iterable[Machine], commits: Mapping[str, int]) -> Iterator[str]:
    """Yield a note for each kind of machine of which many names measured a few commits each, as hosted runners do.

    Args:
        commits: how many each machine measured, by its name.
    """
    free = ("hosted", *(f"hosted-{number}" for number in range(2, len(commits) + 2)))
    fresh = (name for name in free if name not in commits)
    names: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for machine in machines:
        details = dict(machine.details)
        if all(key in details for key in HARDWARE):
            names[tuple(details[key] for key in HARDWARE)].append(machine.name)
    for (_, cpu, count), alike in names.items():
        few = [name for name in alike if 0 < commits.get(name, 0) <= FEW_COMMITS]
        if len(few) < FEWEST_NAMES:
            continue
        most = max(alike, key=lambda name: commits.get(name, 0))
        target = next(fresh) if most in few else most
        pattern = f"{os.path.commonprefix(few)}*"  # noqa: RUF071 - of letters, not of folders
        is_exact = len(pattern) > 1 and sum(fnmatchcase(name, pattern) for name in commits) == len(few)
        yield (
            f"{len(few)} machines of one kind ({cpu}, {count} CPUs) measured at most {FEW_COMMITS} commits each, so "
            f"their series have no trend; if they are runners of one kind, measure with --machine {target}, and "
            f"`kv join {target} {shlex.quote(pattern) if is_exact else ' '.join(few)}` makes one machine of them"
        )


def _kind(facts: Mapping[str, str]) -> str | None:
    """Return the CPU and GPUs of a machine. None where they are unknown."""
    gpus = [text.partition(";")[0] for text in facts.get("gpu", "").split(" | ")]  # what limits each is behind it
    return ", ".join(filter(None, [facts.get("cpu"), *gpus])) or None


def _span(seconds: float) -> str:
    return f"{seconds / 3600:.1f} hours" if seconds >= 3600 else f"{seconds / 60:.1f} minutes"
