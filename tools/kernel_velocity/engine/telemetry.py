"""Telemetry: what one round knew when it stopped, as one JSON line of at most 300 bytes.

The measuring process appends it to the spool (`spool`). Keys are short because there is one line per round, for ever.
The fields of `Round` name them, in the order in which they are written, and may only grow.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

from kernel_velocity.documents import CHECKSUM, ROOM, DamagedError, with_checksum, without_checksum
from kernel_velocity.engine.gpu import GpuActivity

try:
    import orjson
except ImportError:  # a bare node that measures has only what measuring takes
    orjson = None  # type: ignore[assignment]

LINE_LIMIT = 300  # bytes, newline included (contract)

GAUGES = ("core_gauge", "memory_gauge", "control_gauge")  # fields: what fixed work took beside the samples, s

# Flags are stored as letters, "cu". A flagged round is kept and shown as flagged.
FLAGS = {
    "contended": "c",  # preempted, time taken by the hypervisor, a core never quiet, or another process on the GPU
    "faulting": "p",  # page faults while timing: fresh memory was part of what was measured
    "underfed": "u",  # the device overtook the host: launch gaps are in the time
    "quantised": "q",  # one clock tick is more than .5% of a sample
    "short": "s",  # less than 5 times what an empty call takes
    "constant": "n",  # samples all equal: a clock that shows no spread
    "ungraphed": "g",  # no CUDA graph could be captured: launches were timed
    "warm": "w",  # a cold call faster than memory: its caches were not cold
    "crowded": "m",  # it used more threads than it was given
    "known_inputs": "k",  # faster on inputs that it has seen, by no more than a processor may have learned of them
    "same_inputs": "i",  # the inputs cannot be drawn anew: it was checked on those that it was timed on
    # A null answer passes the check, so that "right" is unproven: of which kind (problem/null_answers.py)
    "unproven_zeros": "z",
    "unproven_constant": "v",
    "unproven_untouched": "f",
    "unproven_copy": "x",
    "unproven_part": "h",
    "unproven_stale": "j",
    "unproven_same": "o",
    "unchecked": "l",  # no limit of the machine is known that its rate could be held against
    "clock_drift": "d",  # the GPU's clocks moved by over 1%
    "throttled": "t",  # the driver slowed the GPU down
    "debug_build": "b",  # of another program, which warns that its library is a debug build
    "scaling": "a",  # of another program, which warns that the processor's clock was scaled
}


class TelemetryError(ValueError):
    """A line of JSON of ours that cannot be read, or a round that makes none."""


def _loads(text: str) -> Any:
    """Return the value of a JSON text, as `json.loads`, which takes three times as long, does."""
    if orjson is not None:
        try:
            return orjson.loads(text)
        except ValueError:  # it refuses NaN and half of a surrogate pair, too
            pass
    return json.loads(text)


def parse(text: str) -> dict[str, Any]:
    """Return the object of a JSON text, such as a line. Texts of earlier versions have no checksum.

    Raises:
        TelemetryError: not JSON, not an object, or it changed since it was written.
    """
    try:
        document = _loads(without_checksum(text))  # duplicates are not looked for: there are millions of lines
    except DamagedError as error:
        raise TelemetryError(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise TelemetryError(f"not JSON: {error}") from None
    if not isinstance(document, dict):
        raise TelemetryError(f"an object is wanted, got {type(document).__name__}")
    if CHECKSUM in document:
        raise TelemetryError(f"changed since it was written, by its checksum ({CHECKSUM})")
    return document


def _stored(key: str, digits: int | None = None) -> Mapping[str, Any]:
    """Return the metadata of a field: its key in a line, and the significant digits that are written.

    None writes all digits: estimate and time identify the round, counts are exact. Adjusting needs a tenth of a
    percent of a gauge.
    """
    return {"key": key, "digits": digits}


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round: samples of a fresh process, reduced to one robust estimate. Unknown fields are None.

    What follows from these is not stored: the effective sample size is `effective_n`, the quantisation floor is
    tick / (sqrt(12) batch estimate), the burn-in is part of the method.
    """

    benchmark: str = field(metadata=_stored("b"))  # series name, such as "matmul.Cpu.time_hot"
    params: tuple[str, ...] = field(metadata=_stored("p"))  # implementation, case
    time: float = field(metadata=_stored("t"))  # Unix time at which the round began, s
    estimate: float = field(metadata=_stored("e"))  # seconds per call
    n: int = field(metadata=_stored("n"))  # samples taken
    batch: int = field(metadata=_stored("k"))  # calls per sample
    # s from the start of the set-up to the first warm-up call
    setup: float | None = field(default=None, metadata=_stored("u", digits=2))
    warmup: float | None = field(default=None, metadata=_stored("w", digits=2))  # s
    spent: float = field(metadata=_stored("s", digits=2))  # s of timing
    stop: str = field(metadata=_stored("r"))  # why the rule stopped
    # of the estimate, within this run, relative
    half_width: float | None = field(default=None, metadata=_stored("h", digits=2))
    cv: float | None = field(default=None, metadata=_stored("c", digits=2))  # coefficient of variation of the samples
    autocorrelation: float | None = field(default=None, metadata=_stored("a", digits=2))  # lag 1
    # of the last third of the samples against the first, relative
    drift: float | None = field(default=None, metadata=_stored("g", digits=2))
    tick: float | None = field(default=None, metadata=_stored("i", digits=2))  # timer resolution, s
    overhead: float | None = field(default=None, metadata=_stored("o", digits=2))  # of an empty call, s
    # s that a caller waits for a call beyond the device's own time: host minus device
    waiting: float | None = field(default=None, metadata=_stored("y", digits=2))
    # s that fixed work in the first-level cache took beside the samples (quiet.py)
    core_gauge: float | None = field(default=None, metadata=_stored("j", digits=4))
    # s that a fixed copy in memory took beside them
    memory_gauge: float | None = field(default=None, metadata=_stored("J", digits=4))
    # s that a call of a control implementation took in between
    control_gauge: float | None = field(default=None, metadata=_stored("K", digits=4))
    lost: float | None = field(default=None, metadata=_stored("q", digits=2))  # s of waiting for a quiet core
    gpu: GpuActivity | None = field(default=None, metadata=_stored("v"))
    # J that the GPU used from the warm-up's end to the last sample, spins and all
    energy: float | None = field(default=None, metadata=_stored("E", digits=4))
    # 1-minute load average when the round ended
    load: float | None = field(default=None, metadata=_stored("d", digits=2))
    switches: int | None = field(default=None, metadata=_stored("x"))  # involuntary context switches while timing
    # s of CPU time taken by the hypervisor while timing, all CPUs
    steal: float | None = field(default=None, metadata=_stored("z", digits=2))
    method: str = field(metadata=_stored("m"))  # hash of harness version, rule and its parameters
    # identity of the launch that forked this round: rounds with equal launches are not independent
    launch: str = field(metadata=_stored("l"))
    flags: tuple[str, ...] = field(default=(), metadata=_stored("f"))

    def __hash__(self) -> int:
        """Return a hash of what tells rounds apart. That of all fields takes longer than reading the line."""
        return hash((self.time, self.estimate))

    @property
    def effective_n(self) -> float | None:
        """Return the effective sample size, n (1 - r) / (1 + r) for a lag-1 autocorrelation r (AR(1)), at most n."""
        if self.autocorrelation is None:
            return None
        r = min(max(self.autocorrelation, 0.0), 0.999)
        return self.n * (1 - r) / (1 + r)


