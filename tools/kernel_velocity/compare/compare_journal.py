"""What a comparison writes down as it goes, so that another process can go on where it was ended.

An implementation is anybody's machine code, and can end the process that calls it. What it was doing then stands in the
journal; the process that started it (compare/isolation.py) adds how it ended, and starts the next one, which takes
over the test cases that are finished and leaves out what died.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from kernel_velocity.compare.result import Compared
from kernel_velocity.files import replace_text

GIVEN_UP = 70  # exit status of a process that ended itself


@dataclass(frozen=True, kw_only=True)
class Step:
    """What is being done.

    Attributes:
        doing: in words that follow "while it was": "verified before timing".
        implementation: whose code runs; None: that of the problem.
        problem: its number in the comparison. case: name of the test case, "" before the first.
        again: whether the comparison can be gone on with without it.
        how: what became of the process, where it knew; "": it did not.
    """

    doing: str
    implementation: str | None
    problem: int = 0
    case: str = ""
    again: bool = True
    how: str = ""


class Journal:
    """The journal in a folder; None: nothing is written, and nothing was."""

    def __init__(self, folder: Path | None = None, problem: int = 0) -> None:
        self._folder, self._problem = folder, problem

    def part(self, problem: int) -> Journal:
        """Return the journal of one of the problems."""
        return Journal(self._folder, problem)

    @contextmanager
    def running(self, doing: str, implementation: str | None, case: str = "", *, again: bool = True) -> Iterator[None]:
        """Note what is being done for as long as it lasts; the note stays if the process ends within."""
        self._write(Step(doing=doing, implementation=implementation, problem=self._problem, case=case, again=again))
        try:
            yield
        finally:
            if self._folder is not None:
                (self._folder / "step.json").unlink(missing_ok=True)

    def give_up(self, doing: str, implementation: str, case: str, how: str) -> None:
        """End this process, so that another goes on without the implementation; return where nobody would start one."""
        if self._folder is not None:
            self._write(Step(doing=doing, implementation=implementation, problem=self._problem, case=case, how=how))
            os._exit(GIVEN_UP)  # what is left to clean up may wait for a device that is lost

    def _write(self, step: Step) -> None:
        if self._folder is not None:
            (self._folder / "step.json").write_text(json.dumps(asdict(step)), encoding="utf-8")

    def step(self) -> Step | None:
        """Return what was being done when the process ended; None: nothing of note."""
        if self._folder is None or not (path := self._folder / "step.json").exists():
            return None
        return Step(**json.loads(path.read_text(encoding="utf-8")))

    def bury(self, step: Step, how: str) -> None:
        """Note how a process ended in a step, and that nothing is being done now."""
        if self._folder is None:
            return
        deaths = [(asdict(step), how) for step, how in (*self._deaths(), (step, how))]
        replace_text(self._folder / "deaths.json", json.dumps(deaths))
        (self._folder / "step.json").unlink()

    def died(self, implementation: str, case: str = "") -> str | None:
        """Return how an implementation ended the process on a case, or before the first; None: it did not."""
        for step, how in self._deaths():
            here = not step.case or (step.problem, step.case) == (self._problem, case)
            if here and step.implementation == implementation:
                return f"its process {how} while it was {step.doing}"
        return None

    def _deaths(self) -> list[tuple[Step, str]]:
        if self._folder is None or not (path := self._folder / "deaths.json").exists():
            return []
        return [(Step(**step), how) for step, how in json.loads(path.read_text(encoding="utf-8"))]

    def keep(self, compared: Compared) -> None:
        """Write a finished test case down; one that cannot be written is measured again where need be."""
        if self._folder is not None:
            with suppress(pickle.PicklingError, TypeError, AttributeError):  # details of a user's own check
                self._path(compared.case).write_bytes(pickle.dumps(compared))

    def kept(self, case: str) -> Compared | None:
        """Return a finished test case; None: it is not."""
        if self._folder is None or not self._path(case).exists():
            return None
        found: Compared = pickle.loads(self._path(case).read_bytes())
        return found

    def _path(self, case: str) -> Path:
        assert self._folder is not None  # looked at before
        return self._folder / f"{self._problem}-{case.encode().hex()[:200]}.pickle"
