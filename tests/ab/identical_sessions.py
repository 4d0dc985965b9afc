"""Generated sessions of identical code: seeded rounds with gauges, in memory or as files."""

import dataclasses
import gzip
import math
import random

from kernel_velocity.engine import telemetry
from kernel_velocity.engine.telemetry import Round

CASE = "float32-256x256x256"
SECONDS = {"native": 1e-3, "eager": 5e-4, "compile": 4e-4}
GAUGE = 2e-5  # s of the gauge of the core, undisturbed
COPY = 7e-5  # s of the gauge of memory


def series(implementation="native", kernel="matmul"):
    """Return the name of a generated series."""
    return f"{kernel}.Cpu.time_hot", (implementation, CASE)


def _round(session, number, named, factor, rng, *, noise, gauges):
    benchmark, params = named
    estimate = SECONDS[params[0]] * factor * math.exp(rng.gauss(0, noise))
    core, memory = GAUGE * factor * math.exp(rng.gauss(0, noise / 10)), COPY * math.exp(rng.gauss(0, noise))
    return Round(
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
        launch=f"{session}-{9 - number}",  # in as little order as the real ones
    )


def sessions(
    number,
    *,
    common=0.0,
    changes=(),
    seed=0,
    count=8,
    kernels=("matmul",),
    implementations=("native",),
    noise=0.002,
    gauges=True,
):
    """Return sessions by name, each slowed by a factor of its own, which the gauge of the core shows.

    Args:
        number: of sessions.
        common: relative standard deviation of the factors. Within a session it is a third.
        changes: further factors, of the first sessions, that no gauge shows.
        seed: of all.
        count: rounds of a session.
        kernels: whose series there are.
        implementations: of each kernel.
        noise: relative standard deviation of a round. That of the gauge of the core is a tenth.
        gauges: whether there are any.
    """
    rng = random.Random(seed)
    result = {}
    for session in range(number):
        centre = rng.gauss(0, common)
        factors = [math.exp(centre + rng.gauss(0, common / 3)) for _ in range(count)]
        rounds = [
            _round(session, index, series(implementation, kernel), factor, rng, noise=noise, gauges=gauges)
            for index, factor in enumerate(factors)
            for kernel in kernels
            for implementation in implementations
        ]
        change = changes[session] if session < len(changes) else 1.0
        result[f"{session:02}"] = [slowed(round_, change) for round_ in rounds]
    return result


def slowed(measured, factor):
    """Return a round that took so many times as long, which no gauge shows."""
    return dataclasses.replace(measured, estimate=measured.estimate * factor)


def write(by_session, folder, *, compressed=False):
    """Write sessions as files. Return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, measured in by_session.items():
        text = "".join(f"{telemetry.encode(round_)}\n" for round_ in measured).encode()
        path = folder / (f"{name}.jsonl.gz" if compressed else f"{name}.jsonl")
        path.write_bytes(gzip.compress(text, mtime=0) if compressed else text)
    return folder
