"""What compilers made of a kernel: registers, shared memory, spills, bytes of code, as build-info.json of a build says.

A test case of these series is a target of the compiler: an instruction set of the CPU, or a GPU's architecture.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from kernel_velocity.counts.changes import FigureKey
from kernel_velocity.documents import DamagedError
from kernel_velocity.names import BY_COMPILER, FIGURES, NATIVE, TARGETS

INFO_NAME = "build-info.json"
_PTXAS: Mapping[str, Callable[[list[Mapping[str, int]]], int]] = {
    "registers": lambda functions: max(function["registers"] for function in functions),
    "shared_bytes": lambda functions: max(function["shared_bytes"] for function in functions),
    "spill_bytes": lambda functions: sum(f["spill_store_bytes"] + f["spill_load_bytes"] for f in functions),
}


def figure(info: Mapping[str, Any], kernel: str, name: str, target: str) -> int:
    """Return a figure of a kernel's code.

    Args:
        info: a build-info.json.
        kernel: its name.
        name: of names.FIGURES.
        target: of names.TARGETS.

    Raises:
        NotImplementedError: the build has no such kernel, or no code of it for the target.
        DamagedError: what it says of the kernel is no whole number.
    """
    try:
        figures = info.get("kernels", {}).get(kernel, {})
        if name in _PTXAS:
            functions = [function for function in figures.get("ptxas", ()) if function["architecture"] == target]
            value = _PTXAS[name](functions) if functions else None
        else:
            value = figures.get(name, {}).get(target)
    except (LookupError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise DamagedError(f"{INFO_NAME}: kernels.{kernel}: no figures of a kernel: {why}") from None
    if value is not None and not (type(value) is int and value >= 0):
        raise DamagedError(f"{INFO_NAME}: kernels.{kernel}: {name}: a whole number is wanted, got {str(value)[:60]!r}")
    if value is not None:
        return value
    raise NotImplementedError("the build of this commit has no such code")


def ptxas_of(info: Mapping[str, Any]) -> dict[str, str]:
    """Return the output of ptxas for each CUDA kernel of a wheel: "sm_90: 168 registers, 0 bytes spilled".

    Both figures are the maximum over the kernel's functions, by architecture. Registers are per thread. Spilled bytes
    are stores and loads.
    """
    kernels = info.get("kernels")
    texts = {}
    for name, entry in kernels.items() if isinstance(kernels, Mapping) else ():
        with suppress(LookupError, TypeError):
            texts[name] = "; ".join(_maxima(entry["ptxas"]))
    return {name: text for name, text in texts.items() if text}


def _maxima(functions: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a text per architecture with the maximum over the functions of a kernel."""
    registers: dict[str, int] = {}
    spilled: dict[str, int] = {}
    for function in functions:
        name = function["architecture"]
        registers[name] = max(registers.get(name, 0), function["registers"])
        spilled[name] = max(spilled.get(name, 0), function["spill_store_bytes"] + function["spill_load_bytes"])
    for name in sorted(registers):
        yield f"{name}: {registers[name]} registers, {spilled[name]} bytes spilled"


def code_hash(info: Mapping[str, Any], kernel: str) -> str | None:
    """Return the hash of all code of a kernel, as a build says it. None where it does not."""
    with suppress(LookupError, TypeError, AttributeError):
        text = info["kernels"][kernel]["code_hash"]
        return text if isinstance(text, str) else None
    return None


def functions(info: Mapping[str, Any], kernel: str, architecture: str) -> tuple[str, ...]:
    """Return the GPU's functions of a kernel for an architecture. () where the build does not say it."""
    with suppress(LookupError, TypeError, AttributeError):
        return tuple(f["function"] for f in info["kernels"][kernel]["ptxas"] if f["architecture"] == architecture)
    return ()


def figures(info: Mapping[str, Any], kernels: Iterable[str]) -> dict[FigureKey, int]:
    """Return the figures of kernels that a build (its build-info.json) has."""
    result = {}
    for kernel, (device, names) in itertools.product(kernels, (("cpu", FIGURES["cpu"]), ("cuda", BY_COMPILER))):
        for target, name in itertools.product(TARGETS[device], names):
            with suppress(NotImplementedError):
                result[FigureKey(kernel, NATIVE, target, name)] = figure(info, kernel, name, target)
    return result
