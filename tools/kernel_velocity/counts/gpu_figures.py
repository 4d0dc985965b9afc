"""Figures of GPU kernels for an architecture, read of NVIDIA's machine code without a GPU.

Registers, shared memory, stack and barriers stand in a cubin itself. nvdisasm tells instructions and spills
(machine_code.py). PTX is assembled first, if there is a ptxas.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from kernel_velocity.counts import machine_code
from kernel_velocity.counts.c_call import NotCountedError
from kernel_velocity.counts.gpu_code import Cubin
from kernel_velocity.counts.occupancy import LIMITS, Occupancy, occupancy
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
