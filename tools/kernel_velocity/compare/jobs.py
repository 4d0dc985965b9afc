"""What `kv compare` is asked for: problems with their cases and implementations, ready to be compared."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from kernel_velocity import config
from kernel_velocity.compare import api, process, selection
from kernel_velocity.compare import inside as compare_inside
from kernel_velocity.compare.arguments import ALL
from kernel_velocity.compare.case import Progress
from kernel_velocity.compare.isolation import Journal
from kernel_velocity.compare.result import Comparison
from kernel_velocity.compare.settings import Settings
from kernel_velocity.harness import reported
from kernel_velocity.harness.implementations import Bound
from kernel_velocity.harness.problem import Inputs, Problem, TestCase
from kernel_velocity.roofline.model import Roofs

DTYPE = "float32"  # of definitions that make their cases for one dtype


class Job:
    """A problem with its implementations and settings, ready to be compared."""

    def __init__(
        self,
        what: str,
        loaded: Any,
        *,
        tests: Sequence[TestCase],
        args: argparse.Namespace,
        settings: Settings,
        notes: Sequence[str],
    ) -> None:
        self._what, self._solutions, self._notes = what, args.solution, notes
        self._problem = loaded.problem
        self._tests = tests
        where = f"{self._problem.name} on {self._problem.device}"
        self._implementations = selection.implementations(loaded.implementations, args.implementations, where)
        api.check_reference(settings, self._implementations)
        self._settings = settings

    def check_fits(self) -> None:
        """Refuse sizes that do not fit into memory.

        Raises:
            UsageError: one does not.
        """
        free = reported.free_memory(self._problem.device)
        for test in self._tests:
            selection.check_fits(self._problem, test, len(self._implementations), free)

    def compare(self, roofs: Roofs | None, progress: Progress, journal: Journal) -> Comparison:
        """Measure."""
        found = api.compare(
            self._problem,
            self._implementations,
            cases=[test["name"] for test in self._tests],
            settings=self._settings,
            roofs=roofs,
            progress=progress,
            journal=journal,
        )
        return replace(found, warnings=tuple(dict.fromkeys((*self._notes, *found.warnings))))

    def inside(self, found: Comparison) -> compare_inside.Inside:
        """Return what can be looked into, with what was found of it."""
        return compare_inside.Inside(
            what=self._what,
            problem=self._problem,
            implementations=self._implementations,
            solutions=self._solutions,
            found=found,
        )


def jobs(args: argparse.Namespace, device: str, settings: Settings, journal: Journal) -> list[Job]:
    """Return what is to be compared; a problem of which no case was asked for is left out, where others have some.

    Raises:
        UsageError: a problem, case, implementation or reference that is not there.
    """
    whats, notes = _expanded(args.what), list[str]()
    loaded = [_loaded(what, device, args, journal, notes) for what in whats]
    tests = selection.cases_of([each.problem for each in loaded], args.sizes, args.dtype)
    found = zip(whats, loaded, tests, strict=True)
    return [
        Job(what, each, tests=chosen, args=args, settings=settings, notes=notes)
        for what, each, chosen in found
        if chosen
    ]


def _loaded(what: str, device: str, args: argparse.Namespace, journal: Journal, notes: list[str]) -> Any:
    """Return a problem with its implementations; `notes` get what loading the solutions did to the process.

    A solution that ended the process before, while it was loaded, is not loaded again, and not bound either.
    """

    def changed(name: str, setting: str) -> None:
        notes.append(f"{name} changes PyTorch's {setting} as it is loaded; put back: let each call set what it needs")

    @contextmanager
    def around(name: str) -> Iterator[None]:
        with journal.running("loaded", name), process.set_back(partial(changed, name)):
            yield

    dead = [path.stem for path in args.solution if journal.died(path.stem) is not None]
    paths = [path for path in args.solution if path.stem not in dead]
    loaded = importlib.import_module("kernel_velocity.compare.problems.load").load(
        what, device, paths, args.dtype or DTYPE, around
    )
    return (
        replace(loaded, implementations={**loaded.implementations, **dict.fromkeys(dead, _never)}) if dead else loaded
    )


def _never(problem: Problem, case: str, inputs: Inputs) -> Bound:
    raise AssertionError("what died while it was loaded is not bound")


def _expanded(whats: Sequence[str]) -> list[str]:
    """Return the problems named, `all` replaced by every kernel's."""
    every = [str(problem.kernel) for problem in config.suite(Path()).problems()]
    return list(dict.fromkeys(name for what in whats for name in (every if what == ALL else [what])))
