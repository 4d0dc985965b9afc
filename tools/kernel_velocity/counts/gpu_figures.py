"""Figures of GPU kernels for an architecture, read of NVIDIA's machine code without a GPU.

Registers, shared memory, stack and barriers stand in a cubin itself. nvdisasm tells instructions and spills
(machine_code.py). PTX is assembled first, if there is a ptxas. Occupancy follows from the limits of an architecture.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from kernel_velocity.counts import machine_code
from kernel_velocity.counts.c_call import NotCountedError
from kernel_velocity.counts.gpu_code import Cubin
from kernel_velocity.names import MIX, OCCUPANCY

INSTALL_PTXAS = "no ptxas: `pip install nvidia-cuda-nvcc`, or a CUDA toolkit on PATH"
_LARGEST = ("registers", "scalar_registers", "shared_bytes", "stack_bytes", "barriers")  # of several kernels


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """What a compiler made of kernels for an architecture."""

    figures: Mapping[str, int]  # of FIGURES["cuda"]
    missing: Mapping[str, str] = field(default_factory=dict)  # why figures are not there
    details: Mapping[str, int] = field(default_factory=dict)  # instructions by opcode
    occupancies: Mapping[str, str] = field(default_factory=dict)  # by kernel, in words
    code: str = ""  # as listing.py writes it. Empty where no program here reads it

    def figure(self, name: str) -> int:
        """Return a figure.

        Raises:
            NotCountedError: it is missing.
        """
        if name in self.figures:
            return self.figures[name]
        raise NotCountedError(self.missing.get(name, f"this code has no {name}"))


def combined(parts: Sequence[Compiled]) -> Compiled:
    """Return the figures of several kernels: the largest of what each takes, the fewest warps, sums of the rest."""
    missing = {name: why for part in parts for name, why in part.missing.items()}
    values: dict[str, list[int]] = {}
    for part in parts:
        for name, value in part.figures.items():
            values.setdefault(name, []).append(value)
    rules = dict.fromkeys(_LARGEST, max) | {OCCUPANCY: min}
    return Compiled(
        figures={name: rules.get(name, sum)(of) for name, of in values.items() if name not in missing},
        missing=missing,
        details=machine_code.total(part.details for part in parts),
        occupancies={name: text for part in parts for name, text in part.occupancies.items()},
        code="" if not all(part.code for part in parts) else "".join(part.code for part in parts),
    )


# Kernels --------------------------------------------------------------------------------------------------------------


def of_cubin(cubin: Cubin, kernel: str, cache: Path, threads: int | None = None, shared: int = 0) -> Compiled:
    """Return the figures of a kernel.

    Args:
        cubin: has it. kernel: its name there.
        cache: a folder for results.
        threads: of a block. None: as its launch bounds say.
        shared: bytes of dynamic shared memory of a block.

    Raises:
        NotCountedError: the cubin does not say what the kernel takes.
    """
    try:
        has = cubin.resources(kernel)
    except LookupError:
        raise NotCountedError(
            f"the machine code of {readable(kernel)} does not say how many registers it has"
        ) from None
    figures = {name: getattr(has, name) for name in (*_LARGEST, "code_bytes") if hasattr(has, name)}
    figures["shared_bytes"] += shared
    held, missing = occupied(
        cubin.architecture, kernel, has.registers, threads or has.threads, has.shared_bytes + shared
    )
    words = {} if held is None else {kernel: str(held)}
    figures |= {} if held is None else {OCCUPANCY: held.warps}
    try:
        mixes = machine_code.of_cubin(cubin.content, cache)
        parts = [mixes[name] for name in cubin.reached(kernel)]
    except NotCountedError as error:
        missing |= dict.fromkeys((*MIX, "spill_bytes"), str(error))
        return Compiled(figures=figures, missing=missing, occupancies=words)
    except LookupError as error:
        why = f"nvdisasm shows no code of {error}"
        missing |= dict.fromkeys((*MIX, "spill_bytes"), why)
        return Compiled(figures=figures, missing=missing, occupancies=words)
    classes = machine_code.total(part.classes for part in parts)
    figures |= {f"{name}_instructions": classes.get(name, 0) for name in machine_code.CLASSES}
    figures["loop_instructions"] = sum(sum(part.loops.values()) for part in parts)
    figures |= _spilled(cubin, kernel, mixes, missing)
    return Compiled(
        figures=figures,
        missing=missing,
        details=machine_code.total(part.details for part in parts),
        occupancies=words,
        code="".join(part.code for part in parts),
    )


def occupied(
    architecture: str, kernel: str, registers: int, threads: int | None, shared: int
) -> tuple[Occupancy | None, dict[str, str]]:
    """Return the occupancy of a kernel, or None and why there is none."""
    held = occupancy(architecture, registers, threads or 1, shared)
    if held is None:
        architectures = ", ".join(LIMITS)
        return None, {OCCUPANCY: f"the limits of {architecture} are not in this version, but of {architectures}"}
    if threads is None:
        return None, {OCCUPANCY: f"{readable(kernel)} has no launch bounds: give threads=, those of a block"}
    return held, {}


def _spilled(
    cubin: Cubin, kernel: str, mixes: Mapping[str, machine_code.Mix], missing: dict[str, str]
) -> dict[str, int]:
    """Return the bytes of spill stores and loads, {} where ptxas does not tell them from other local memory."""
    result = 0
    for name in cubin.reached(kernel):
        local, spills = mixes[name].local_bytes, cubin.spills(name)
        if spills is None and local:
            missing["spill_bytes"] = "this ptxas does not note which accesses of local memory are spills: from 12.6 on"
            return {}
        result += sum(local.get(offset, 0) for offset in spills or ())
    return {"spill_bytes": result}


def assembled(ptx: str, architecture: str) -> Cubin:
    """Return the machine code that ptxas makes of PTX.

    Raises:
        NotCountedError: there is no ptxas, or it refuses the text: n/a.
    """
    programs, why = machine_code.tools("ptxas"), ""
    if not programs:
        raise NotCountedError(f"there is only PTX for {architecture}, and {INSTALL_PTXAS}")
    with tempfile.TemporaryDirectory(prefix="kv-ptxas-") as folder:
        text, out = Path(folder, "code.ptx"), Path(folder, "code.cubin")
        text.write_text(ptx, encoding="utf-8")
        for program in programs:  # a language's package may write PTX that is newer than the toolkit on PATH
            command = [program, f"--gpu-name={architecture}", "-o", str(out), str(text)]
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
            if not done.returncode:
                return Cubin(out.read_bytes(), 0)
            why = why or " ".join((done.stderr.strip().splitlines() or ["no reason given"])[0].split())
    raise NotCountedError(f"ptxas refuses the PTX for {architecture}: {why.replace(str(text), 'it')}")


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a kernel is one of some names: as the compiler writes it, or without types."""
    return any(fnmatchcase(name, pattern) or fnmatchcase(readable(name), pattern) for pattern in patterns)


