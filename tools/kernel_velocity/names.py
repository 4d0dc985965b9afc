"""Names: test cases (`float32-5M`, `float32-1024x1024x1024`), implementations, devices, figures of compiled code.

Nothing here imports torch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

ON_CUDA_ALONE = ("triton",)  # implementations that exist on no other device: n/a there, on every machine
NATIVE = "native"  # what a build compiles
COMPILED = "compile"  # what PyTorch compiles of the reference
CONTROLS = ("eager", COMPILED)  # implementations that a commit of ours cannot change
DEVICES = {"cpu": "Cpu", "cuda": "Cuda"}  # device -> the class's name in a series
INTEGERS = ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "int64")  # dtypes
ITEM_BYTES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "int8": 1, "float8_e4m3fn": 1}
# Targets of compiled code, by device; "baseline": where the library does not choose among instruction sets as it runs.
# Fixed, as all test cases are: a target that a build lacks is n/a.
TARGETS: Mapping[str, tuple[str, ...]] = {"cpu": ("sse2", "avx2", "avx512", "baseline"), "cuda": ("sm_80", "sm_90")}
OCCUPANCY = "occupancy"  # of figures the only one of which fewer are worse
# Figures of compiled code, with units. Of several functions of a kernel: the largest of registers, shared memory, stack
# and barriers, the fewest warps, sums of the rest. What classes of instructions there are: counts/machine_code.py.
FIGURES: Mapping[str, Mapping[str, str]] = {
    "cpu": {"code_bytes": "bytes"},
    "cuda": {
        "registers": "registers of a thread",
        "scalar_registers": "scalar registers of a wave",
        "shared_bytes": "bytes of a block",
        "spill_bytes": "bytes",
        "stack_bytes": "bytes of a thread",
        "barriers": "barriers of a block",
        "code_bytes": "bytes",
        OCCUPANCY: "warps of a multiprocessor",
        **{
            f"{kind}_instructions": f"{kind} instructions in the code"
            for kind in (
                *("tensor", "float64", "float32", "float16", "integer", "conversion", "special", "local", "shared"),
                *("async", "global", "barrier", "branch", "other"),
            )
        },
        "loop_instructions": "instructions in innermost loops",
    },
}
BY_COMPILER = (
    "registers",
    "shared_bytes",
    "spill_bytes",
)  # which ptxas prints, and build-info.json of a build may have
MIX = tuple(name for name in FIGURES["cuda"] if name.endswith("_instructions"))
# Counts of one call of C code, with units: what callgrind executes (counts/callgrind.py). The instruction set of the
# CPU that it shows is part of the case: `float32-4k-avx2`.
COUNTS: Mapping[str, str] = {
    "instructions": "instructions of a call",
    "reads": "reads of a call",
    "writes": "writes of a call",
    "l1_misses": "misses of a call",
    "ll_misses": "misses of a call",
}
COUNTED_ON = "avx2"
UNITS_OF_FIGURES = {name: unit for units in (*FIGURES.values(), COUNTS) for name, unit in units.items()}
_FACTORS = {"": 1, "k": 1_000, "M": 1_000_000}


def dims_of(case: str) -> tuple[int, ...]:
    """Return the sizes in a case's name.

    Raises:
        ValueError: the name is not of the form dtype-size or dtype-AxBxC.
    """
    match = re.fullmatch(r"[a-z0-9_]+-(?:(\d+)([kM]?)|(\d+(?:x\d+)+))", case)
    if match is None:
        raise ValueError(f"case {case!r}: wanted dtype-size, such as float32-5M or float32-64x64x64")
    count, factor, extents = match.groups()
    if extents is not None:
        return tuple(int(extent) for extent in extents.split("x"))
    return (int(count) * _FACTORS[factor],)


def is_gpu(target: str) -> bool:
    """Return whether a target of compiled code is a GPU's architecture, such as "sm_90a" or "gfx942"."""
    return target.startswith(("sm_", "gfx"))


def counted_case(case: str) -> str:
    """Return the test case of a count of a case: "float32-4k-avx2" of "float32-4k"."""
    return f"{case}-{COUNTED_ON}"


def dtype_of(case: str) -> str:
    """Return the dtype in a case's name: "float32" of "float32-5M"."""
    return case.partition("-")[0]


def operation(dtype: str) -> str:
    """Return what is counted of a test case that computes in a dtype: "FLOP", or "OP" for integer operations.

    A test case computes in the dtype of its name, whatever it writes: `quantize_int8` does in float32. Names of rates,
    GFLOPS or GOPS, are made of this word alone.
    """
    return "OP" if dtype in INTEGERS else "FLOP"
