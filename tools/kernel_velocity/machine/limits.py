"""Refuse a time that is shorter than the machine's ceilings allow: the call was skipped, or has not ended.

A rate is held against the machine's own limits: its arithmetic, its memory, its innermost cache. Each is measured by
torch in a fresh process, which imports nothing of a benchmark, and is kept in a file between rounds. A round below them
costs a comparison of numbers. Before a limit counts against a round it is measured again, and the higher value is kept.

A kernel may compute in a narrower type than its case's (TF32, split products), so floating-point types have one limit:
the fastest of them. int8 has its own. Other types have none, and are only flagged. Bytes of a set that the last cache
cannot hold are held against memory, and all bytes against the innermost cache. Nobody knows well enough which level
between them holds a set, so no level but these refuses a time.

A CPU's limits are those of one thread, times the number of threads: beside other work an operation of two threads
took 36 times as long as of one. So the limit of memory is a weak one where many threads share it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kernel_velocity.engine.quiet import FRESH
from kernel_velocity.engine.reported import cache_size, machine_id, name, read_figure, write_figure
from kernel_velocity.machine.workloads import BEYOND

FLOATS = ("float64", "float32", "tf32", "float16", "bfloat16")
# Times a limit that a rate may reach. Measured 20 times on two cores that ten processes shared, float was 461 to 491
# GFLOPS, int8 930 to 978, memory 50 to 62 GB/s, the cache 220 to 229. The most that anything of ours reached there:
# multiply-adds 275 GFLOPS of float32, of which torch's convolution takes 210 to 249, and streams 63 GB/s. A sum in L1
# reads 55 bytes a cycle, where the core could read 128 and write 64.
MARGINS: Mapping[str, float] = {"float": 1.5, "int8": 1.5, "memory": 1.5, "cache": 4.0}
# Of a cold call, which is only flagged. A tenth of the working set may be left in a cache.
WARM = 1.1
AGAIN = 2  # more measurements of a limit before it counts against a round
ROOT = Path(__file__).parents[2]  # the folder that this package is imported from
TIMEOUT = 60.0  # s of the process that measures: 3 on a quiet CPU, 15 where ten processes shared two cores

_PROGRAM = """
import json, sys
device, names, sys.path[:], times = json.loads(sys.argv[1])
from kernel_velocity.machine.ceilings import limit_of
print(json.dumps({name: max(limit_of(name, device) or 0.0 for _ in range(times)) for name in names}))
"""
_CHECK = "is the work of every call done when it returns, or does"
_WORDS = {
    "float": ("GFLOPS", f"{_CHECK} flops= count more than it computes?"),
    "int8": ("GOPS", f"{_CHECK} flops= count more than it computes?"),
    "memory": ("GB/s of memory", f"{_CHECK} bytes= count more than it moves?"),
    "cache": ("GB/s of the innermost cache", f"{_CHECK} bytes= count more than it moves?"),
}


class ImpossibleError(RuntimeError):
    """A call took less time than the machine needs for its work."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What one call does. None: unknown. `footprint` is the bytes that it touches, each once."""

    flops: int | None
    bytes: int | None
    footprint: int | None
    dtype: str


@dataclass(frozen=True)
class _Claim:
    """A rate that a time claims, FLOP/s or B/s, and how it is compared with a limit."""

    limit: str
    rate: float
    margin: float
    flag: str = ""  # of a rate beyond it, "" where such a rate is refused
    again: int = AGAIN


def check(
    work: Work, seconds: float, device: str, threads: int, folder: Path, *, cold: bool = False
) -> tuple[str, ...]:
    """Refuse the time of a call that is too short for its work.

    Args:
        work: of one call.
        seconds: per call.
        device: "cpu" or "cuda".
        threads: of the CPU, that the call uses.
        folder: where limits are kept.
        cold: whether the call found cold caches.

    Returns: flags. "warm" where a cold call was faster than memory, "unchecked" where a limit is not known.

    Raises:
        ImpossibleError: the rate is above a limit by more than its margin.
    """
    share = threads if device == "cpu" else 1
    claims = list(_claims(work, seconds * share, cache_size(device), cold=cold))
    limits = _Limits(device, folder)
    limits.measure([claim.limit for claim in claims if limits.lookup(claim.limit) is None])
    flags = []
    for claim in claims:
        limit = limits.held_against(claim)
        if not limit:
            flags += [] if claim.flag == "warm" else ["unchecked"]
        elif claim.rate > claim.margin * limit:
            if not claim.flag:
                raise ImpossibleError(_reason(claim, limit, share))
            flags.append(claim.flag)
    return tuple(dict.fromkeys(flags))


