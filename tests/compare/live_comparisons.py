"""Comparisons made by hand, for what is printed and written of them: fixed samples, every kind of row."""

from __future__ import annotations

import math

from kernel_velocity.compare.result import Accuracy, Compared, LiveComparison, TimedImplementation
from kernel_velocity.roofline.model import Roofline

BEGAN = 1_700_000_000.0  # 2023-11-14 22:13:20 UTC


def roofline(**more):
    fields = {"intensity": 0.25, "ridge": 4.8, "bound": "memory", "attainable": 3.0e9, "achieved": 2.79e9}
    fields |= {"bandwidth": 11.2e9, "of_limit": 0.93, "limit": "DRAM", "cache_benefit": 1.0, "level": "DRAM"}
    return Roofline(**fields | {"impossible": False, "label": "excellent"} | more)


def right(output="out", **details):
    figures = {"max_absolute_error": 3.05e-5, "mean_absolute_error": 1.2e-7, "total_error": 0.12}
    figures |= {"max_relative_error": 1.78e-7, "max_error": 1.78e-7, "max_ulp_error": 1.49, "passes_1e5": True}
    return Accuracy(output=output, right=True, details=figures | details)


def timed(name, seconds, rounds=3, **more):
    """Return a timing whose rounds lie up to 2% around `seconds`, with 40 samples in each round."""
    estimates = tuple(seconds * (1 + 0.01 * (number - (rounds - 1) / 2)) for number in range(rounds))
    samples = tuple((*(estimate * (1 + 0.002 * (k % 7)) for k in range(39)), 1.5 * estimate) for estimate in estimates)
    fields = {"rounds": samples, "estimates": estimates, "stops": ("converged",) * rounds, "accuracy": (right(),)}
    return TimedImplementation(implementation=name, **fields | {"roofline": roofline()} | more)


def case(name, elements, *timings, problem="add_mul_exp", memory="DRAM", flops=3, moved=12, dtype="float32", **more):
    """Return a case of a problem, with `flops` and `moved` bytes per element."""
    fields = {
        "problem": problem,
        "case": name,
        "device": "cpu",
        "dtype": dtype,
        "dims": (elements,),
        "elements": elements,
        "tensor_bytes": 4 * elements,
        "flops": None if flops is None else flops * elements,
        "bytes": None if moved is None else moved * elements,
        "memory": memory,
        "unfused_bytes": None if moved is None else 28 * elements,
        "footprint": None,
        "timed": timings,
    }
    return Compared(**fields | more)


def comparison(*compared, **more):
    environment = {
        "device": "A processor of 2 cores",
        "caches": "L1 32 KiB, L2 1 MiB, L3 32 MiB",
        "clocks": "2.60 GHz",
        "free memory": "7.10 GiB",
        "load": "0.310",
        "cores": "2",
        "threads": "1",
        "python": "3.11.9",
        "torch": "2.13.0",
        "system": "Linux 6.1",
        "allocator": "keeps freed memory",
        "KV_THREADS": "1",
        "OMP_NUM_THREADS": "1",
    }
    settings = {
        "rule": "adaptive",
        "parameters": "eps 0.003, t_max 0.3",
        "rounds": "3",
        "warm-up": "by time, 50 ms or more",
        "sample": "a batch of calls that the clock resolves",
        "tolerance": "the problem's own",
        "threads": "1",
        "reference": "eager",
    }
    fields = {"environment": environment, "settings": settings, "began": BEGAN, "took": 12.3}
    return LiveComparison(**fields | {"compared": compared} | more)


def whole(**more):
    """Return a comparison with rows of every kind: right, n/a, wrong, failed, not verified, doubtful, of one round."""
    in_cache = {"of_limit": 0.97, "limit": "L3", "cache_benefit": 2.4, "level": "L3", "label": "excellent"}
    impossible = {"of_limit": 1.3, "impossible": True, "label": "100%"}
    figures = {"max_absolute_error": math.nan, "max_relative_error": math.inf, "total_error": 2.0, "off_by_one": None}
    wrong = Accuracy(output="out", right=False, details=figures | {"nan": 1, "first_wrong": 17})
    compared = (
        case(
            "float32-1M",
            1_000_000,
            timed("eager", 720e-6, function=720e-6, roofline=roofline(of_limit=0.41, label="room")),
            timed("compile", 364e-6, function=364e-6, roofline=roofline(**in_cache)),
            timed("native", 361.2e-6, function=363.5e-6, roofline=roofline(**in_cache), flags=("contended",)),
            TimedImplementation(implementation="triton", missing="Triton needs a CUDA device"),
            memory="L3",
        ),
        case(
            "float32-50M",
            50_000_000,
            timed("eager", 98.1e-3, function=98.1e-3),
            timed("compile", 61.4e-3, function=61.4e-3, roofline=roofline(**impossible, warnings=("above the roof",))),
            TimedImplementation(
                implementation="native", accuracy=(wrong,), failed="out is wrong: 1 of 50000000 elements wrong"
            ),
            TimedImplementation(implementation="mine", failed="raised ZeroDivisionError: by zero"),
        ),
        case(
            "float32-1M",
            1_000_000,
            timed("eager", 1.9e-3, rounds=1, roofline=None, accuracy=(right(max_relative_error=0.0, max_error=0.0),)),
            timed("native", 171e-6, rounds=1, roofline=None, accuracy=(right(off_by_one=0, max_ulp_error=None),)),
            timed("mine", 170e-6, roofline=None, accuracy=()),
            problem="quantize_int8",
            memory=None,
            flops=None,
            moved=None,
        ),
    )
    return comparison(*compared, **{"warnings": ("rounds share one process",)} | more)