def readable(name: str) -> str:
    """Return a mangled name (Itanium's) without types, "space::scale" of "_ZN5space5scaleEPfi", else the name."""
    if not name.startswith("_Z"):
        return name
    parts, at = list[str](), 3 if name.startswith("_ZN") else 2
    while match := re.compile(r"L?(\d+)").match(name, at):
        at = match.end() + int(match[1])
        parts.append(name[match.end() : at])
        if not name.startswith("_ZN"):
            break
    parts = [part for part in parts if not part.startswith("_GLOBAL__N_")]
    return "::".join(parts) or name


# Occupancy ------------------------------------------------------------------------------------------------------------

# How many warps a multiprocessor holds at once. NVIDIA: the limits of each compute capability are those of the CUDA
# programming guide ("Technical Specifications per Compute Capability"), and registers are allocated as
# `cuda_occupancy.h` of the toolkit does. AMD: limits and granules are those of the AMDGPU target of LLVM. There a
# multiprocessor is a compute unit of CDNA, and a work-group processor of RDNA, and its warps are waves.


KIB = 1024
REGISTERS, SHARED, THREADS, BLOCKS = "registers", "shared memory", "threads", "blocks"  # what can limit warps
RESERVED = 1 * KIB  # bytes of shared memory that CUDA takes of each block, from compute capability 8.0 on


class Limits(NamedTuple):
    """What a multiprocessor has."""

    warps: int
    blocks: int  # of NVIDIA of any size, of AMD those of several warps, as each needs a barrier
    shared: int  # bytes, of all blocks
    shared_of_block: int  # bytes, the most that one may have
    registers: int = 512  # that a lane of one of its parts has, for all of its warps
    parts: int = 4  # schedulers of NVIDIA, SIMDs of AMD, which share warps among them
    granule: int = 8  # registers of a lane, in which they are allocated
    most: int = 255  # registers of a thread
    warp_size: int = 32