KEYS = {field.name: field.metadata["key"] for field in dataclasses.fields(Round)}
_NAMES = {key: name for name, key in KEYS.items()}
_DIGITS = {field.name: field.metadata["digits"] for field in dataclasses.fields(Round)}
_LEAST_MISSED = (
    "load",
    "tick",
    "steal",
    "overhead",
    "drift",
    "autocorrelation",
    "switches",
    "lost",
    "energy",
    "waiting",
    "gpu",
)
_MHZ = 1e6  # of a GPU's clocks: whole MHz show a drift of 1%
# A GPU's activity is a list of whole numbers: field -> its unit there.
_GPU = {
    **dict.fromkeys(("sm_before", "sm_after", "memory_before", "memory_after"), _MHZ),
    **dict.fromkeys(("power", "temperature", "reasons"), 1),
}


def _short(name: str, value: object) -> object:
    if isinstance(value, float) and (digits := _DIGITS[name]) is not None:
        rounded = float(f"{value:.{digits}g}")
        return int(rounded) if digits == 2 and rounded.is_integer() else rounded
    if name == "time" and isinstance(value, float):
        return round(value, 2)
    if name == "flags" and isinstance(value, tuple):
        return "".join(FLAGS[flag] for flag in value)
    if isinstance(value, GpuActivity):
        numbers = {field: getattr(value, field) for field in _GPU}
        return [None if numbers[field] is None else round(numbers[field] / unit) for field, unit in _GPU.items()]
    return list(value) if isinstance(value, tuple) else value


def encode(record: Round, limit: int = LINE_LIMIT) -> str:
    """Return the line of a round, without newline. Where it would be too long, what is least missed is left out.

    A checksum is left out last, of a series with a name of that length.

    Args:
        limit: of its length, bytes, newline included.

    Raises:
        TelemetryError: the line is longer all the same, or the estimate is no positive finite number.
    """
    if not (math.isfinite(record.estimate) and record.estimate > 0):
        raise TelemetryError(f"{record.benchmark}: estimate {record.estimate!r} is not a positive time")
    line = {
        key: _short(name, value)
        for name, key in KEYS.items()
        if (value := getattr(record, name)) is not None and value != ()
    }
    whole, most = dict(line), limit - ROOM
    for name in _LEAST_MISSED:
        if _size(line) >= most:
            line.pop(KEYS[name], None)
    if _size(line) >= most:
        most = limit
    if _size(line) >= most:
        raise TelemetryError(f"{record.benchmark}: telemetry line of {_size(line) + 1} bytes, at most {limit} allowed")
    for name in reversed(_LEAST_MISSED):  # more may have gone than was needed
        fuller = {key: value for key, value in whole.items() if key in line or key == KEYS[name]}
        if _size(fuller) < most:
            line = fuller
    return _text(line) if most == limit else with_checksum(_text(line))


