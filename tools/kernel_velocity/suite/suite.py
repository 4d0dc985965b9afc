"""The suite: the package of a repository's benchmarks, with a module for each kernel.

`definition.benchmark` leaves in such a module a `Problem`, and an asv class for each device that times it. asv imports
the package under the name of its folder, and so does this: a class is the same on either way.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernel_velocity.names import DEVICES
from kernel_velocity.problem.problem import Problem, ProblemError
from kernel_velocity.problem.user_file import in_one_line, line

CEILINGS = "device"  # the module with the series of the machine, which is no kernel


@dataclass(frozen=True)
class Suite:
    """The package that lies in `folder`."""

    folder: Path

    def modules(self) -> tuple[str, ...]:
        """Return the names of its modules, which are those of the kernels."""
        return tuple(sorted(info.name for info in pkgutil.iter_modules([str(self.folder)]) if not info.ispkg))

    def benchmark(self, kernel: str, device: str) -> Any:
        """Return the asv class that times a kernel on "cpu" or "cuda". None where it is not timed there."""
        benchmark = self.figures(kernel, device)
        return benchmark if hasattr(benchmark, "time_hot") else None

    def figures(self, kernel: str, device: str) -> Any:
        """Return the asv class of a kernel's code for "cpu" or "cuda", timed there or not. None where there is none."""
        return vars(self._module(kernel)).get(DEVICES[device])

    def problems(self, device: str | None = None) -> Iterator[Problem]:
        """Yield every kernel's problem, by the name of its module. With a device only those that are timed there."""
        for name in self.modules():
            for value in vars(self._module(name)).values():
                ours = isinstance(value, type) and issubclass(value, Problem) and value.kernel == name
                if ours and (device is None or self.benchmark(name, device) is not None):
                    yield value()  # every problem of a suite names itself

    def loops(self) -> str | None:
        """Return the package of native loops by which ceilings are measured (`workloads`), None where there is none."""
        return vars(self._module(CEILINGS)).get("LOOPS") if CEILINGS in self.modules() else None

    def core(self, device: str) -> dict[str, tuple[str, ...]]:
        """Return the cases of tier `core`: kernel -> two cases, one in the caches and one beyond or larger."""
        return {problem.name: tuple(problem.core[device]) for problem in self.problems(device)}

    def _module(self, name: str) -> Any:
        """Return a module.

        Raises:
            ProblemError: it does not import, with the line.
        """
        above = str(self.folder.parent)
        if above not in sys.path:  # as asv has it; the working tree's package under test lies there, too
            sys.path.insert(0, above)
        path = self.folder / f"{name}.py"
        try:
            return importlib.import_module(f"{self.folder.name}.{name}")
        except (Exception, SystemExit) as error:  # a user's file may raise anything
            text = str(error) if isinstance(error, ProblemError) else f"does not import: {in_one_line(error)}"
            raise ProblemError(f"{path}:{line(error, path)} {text}") from error
