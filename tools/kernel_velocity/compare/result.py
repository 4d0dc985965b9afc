"""What a live comparison found: problems x test cases x implementations, timed in interleaved rounds. Values only.

`compare/api.py` makes them, `tools/compare_*.py` write them out; nothing here measures, prints or opens a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kernel_velocity.roofline.model import Roofline


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """How right one output is. `details` are the figures of harness/accuracy.py."""

    output: str  # name of the output parameter
    right: bool
    details: Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class Timed:
    """One implementation on one test case. Times in seconds per call.

    Attributes:
        rounds: the samples of every round, in the order taken, warm-up and burn-in left out.
        estimates: one robust location per round (10%-per-side trimmed mean).
        stops: why the rule stopped, per round.
        flags: of all rounds.
        function: s per call of the whole function, outputs allocated and arguments checked; None where not measured.
        accuracy: one per output; empty where nothing was verified.
        roofline: None where the ceilings or the problem's FLOPs and bytes are not known.
        missing: why it is n/a; then there are no rounds.
        failed: what went wrong; then there are none either, or they are of no worth (wrong results).
        notes: what it did to the process that all share, each once.
    """

    implementation: str
    rounds: tuple[tuple[float, ...], ...] = ()
    estimates: tuple[float, ...] = ()
    stops: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    function: float | None = None
    accuracy: tuple[Accuracy, ...] = ()
    roofline: Roofline | None = None
    power: tuple[tuple[float, float], ...] = ()  # (s since the start, W), of a GPU
    missing: str | None = None
    failed: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One test case of one problem. FLOPs and bytes are those of one call; None where the problem does not say."""

    problem: str
    case: str
    device: str  # "cpu" or "cuda"
    dtype: str
    dims: tuple[int, ...]
    elements: int  # of the largest tensor
    tensor_bytes: int  # of the largest tensor
    flops: int | None
    bytes: int | None  # moved, each as often as it is read or written
    memory: str | None  # where the working set lies: "L1", "L2", "L3", "DRAM"; None where the caches are not known
    timed: tuple[Timed, ...]
    footprint: int | None = None  # bytes of memory that a call touches, each once: the working set


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A whole comparison.

    Attributes:
        environment: name -> what it was: device, caches, clocks, load, versions, relevant environment variables.
        settings: rule, parameters, rounds, preset, tolerance, as text.
        began: Unix time, s.
    """

    compared: tuple[Compared, ...]
    environment: Mapping[str, str]
    settings: Mapping[str, str]
    began: float
    took: float  # s
    warnings: tuple[str, ...] = field(default=())
