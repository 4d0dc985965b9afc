"""Generated sessions of identical code: seeded rounds with gauges and blocks, in memory or as files."""

import dataclasses
import gzip
import json
import math
import random

from kernel_velocity.harness import telemetry
from kernel_velocity.harness.telemetry import Round
from kernel_velocity.lab.sessions import Measured

CASE = "float32-256x256x256"
SECONDS = {"native": 1e-3, "eager": 5e-4, "compile": 4e-4}
BLOCKS = 16
GAUGE = 2e-5  # s of the gauge of the core, undisturbed
COPY = 7e-5  # s of the gauge of memory


def series(implementation="native", kernel="matmul", state="hot"):
    """Return the name of a generated series."""
    return f"{kernel}.Cpu.time_{state}", (implementation, CASE)


def rounds(session, factors, rng, *, kernels=("matmul",), implementations=("native",), noise=0.002, gauges=True):
    """Return the rounds of one session, each slowed by its factor, which the gauge of the core shows.

    Args:
        noise: relative standard deviation of a round; a tenth of it is that of the gauge of the core.
        gauges: whether there are any.
    """
    return [
        _round(session, number, series(implementation, kernel), factor, rng, noise=noise, gauges=gauges)
        for number, factor in enumerate(factors)
        for kernel in kernels
        for implementation in implementations
    ]


def _round(session, number, named, factor, rng, *, noise, gauges):
    benchmark, params = named
    estimate = SECONDS[params[0]] * factor * math.exp(rng.gauss(0, noise))
    core, memory = GAUGE * factor * math.exp(rng.gauss(0, noise / 10)), COPY * math.exp(rng.gauss(0, noise))
    return Measured(
        Round(
            benchmark=benchmark,
            params=params,
            time=float(session * 1000 + number),
            estimate=estimate,
            n=99,
            batch=1,
            spent=0.1,
            stop="budget",
            core_gauge=core if gauges else None,
            memory_gauge=memory if gauges else None,
            method="m",
            launch=f"{session}-{9 - number}",  # as little in order as the real ones
        ),
        tuple(estimate * math.exp(rng.gauss(0, noise)) for _ in range(BLOCKS)),
    )


def sessions(number, *, common=0.0, changes=(), seed=0, count=8, **layout):
    """Return so many sessions of `count` rounds by name, each slowed by a factor of its own.

    Args:
        common: relative standard deviation of the factors; of those of a session's rounds about its own it is a third.
        changes: further factors, of the first sessions, that no gauge shows.
        layout: what `rounds` takes.
    """
    rng = random.Random(seed)
    found = {}
    for session in range(number):
        centre = rng.gauss(0, common)
        factors = [math.exp(centre + rng.gauss(0, common / 3)) for _ in range(count)]
        change = changes[session] if session < len(changes) else 1.0
        found[f"{session:02}"] = [slowed(item, change) for item in rounds(session, factors, rng, **layout)]
    return found


def slowed(measured, factor):
    """Return a round that took so many times as long, without a gauge's noticing."""
    means = tuple(value * factor for value in measured.blocks)
    return changed(measured, estimate=measured.round.estimate * factor, blocks=means)


def line(measured):
    """Return a round with its blocks as a line of a session's file."""
    return json.dumps(json.loads(telemetry.encode(measured.round)) | {"blocks": list(measured.blocks)})


def write(found, folder, *, compressed=False):
    """Write sessions as files; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, measured in found.items():
        text = "".join(f"{line(item)}\n" for item in measured)
        if compressed:
            (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        else:
            (folder / f"{name}.jsonl").write_text(text)
    return folder


def changed(measured, **fields):
    """Return a round with other telemetry, or other blocks."""
    means = fields.pop("blocks", measured.blocks)
    return Measured(dataclasses.replace(measured.round, **fields), means)
