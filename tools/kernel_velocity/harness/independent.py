"""The same bound calls, timed by methods that share no code with our timers: do the timers tell the truth?

Every method ends in the harness's robust location, so that it is timers that are compared, not estimators. What a
method is known to see differently (caches it empties, gaps it leaves out) is shown without a verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from statistics import median
from time import perf_counter
from typing import Any

from kernel_velocity.harness import statistics
from kernel_velocity.harness.independent_methods import METHODS, SECONDS, Method, Subject
from kernel_velocity.harness.machine import activity, read_counters
from kernel_velocity.harness.reported import cache_size
from kernel_velocity.harness.sampling import batch_for, warm_up
from kernel_velocity.harness.suite import Series
from kernel_velocity.harness.timers import Call, Timer

FORMAT = 1
DISAGREE = 0.03  # relative: three times what rounds of one commit differ by on a quiet machine
PASSES = 3  # each times all methods in turn, so that a drift of the machine is not taken for disagreement


@dataclass(frozen=True, kw_only=True)
class Row:
    """One series by every method. Seconds per call; None where a method has no value.

    Attributes:
        bytes: least memory traffic of a call, about its working set.
        worst: the largest relative deviation of a comparable method from the harness (signed), None without one.
        agrees: True where all comparable methods are within DISAGREE; False where one is beyond it by more than the
            passes themselves differ; None where that is not known.
        why: what is absent or not comparable, what disagrees, what is too noisy to say.
    """

    kernel: str
    implementation: str
    case: str
    bytes: int | None
    harness: float | None
    others: Mapping[str, float | None]
    worst: float | None
    agrees: bool | None
    why: str


@dataclass(frozen=True)
class Deviation:
    """A method against the harness, relative; `noise` is what passes of the same method differ by."""

    value: float
    noise: float

    @property
    def agrees(self) -> bool | None:
        """Return whether the two agree; None where the noise hides it."""
        if abs(self.value) <= DISAGREE:
            return True
        return False if abs(self.value) > DISAGREE + self.noise else None

    def in_words(self) -> str:
        """Return "differs by +4.1%", and why that proves nothing where it does not."""
        hidden = f", but passes differ by {self.noise:.1%}" if self.agrees is None else ""
        return f"differs by {self.value:+.1%}{hidden}"


def deviation(ours: Sequence[float], theirs: Sequence[float]) -> Deviation:
    """Return how far a method is from ours, both timed in the same passes: the median over passes."""
    ratios = [other / own for own, other in zip(ours, theirs, strict=True)]
    return Deviation(median(ratios) - 1, max((max(t) - min(t)) / median(t) for t in (ours, theirs)))


@dataclass
class Findings:
    """What has been measured of one series so far."""

    harness: list[float] = field(default_factory=list)
    others: dict[str, float] = field(default_factory=dict)
    deviations: dict[str, Deviation] = field(default_factory=dict)  # of the comparable methods
    reasons: dict[str, str] = field(default_factory=dict)  # method -> why absent, or why not comparable


def measure(series: Sequence[Series], device: str, save: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Time every series by every method of its device; return the document, ready for JSON.

    `save` gets the document after each series, too: a method that takes the process with it costs only what follows.
    Groups of methods that must not share a process's state run one after the other.
    """
    cache = cache_size(device)
    findings = {each: Findings() for each in series}
    for group in METHODS[device]:
        for each in series:
            _time(each, group, cache, findings[each])
            save(document(device, findings))
    return document(device, findings)


def _time(series: Series, group: Sequence[Method], cache: int | None, findings: Findings) -> None:
    """Add what the methods of a group say of a series."""
    try:
        compare(Subject(series=series, bench=series.set_up(), cache=cache), group, findings)
    except NotImplementedError as error:
        findings.reasons |= dict.fromkeys((method.name for method in group), str(error))
    except Exception as error:  # noqa: BLE001 - nobody watches: what one series raises must not cost the others
        findings.reasons |= dict.fromkeys((method.name for method in group), _in_words(error))