def _claims(work: Work, seconds: float, cache: int | None, *, cold: bool) -> Iterator[_Claim]:
    """Yield what a time claims. Of a set beyond the last cache (`cache`, bytes) that may still hold its size."""
    if work.flops:
        family = "float" if work.dtype in FLOATS else "int8" if work.dtype == "int8" else None
        limit = family or "float"
        flag, again = ("", AGAIN) if family else ("unchecked", 0)
        yield _Claim(limit, work.flops / seconds, MARGINS[limit], flag, again)
    if work.bytes:
        yield _Claim("cache", work.bytes / seconds, MARGINS["cache"])
        if cache is not None and work.footprint is not None and work.footprint > BEYOND * cache:
            yield _Claim("memory", work.bytes * (1 - cache / work.footprint) / seconds, MARGINS["memory"])
        if cache is not None and cold:
            yield _Claim("memory", work.bytes / seconds, WARM, "warm", 1)


def _reason(claim: _Claim, limit: float, share: int) -> str:
    """Return why a rate is impossible, in one line. Rate and limit are those of one of `share` threads."""
    ratio, (unit, advice) = claim.rate / limit, _WORDS[claim.limit]
    times = f"{ratio:.1f}" if ratio < 10 else f"{ratio:,.0f}"
    return f"faster than the machine ({times} times the peak of {share * limit / 1e9:,.0f} {unit}); {advice}"


class _Limits:
    """The limits of this machine with this torch: in B/s or FLOP/s, of a CPU's thread. 0 where there is none."""

    def __init__(self, device: str, folder: Path) -> None:
        import torch  # noqa: PLC0415 - discovery must work without torch

        self._device, self._torch, self._folder = device, torch.__version__, folder
        self._measured: dict[str, float] = {}  # by this process

    def lookup(self, limit: str) -> float | None:
        """Return a limit that was measured, None where none was. One that could not be is tried again after a day."""
        value = self._measured.get(limit)
        with suppress(OSError):  # there is no file yet
            rate = read_figure(self._path(limit), "rate")
            is_fresh = time.time() - self._path(limit).stat().st_mtime <= FRESH
            if rate is not None and (rate > 0 or (rate == 0 and is_fresh)):
                value = max(rate, value or 0.0)
        return value

    def held_against(self, claim: _Claim) -> float | None:
        """Return the limit of a claim, measured again if the claim is beyond it. None where that was impossible."""
        limit = self.lookup(claim.limit)
        if claim.again and limit and claim.rate > claim.margin * limit:
            rates = self.measure([claim.limit], claim.again)
            return self.lookup(claim.limit) if rates.get(claim.limit) else None  # a busy machine refuses nobody
        return limit

    def measure(self, names: Iterable[str], times: int = 1) -> Mapping[str, float]:
        """Measure limits in a fresh process, keep the higher of each and what was known. Return what was measured."""
        if not (wanted := list(dict.fromkeys(names))):
            return {}
        rates = _measured_apart(self._device, wanted, times)
        for limit in wanted:
            rate = max(rates.get(limit, 0.0), self.lookup(limit) or 0.0)
            self._measured[limit] = rate
            document = {"device": name(self._device), "limit": limit, "rate": rate}
            with suppress(OSError):  # a clone that cannot be written to: each round measures its own
                write_figure(self._path(limit), document)
        return rates

    def _path(self, limit: str) -> Path:
        return self._folder / f"{machine_id(self._device, self._torch, limit, _PROGRAM)}.json"


def _measured_apart(device: str, names: Sequence[str], times: int) -> Mapping[str, float]:
    """Return limits, each the highest of so many measurements in a fresh process. {} where the process failed."""
    import torch  # noqa: PLC0415 - discovery must work without torch

    # Before a folder of the user's, which may have a torch.py. No file of a site's folder is executed (-I, -S).
    paths = [str(Path(torch.__file__).parents[1]), str(ROOT), *sys.path]
    command = [sys.executable, "-I", "-S", "-c", _PROGRAM, json.dumps([device, names, paths, times])]
    environ = {**os.environ, "KV_THREADS": "1"}
    try:
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, errors="replace", check=True, timeout=TIMEOUT
        )
        rates: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    except (OSError, ValueError, LookupError, subprocess.SubprocessError) as error:  # or it printed no document
        lines = str(getattr(error, "stderr", "") or error).splitlines()
        print(f"kernel-velocity: no limits of {device} could be measured: {lines[-1]}", file=sys.stderr)  # noqa: T201
        return {}
    return rates
