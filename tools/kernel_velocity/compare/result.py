"""The result of a comparison: problems x test cases x implementations, timed in interleaved rounds.

Values, and the figures that follow from them. Times in seconds per call, rates in FLOP/s and B/s, unknown is None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from kernel_velocity.roofline.model import Roofline, Roofs
from kernel_velocity.stats import speedup
from kernel_velocity.stats.speedup import SpeedUp, Spread, Timing

RIGHT, WRONG, FAILED, MISSING, UNVERIFIED = "right", "WRONG", "FAILED", "n/a", "not verified"


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """How right one output is. `details` are the figures of harness/accuracy.py."""

    output: str  # name of the output parameter
    right: bool
    details: Mapping[str, object]

    def number(self, *names: str) -> float | None:
        """Return the first of these figures that is a number, None where none is."""
        values = (self.details.get(name) for name in names)
        return next((value for value in values if isinstance(value, int | float) and not isinstance(value, bool)), None)


@dataclass(frozen=True, kw_only=True)
class Timed:
    """One implementation on one test case.

    Attributes:
        rounds: the samples of every round, in the order taken, without warm-up and burn-in.
        estimates: one robust location per round (10%-per-side trimmed mean).
        stops: why the rule stopped, per round.
        flags: of all rounds.
        function: s per call of the whole function, which allocates outputs and checks arguments. None: not measured.
        accuracy: one per output, none where nothing was verified.
        roofline: None where the ceilings or the problem's FLOPs and bytes are unknown.
        missing: the reason why it is n/a. It has no rounds then.
        failed: the reason why it failed. Its rounds do not count then.
        notes: what it changed in the process that all implementations share.
    """

    implementation: str
    rounds: tuple[tuple[float, ...], ...] = ()
    estimates: tuple[float, ...] = ()
    stops: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    function: float | None = None
    accuracy: tuple[Accuracy, ...] = ()
    roofline: Roofline | None = None
    missing: str | None = None
    failed: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """Return RIGHT, WRONG (an output is), FAILED, MISSING or UNVERIFIED."""
        if self.missing is not None:
            return MISSING
        if not all(output.right for output in self.accuracy):
            return WRONG
        if self.failed is not None:
            return FAILED
        return RIGHT if self.accuracy else UNVERIFIED

    @property
    def is_bad(self) -> bool:
        """Return whether it is wrong or failed: the command then ends with status 1."""
        return self.status in (WRONG, FAILED)

    @property
    def reason(self) -> str:
        """Return why no time counts, "" where one does."""
        return self.missing or self.failed or ""

    @property
    def samples(self) -> list[float]:
        """Return the samples of all rounds, or the estimates where there are no samples, in s."""
        return [sample for samples in self.rounds for sample in samples] or list(self.estimates)


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One test case of one problem. FLOPs and bytes are of one call, None where the problem does not say."""

    problem: str
    case: str
    device: str  # "cpu" or "cuda"
    dtype: str
    dims: tuple[int, ...]
    elements: int  # of the largest tensor
    tensor_bytes: int  # of the largest tensor
    flops: int | None
    bytes: int | None  # traffic: each tensor as often as it is read or written
    memory: str | None  # the level that holds the working set ("L1", ..., "DRAM"); None: the caches are unknown
    timed: tuple[Timed, ...]
    footprint: int | None = None  # bytes of memory that a call touches, each once: the working set

    def speed_ups(self, reference: str | None) -> list[SpeedUp]:
        """Return the ratio of times of every pair of right implementations, those over `reference` first."""
        rows = (Row(self, timed) for timed in self.timed if not timed.is_bad)
        times = {row.timed.implementation: row.timing for row in rows if row.timing is not None}
        return list(speedup.pairwise(times, reference))


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A whole comparison.

    Attributes:
        environment: name -> value: device, caches, clocks, load, versions, relevant environment variables.
        settings: rule, parameters, rounds, preset, tolerance, as text.
        began: Unix time, s.
        took: s.
        roofs: the device's ceilings, None where they are unknown or were not asked for.
    """

    compared: tuple[Compared, ...]
    environment: Mapping[str, str]
    settings: Mapping[str, str]
    began: float
    took: float
    warnings: tuple[str, ...] = ()
    roofs: Roofs | None = None

    def rows(self) -> Iterator[Row]:
        """Yield every implementation on every test case."""
        cases = Counter[tuple[str, str]]()
        for compared in self.compared:
            problem = (compared.problem, compared.device)
            cases[problem] += 1
            for timed in compared.timed:
                yield Row(compared, timed, cases[problem])

    def problems(self) -> dict[tuple[str, str], list[Row]]:
        """Return the rows by problem and device, in order of first mention."""
        groups: dict[tuple[str, str], list[Row]] = {}
        for row in self.rows():
            groups.setdefault((row.compared.problem, row.compared.device), []).append(row)
        return groups


@dataclass(frozen=True)
class Row:
    """One implementation on one test case, with figures that are None where no time counts."""

    compared: Compared
    timed: Timed
    number: int = 1  # of the test case within its problem, from 1

    @cached_property
    def timing(self) -> Timing | None:
        """Return the median of the round estimates, its error and 95% interval over rounds."""
        return speedup.timing(self.timed.estimates) if self.timed.estimates and not self.timed.reason else None

    @cached_property
    def spread(self) -> Spread | None:
        """Return mean, standard deviation, extremes and percentiles of all samples."""
        return None if self.timing is None else speedup.spread(self.timed.samples)

    @property
    def rate(self) -> float | None:
        """Return operations per second."""
        return self._per_second(self.compared.flops)

    @property
    def bandwidth(self) -> float | None:
        """Return bytes per second."""
        return self._per_second(self.compared.bytes)

    def _per_second(self, amount: int | None) -> float | None:
        return None if amount is None or self.timing is None else amount / self.timing.seconds

    @property
    def roofline(self) -> Roofline | None:
        """Return the time's place under the roofs."""
        return None if self.timing is None else self.timed.roofline

    @property
    def overhead(self) -> float | None:
        """Return the s per call of the whole function that lie outside the kernel."""
        return None if self.timing is None else speedup.overhead(self.timed.function, self.timing.seconds)