def compare(subject: Subject, group: Sequence[Method], findings: Findings) -> None:
    """Add the times of the harness and of a group's methods, and the deviations of those that are comparable."""
    harness = harness_method(subject.bench.call, subject.bench.new_timer())
    runs, absent = prepare(subject, group, harness())
    findings.reasons |= absent
    before, began = read_counters(), perf_counter()
    times = interleave({"harness": harness, **runs}, findings.reasons)
    busy = activity(before, read_counters(), perf_counter() - began).contended
    ours = times.pop("harness")
    findings.harness += ours
    for method in group:
        if method.name not in times:
            continue
        findings.others[method.name] = median(times[method.name])
        if busy and method.alone:
            findings.reasons[method.name] = "without what the scheduler gave to others, which was too much to compare"
        elif why := method.incomparable(subject, median(ours), DISAGREE):
            findings.reasons[method.name] = why
        else:
            findings.deviations[method.name] = deviation(ours, times[method.name])


def harness_method(call: Call, timer: Timer) -> Callable[[], float]:
    """Return the harness as a method: its warm-up and its choice of the batch once, its samples at every call."""
    per_call, _ = warm_up(call, timer)
    batch = batch_for(per_call, tick=timer.tick(), overhead=timer.overhead(), limit=timer.batch_limit)
    n = max(3, math.ceil(SECONDS / (per_call * batch)))
    return lambda: statistics.trimmed_mean(timer.samples(call, batch, n))


def prepare(
    subject: Subject, group: Iterable[Method], seconds: float
) -> tuple[dict[str, Callable[[], float]], dict[str, str]]:
    """Return the methods that can time a call of about `seconds`, warmed up by one run, and why the others cannot."""
    runs: dict[str, Callable[[], float]] = {}
    absent: dict[str, str] = {}
    for method in group:
        try:
            run = method.prepare(subject, seconds)
            run()
        except NotImplementedError as error:
            absent[method.name] = str(error)
        except Exception as error:  # noqa: BLE001 - a profiler or a capture may fail in ways of its own: written down
            absent[method.name] = _in_words(error)
        else:
            runs[method.name] = run
    return runs, absent


def interleave(runs: Mapping[str, Callable[[], float]], failed: dict[str, str]) -> dict[str, list[float]]:
    """Return the times of PASSES passes over all runs; one that raises is left out, and `failed` says why."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(PASSES):
        for name in tuple(times):
            try:
                times[name].append(runs[name]())
            except Exception as error:  # as in `prepare`
                if name == "harness":
                    raise
                failed[name] = _in_words(error)
                del times[name]
    return times


def _in_words(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


def document(device: str, findings: Mapping[Series, Findings]) -> dict[str, Any]:
    """Return everything as JSON has it; `missing` are the methods that timed no series, with the first reason."""
    rows = [row(series, found) for series, found in findings.items() if found.harness or found.reasons]
    names = [method.name for group in METHODS[device] for method in group]
    unused = [name for name in names if not any(name in found.others for found in findings.values())]
    missing = {name: next(_reasons(name, findings.values()), "not reached") for name in unused}
    return {"format": FORMAT, "device": device, "rows": [asdict(each) for each in rows], "missing": missing}


def _reasons(name: str, findings: Iterable[Findings]) -> Iterator[str]:
    return (found.reasons[name] for found in findings if name in found.reasons)


def row(series: Series, found: Findings) -> Row:
    """Return the row of a series."""
    worst = max((each.value for each in found.deviations.values()), key=abs, default=None)
    verdicts = {each.agrees for each in found.deviations.values()}
    says = [f"{name} {each.in_words()}" for name, each in found.deviations.items() if not each.agrees]
    methods = [method.name for group in METHODS[series.device] for method in group]
    return Row(
        kernel=series.kernel,
        implementation=series.implementation,
        case=series.case,
        bytes=series.bytes,
        harness=median(found.harness) if found.harness else None,
        others={name: found.others.get(name) for name in methods},
        worst=worst,
        agrees=_all(verdicts),
        why="; ".join([*says, *_grouped(found.reasons)]),
    )


def _all(verdicts: Set[bool | None]) -> bool | None:
    """Return False where one is, else None where one is or there is none, else True."""
    if False in verdicts:
        return False
    return True if verdicts == {True} else None


def _grouped(reasons: Mapping[str, str]) -> Iterator[str]:
    """Yield each reason once, behind the methods that it is given for."""
    for why in dict.fromkeys(reasons.values()):
        yield f"{', '.join(name for name in reasons if reasons[name] == why)}: {why}"
