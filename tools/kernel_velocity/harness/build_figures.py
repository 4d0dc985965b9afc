"""What the compilers made of a kernel, per commit, as series: registers, shared memory, spills, the size of the code.

Read from the build-info.json inside the package under test (kernels/_native/write_build_info.py says where its figures
come from): no GPU is asked, and none is needed. A test case of these series is what code was made for: an instruction
set of the CPU's, a GPU's architecture.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kernel_velocity.harness.cases import FIGURES
from kernel_velocity.harness.under_test import check_package

_PTXAS: Mapping[str, Callable[[list[Mapping[str, int]]], int]] = {
    "registers": lambda functions: max(each["registers"] for each in functions),
    "shared_bytes": lambda functions: max(each["shared_bytes"] for each in functions),
    "spill_bytes": lambda functions: sum(each["spill_store_bytes"] + each["spill_load_bytes"] for each in functions),
}


def figure(info: Mapping[str, Any], kernel: str, name: str, target: str) -> int:
    """Return a figure of a kernel's code.

    Args:
        info: a build-info.json. name: of cases.FIGURES. target: of cases.TARGETS.

    Raises:
        NotImplementedError: the build has no such kernel, or no code of it for the target.
    """
    known = info.get("kernels", {}).get(kernel, {})
    if name in _PTXAS:
        functions = [each for each in known.get("ptxas", ()) if each["architecture"] == target]
        if functions:
            return _PTXAS[name](functions)
    elif target in known.get(name, {}):
        return int(known[name][target])
    raise NotImplementedError(f"the build of this commit has no {kernel} for {target}")


def built() -> dict[str, Any]:
    """Return the build-info.json of the package under test.

    Raises:
        NotImplementedError: there is none: the commit is from before wheels had one.
        WrongPackageError: the package is not the one of the commit under test.
    """
    check_package(os.environ)
    spec = importlib.util.find_spec("kernels")
    if spec is None or spec.origin is None:
        raise NotImplementedError("there is no package kernels")
    path = Path(spec.origin).parent / "_native" / "build-info.json"
    if not path.exists():
        raise NotImplementedError("the build of this commit has no build-info.json")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def add_methods(benchmark: type, kernel: str, device: str) -> None:
    """Give a benchmark class of a kernel on a device ("cpu", "cuda") a method for each figure."""
    for name in FIGURES[device]:
        setattr(benchmark, f"track_{name}", _method(kernel, name))


def _method(kernel: str, name: str) -> Callable[[Any, str, str], int]:

    def track(self: Any, implementation: str, target: str) -> int:
        return figure(built(), kernel, name, target)

    track.__name__ = track.__qualname__ = f"track_{name}"
    track.__doc__ = f"Return {name.replace('_', ' ')} of the compiled code for a target."
    unit = next(units[name] for units in FIGURES.values() if name in units)
    vars(track).update(unit=unit, pretty_source=track.__doc__)  # what asv stores, and what its pages show
    return track