def _nvidia(threads: int, blocks: int, shared: int) -> Limits:
    return Limits(threads // 32, blocks, shared * KIB, (shared - 1) * KIB)


LIMITS: Mapping[str, Limits] = {
    "sm_80": _nvidia(2048, 32, 164),
    "sm_86": _nvidia(1536, 16, 100),
    "sm_87": _nvidia(1536, 16, 164),
    "sm_89": _nvidia(1536, 24, 100),
    "sm_90": _nvidia(2048, 32, 228),
    "sm_100": _nvidia(2048, 32, 228),
    "sm_103": _nvidia(2048, 32, 228),
    "sm_110": _nvidia(1536, 24, 228),
    "sm_120": _nvidia(1536, 24, 100),
    "sm_121": _nvidia(1536, 24, 100),
    "gfx90a": Limits(32, 16, 64 * KIB, 64 * KIB, most=512, warp_size=64),  # CDNA2
    "gfx942": Limits(32, 16, 64 * KIB, 64 * KIB, most=512, warp_size=64),  # CDNA3
    "gfx950": Limits(32, 16, 160 * KIB, 160 * KIB, most=512, warp_size=64),  # CDNA4
    "gfx1100": Limits(64, 32, 128 * KIB, 64 * KIB, 1536, granule=24, most=256),  # RDNA3
    "gfx1200": Limits(64, 32, 128 * KIB, 64 * KIB, 1536, granule=24, most=256),  # RDNA4
    "gfx1201": Limits(64, 32, 128 * KIB, 64 * KIB, 1536, granule=24, most=256),
}
_SHARED_GRANULE = {"sm": 128, "gfx": 512}  # bytes


class Occupancy(NamedTuple):
    """How many warps a multiprocessor holds, of how many, and what limits them."""

    warps: int
    most: int
    limits: tuple[str, ...]  # all that do: relieving one of two gains nothing

    def __str__(self) -> str:
        """Return it in words: "48 of 64 warps, limited by registers"."""
        by = f", limited by {' and '.join(self.limits)}" if self.warps < self.most else ""
        return f"{self.warps} of {self.most} warps{by}"


def limits_of(architecture: str) -> Limits | None:
    """Return the limits of an architecture such as "sm_90a" or "gfx942". None: they are not known here."""
    return LIMITS.get(architecture.rstrip("af") if architecture.startswith("sm_") else architecture)


def occupancy(architecture: str, registers: int, threads: int, shared: int) -> Occupancy | None:
    """Return the occupancy of a kernel. None where the limits of the architecture are not known here.

    Args:
        architecture: such as "sm_90a".
        registers: of a thread. Of AMD the vector registers, with the accumulators.
        threads: of a block.
        shared: bytes of a block, static and dynamic.
    """
    limits = limits_of(architecture)
    if limits is None:
        return None
    is_nvidia = architecture.startswith("sm_")
    warps = -(-threads // limits.warp_size)
    used = -(-max(registers, 1) // limits.granule) * limits.granule
    of_a_part = limits.registers // used if registers <= limits.most else 0
    of_all = of_a_part * limits.parts
    by_registers = (of_all if is_nvidia else min(of_all, limits.warps)) // warps
    if is_nvidia and used * (-(-warps // limits.parts) * limits.parts) > limits.registers * limits.parts:
        by_registers = 0  # the launch check of cuda_occupancy.h, which fills all parts alike
    granule = _SHARED_GRANULE["sm" if is_nvidia else "gfx"]
    allocated = -(-(shared + RESERVED * is_nvidia) // granule) * granule
    by_shared = limits.shared // allocated if allocated else limits.warps
    if shared > limits.shared_of_block:
        by_shared = 0
    has_block_limit = is_nvidia or warps > 1
    blocks = {
        REGISTERS: by_registers,
        SHARED: by_shared,
        THREADS: limits.warps // warps,
        BLOCKS: limits.blocks if has_block_limit else limits.warps,
    }
    fewest = min(blocks.values())
    return Occupancy(fewest * warps, limits.warps, tuple(name for name, count in blocks.items() if count == fewest))