def _text(line: Mapping[str, object]) -> str:
    return json.dumps(line, separators=(",", ":"), ensure_ascii=False)


def _size(line: Mapping[str, object]) -> int:
    return len(_text(line).encode())


def decode(line: str) -> Round:
    """Return the round of a line. Keys that this version does not know are ignored.

    Raises:
        TelemetryError: as `parse`, or a required field is absent or of the wrong type.
    """
    raw = parse(line)
    shape = (*raw, *map(type, raw.values()))
    lines = _alike.get(shape)
    fields: dict[Any, Any] = dict(
        zip(map(_NAMES.get, raw) if lines is None else lines.names, raw.values(), strict=True)
    )
    fields.pop(None, None)
    for name, convert in _CONVERTED:
        if name in fields:
            fields[name] = convert(fields[name])
    if lines is None:
        _check_types(fields)
        numbers = [key for key, value in raw.items() if type(value) in _NUMBER and key in _NAMES]
        lines = _alike[shape] = _Alike(tuple(map(_NAMES.get, raw)), itemgetter(*numbers))
    if not _are_small(lines.numbers(raw)):  # of most lines all are
        _check_sizes(fields)
    record = object.__new__(Round)
    # Round(**fields) sets frozen fields one by one: 3 of 8 us a line. The class has the defaults of the others.
    object.__setattr__(record, "__dict__", fields)
    return record


class _Alike(NamedTuple):
    """Sound lines of the same keys and types of values, as nearly all lines of a file are."""

    names: tuple[str | None, ...]  # of the fields; None: a key that this version does not know
    numbers: Callable[[Mapping[str, Any]], Sequence[float]]  # returns the numbers of such a line


def _params(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not set(map(type, value)) <= {str}:
        raise TelemetryError(f"params ({KEYS['params']}): a list of strings is wanted, got {value!r}")
    return tuple(value)


def _flags(value: object) -> tuple[str, ...]:
    """Return the flags of a string of letters. A letter that this version does not know stays as it is."""
    if not isinstance(value, str):
        raise TelemetryError(f"flags ({KEYS['flags']}): a string of letters is wanted, got {value!r}")
    names = {letter: flag for flag, letter in FLAGS.items()}
    return tuple(names.get(letter, letter) for letter in value)


def _gpu(value: object) -> GpuActivity:
    numbers = value if isinstance(value, list) else ()
    good = [
        number is None or (isinstance(number, int) and not isinstance(number, bool) and abs(number) < _MOST)
        for number in numbers
    ]
    if len(good) != len(_GPU) or not all(good):
        raise TelemetryError(f"gpu ({KEYS['gpu']}): {len(_GPU)} whole numbers or nulls are wanted, got {value!r}")
    units = zip(_GPU.items(), numbers, strict=True)
    return GpuActivity(**{field: None if n is None else n if unit == 1 else n * unit for (field, unit), n in units})


_CONVERTED = (("params", _params), ("flags", _flags), ("gpu", _gpu))
_MOST = 2.0**63  # of any number: more than that no whole number of JSON's other readers holds
_NUMBER, _COUNT, _REST = (int, float), (int,), (tuple, GpuActivity)
_TYPES = {"str": (str,), "int": _COUNT, "float": _NUMBER}
# Name, types and whether it must be there, of each field: made once, because a site reads millions of lines.
_FIELDS = tuple(
    (field.name, _TYPES.get(str(field.type).partition(" ")[0], _REST), field.default is dataclasses.MISSING)
    for field in dataclasses.fields(Round)
)


_alike: dict[tuple[object, ...], _Alike] = {}  # by keys and types


def _check_types(fields: Mapping[str, Any]) -> None:
    for name, types, required in _FIELDS:
        if name not in fields:
            if required:
                raise TelemetryError(f"{name} ({KEYS[name]}) is missing")
        elif not isinstance(fields[name], types) or isinstance(fields[name], bool):
            raise _wrong(name, fields[name])


def _check_sizes(fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        if type(value) in _NUMBER and not -_MOST <= value <= _MOST:
            raise _wrong(name, value)


def _are_small(numbers: Sequence[float]) -> bool:
    """Return whether no number is beyond _MOST: surely, if True. NaN gives False."""
    try:
        return math.hypot(*numbers) <= _MOST
    except OverflowError:  # a whole number that no float holds
        return False


def _wrong(name: str, value: object) -> TelemetryError:
    return TelemetryError(f"{name} ({KEYS[name]}): {Round.__annotations__[name]} is wanted, got {value!r}")
