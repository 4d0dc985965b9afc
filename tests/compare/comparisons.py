"""Comparisons made by hand, for what is written of them: seeded samples, every kind of row."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np

from kernel_velocity.compare.result import Accuracy, Compared, Comparison, Timed
from kernel_velocity.harness.statistics import trimmed_mean
from kernel_velocity.roofline.model import Level, Roofline, Roofs

HOSTILE = "<script>window.pwned=1</script>|`a`\\|@everyone\n[x](javascript:1) $$x$$ {{7*7}}"
BEGAN = 1_700_000_000.0  # 2023-11-14 22:13:20 UTC
DRAM, L2, PEAK = 10e9, 40e9, 100e9  # B/s, B/s, FLOP/s
ROOFS = Roofs(
    levels=(
        Level(name="L1", size=32 * 1024, bandwidth=None),
        Level(name="L2", size=1 << 20, bandwidth=L2),
        Level(name="DRAM", size=None, bandwidth=DRAM),
    ),
    peaks={"float32": PEAK, "int8": None},
    warnings=("copies up to 65536 bytes: over 5% of the time is the call; memory can more",),
)
FIGURES = {"wrong": 0, "max_absolute_error": 1.2e-7, "mean_absolute_error": 3e-9, "total_error": 0.015}
RIGHT = Accuracy(output="y", right=True, details=FIGURES)
NAN = Accuracy(
    output="y",
    right=False,
    details={"wrong": 1, "first_wrong": 17, "max_absolute_error": math.nan, "max_relative_error": math.inf, "nan": 1},
)


def samples(seconds: float, *, rounds: int = 8, n: int = 200, seed: int = 1) -> tuple[tuple[float, ...], ...]:
    """Return rounds of log-normal samples around `seconds`, with a slow tail, 1% between rounds."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(rounds):
        level = seconds * np.exp(rng.normal(0, 0.01))
        values = level * np.exp(rng.normal(0, 0.02, n)) * np.where(rng.random(n) < 0.02, 1.5, 1.0)
        found.append(tuple(float(f"{value:.6g}") for value in values))
    return tuple(found)


def timed(implementation: str, seconds: float, compared: Compared | None = None, **more: object) -> Timed:
    """Return a timed implementation; with `compared`, placed under the roofs."""
    rounds = more.pop("rounds", None) or samples(seconds, seed=len(implementation) + int(seconds * 1e9) % 1000)
    estimates = tuple(float(f"{trimmed_mean(one):.6g}") for one in rounds)
    fields: dict[str, object] = {
        "implementation": implementation,
        "rounds": rounds,
        "estimates": estimates,
        "stops": ("converged",) * (len(rounds) - 1) + ("budget",),
        "function": seconds * 1.1,
        "accuracy": (RIGHT,),
        "roofline": None if compared is None else under_the_roofs(compared, float(np.median(estimates))),
    }
    return Timed(**fields | more)


def under_the_roofs(compared: Compared, seconds: float) -> Roofline | None:
    """Return the roofline of a timing by the roofs above, worked out as the definition says."""
    if compared.flops is None or compared.bytes is None:
        return None
    intensity = compared.flops / compared.bytes
    attainable = min(PEAK, intensity * DRAM)
    achieved = compared.flops / seconds
    ratio = achieved / attainable
    return Roofline(
        intensity=intensity,
        ridge=PEAK / DRAM,
        bound="memory" if intensity < PEAK / DRAM else "compute",
        attainable=attainable,
        achieved=achieved,
        bandwidth=compared.bytes / seconds,
        efficiency=min(1.0, ratio),
        roof_ratio=ratio,
        cache_benefit=max(1.0, ratio),
        level=compared.memory,
        level_ratio=None,
        impossible=False,
        label="100%" if ratio >= 1 else "excellent" if ratio >= 0.9 else "room",
    )


def case(problem: str = "add_mul_exp", elements: int = 5_000_000, **more: object) -> Compared:
    """Return a test case of float32 elements: 3 FLOP and 12 bytes each, without implementations."""
    fields: dict[str, object] = {
        "problem": problem,
        "case": f"float32-{elements // 1_000_000}M" if elements >= 1_000_000 else f"float32-{elements // 1000}k",
        "device": "cpu",
        "dtype": "float32",
        "dims": (elements,),
        "elements": elements,
        "tensor_bytes": 4 * elements,
        "flops": 3 * elements,
        "bytes": 12 * elements,
        "memory": "L2" if elements < 100_000 else "DRAM",
        "timed": (),
    }
    return Compared(**fields | more)


def with_rows(compared: Compared, *rows: Timed) -> Compared:
    return dataclasses.replace(compared, timed=rows)


def comparison(*compared: Compared, **more: object) -> Comparison:
    """Return a comparison of these test cases, or of every kind of row."""
    fields: dict[str, object] = {
        "compared": compared or every_kind(),
        "environment": {
            "device": "Test CPU, 2 cores",
            "caches": "L1 32 KiB, L2 1 MiB, L3 32 MiB",
            "load": "0.35 over 1 min",
            "torch": "2.13.0",
            "OMP_NUM_THREADS": "1",
        },
        "settings": {"rule": "adaptive.round eps=0.01", "rounds": "8", "tolerance": "1e-5 (float32)"},
        "began": BEGAN,
        "took": 12.5,
        "warnings": ("load 1.2 on 2 cores: timings may be disturbed",),
    }
    return Comparison(**fields | more)


def every_kind() -> tuple[Compared, ...]:
    """Return memory- and compute-bound cases; rows that are right, n/a, wrong with a time, failed, and of one round."""
    large, small = case(elements=5_000_000), case(elements=20_000)
    square = 512
    product = case(
        "matmul",
        elements=square**2,
        case="float32-512x512x512",
        dims=(square,) * 3,
        flops=2 * square**3,
        bytes=12 * square**2,
        memory="L3",
    )
    power = tuple(zip(itertools.count(0.0, 0.5), (20.0, 41.5, 44.0, 43.0), strict=False))
    return (
        with_rows(
            large,
            timed("eager", 14e-3, large),
            timed("native", 6.4e-3, large, flags=("contended",), power=power),
            Timed(implementation="triton", missing="no CUDA device"),
        ),
        with_rows(small, timed("eager", 13e-6, small), timed("native", 8e-6, small)),
        with_rows(
            product,
            timed("eager", 3.2e-3, product),
            timed("native", 5.5e-3, product, accuracy=(NAN,)),
            Timed(implementation="compile", failed="RuntimeError: no compiler", accuracy=()),
            timed("once", 4e-3, product, rounds=((4e-3, 4.1e-3, 3.9e-3),), function=None, accuracy=()),
        ),
    )


def hostile() -> Comparison:
    """Return a comparison whose every name wants to be code, markup or a formula."""
    compared = case(HOSTILE, case=f"=1+1 {HOSTILE}", memory=None, device="cpu")
    accuracy = Accuracy(output=HOSTILE, right=False, details={HOSTILE: HOSTILE})
    rows = (
        timed(HOSTILE, 1e-3, compared, accuracy=(accuracy,), flags=(HOSTILE,)),
        Timed(implementation=f"other {HOSTILE}", missing=HOSTILE),
    )
    facts = {HOSTILE: HOSTILE}
    return comparison(with_rows(compared, *rows), environment=facts, settings=facts, warnings=(HOSTILE,))
