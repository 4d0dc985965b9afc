"""What is counted and read of builds, not timed: counts of calls, figures of code, errors of outputs.

A process for each build answers (`suite/counting.py`).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from kernel_velocity.counts import compiled
from kernel_velocity.counts.changes import FigureKey
from kernel_velocity.documents import DamagedError
from kernel_velocity.errors import KernelVelocityError
from kernel_velocity.names import COUNTED_ON, COUNTS, DEVICES
from kernel_velocity.processes import contained
from kernel_velocity.results.asv_file import Series
from kernel_velocity.runner import fingerprint
from kernel_velocity.runner.environment import OURS
from kernel_velocity.runner.host import host_site_folders, measuring_variables
from kernel_velocity.suite import counting
from kernel_velocity.suite.benchmark import axes_of, is_of_code
from kernel_velocity.suite.counting import ERROR, Call, Output
from kernel_velocity.suite.suite import Suite
from kernel_velocity.suite.under_test import ARTEFACTS

Counted = Call | Output
LONGEST = 300.0  # s without an answer, after which a call is given up


@dataclass
class Side:
    """What one commit has: figures, and why it lacks others."""

    figures: dict[FigureKey, int] = field(default_factory=dict)
    unavailable: dict[Counted, str] = field(default_factory=dict)
    failed: dict[Counted, str] = field(default_factory=dict)
    died: set[Counted] = field(default_factory=set)  # of `failed`, those that ended the process
    errors: dict[Output, float] = field(default_factory=dict)
    code: dict[Call, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)  # of GPU code (suite/counting.py)
    listings: dict[Call, str] = field(default_factory=dict)  # of machine code (counts/listing.py)

    def reason(self, call: Call) -> str:
        """Return why a call has no counts here. "" where it has some."""
        return self.failed.get(call) or self.unavailable.get(call, "")


def count(
    suite: Suite, builds: Sequence[Path], calls: Sequence[Counted], variables: Mapping[str, str] = MappingProxyType({})
) -> list[Side]:
    """Return what calls of builds execute, each build counted in a process beside the others.

    Args:
        variables: of the environment of these processes.

    Raises:
        KernelVelocityError: such a process does not begin.
    """
    sides, left = [Side() for _ in builds], [list(calls) for _ in builds]
    with tempfile.TemporaryDirectory(prefix="kv-counts-") as folder, contained():
        turn = 0
        while any(left):
            workers = [
                (number, _Worker(suite.folder, build, left[number], Path(folder, f"{number}-{turn}"), variables))
                for number, build in enumerate(builds)
                if left[number]
            ]
            for number, worker in workers:
                done = worker.wait(sides[number])
                left[number] = left[number][done:]
            turn += 1
    return sides


class _Worker:
    """A process that counts calls of a build."""

    def __init__(
        self, suite: Path, build: Path, calls: Sequence[Counted], answers: Path, variables: Mapping[str, str]
    ) -> None:
        self._calls, self._answers, self._log = calls, answers, answers.with_suffix(".log")
        # The suite's folder comes last: the working tree's package lies beside it
        paths = os.pathsep.join(map(str, (build.absolute(), OURS, *host_site_folders(sys.path), suite.parent)))
        measuring = measuring_variables(os.environ.get("KV_THREADS") or None)
        answers.touch()
        with self._log.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", counting.__name__, str(suite), str(answers), json.dumps(calls)],
                env={**os.environ, **measuring, ARTEFACTS: str(build.absolute()), "PYTHONPATH": paths, **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def wait(self, side: Side) -> int:
        """Wait until it ends, and put its answers into a side. Return how many calls it dealt with.

        Raises:
            KernelVelocityError: it ended before the first.
        """
        last, size = time.monotonic(), 0
        while self._process.poll() is None:
            time.sleep(0.02)
            if self._answers.stat().st_size != size:
                last, size = time.monotonic(), self._answers.stat().st_size
            elif time.monotonic() - last > LONGEST:
                self._process.kill()
        lines = self._answers.read_text(encoding="utf-8").splitlines()
        answers = [answer for answer in map(json.loads, lines) if "begins" not in answer]
        for call, answer in zip(self._calls, answers, strict=False):
            self._note(side, call, answer)
        if self._process.returncode == 0 or len(answers) == len(self._calls):  # a library may crash at the end
            return len(answers)
        if not lines:
            text = self._log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise KernelVelocityError(f"the process that counts does not begin: {(text or ['it printed nothing'])[-1]}")
        side.failed[call := self._calls[len(answers)]] = self._end()
        side.died.add(call)
        return len(answers) + 1

    def _end(self) -> str:
        status = self._process.returncode
        if status == -signal.SIGKILL:
            return f"it was killed, or gave no answer within {LONGEST:.0f} s"
        return f"the process ended by {signal.Signals(-status).name if status < 0 else f'itself with status {status}'}"

    @staticmethod
    def _note(side: Side, call: Counted, answer: Mapping[str, object]) -> None:
        counts = answer.get("counts")
        if isinstance(counts, dict) and isinstance(call, Output):
            side.errors[call] = counts[ERROR]
        elif isinstance(counts, dict) and isinstance(call, Call):
            of = call.kernel, call.implementation, call.of_series
            side.figures |= {FigureKey(*of, name): n for name, n in counts.items()}
            if code := answer.get("code"):
                side.listings[call] = str(code)
        if "details" in answer and isinstance(call, Call):
            side.code[call] = {name: of for name, of in answer.items() if isinstance(of, dict)}
        for kind, texts in (("unavailable", side.unavailable), ("failed", side.failed)):
            if kind in answer:
                texts[call] = str(answer[kind])


# As series -----------------------------------------------------------------------------------------------------------


class Missing(NamedTuple):
    """Why a series has no value at a commit."""

    why: str
    failed: bool = True  # else it does not apply
    died: bool = False


def axes(suite: Suite, benchmark: str) -> list[list[str]]:
    """Return the parameters of the series of a `track_*` benchmark, as asv stores them."""
    kernel, device, figure = _parts(benchmark)
    return [[*map(repr, axis)] for axis in axes_of(suite.figures(kernel, device), figure)]


def values(
    suite: Suite, build: Path, wanted: Sequence[Series], variables: Mapping[str, str]
) -> tuple[dict[Series, float | Missing], dict[str, str]]:
    """Return the values of some `track_*` series of a build, and its machine code: listings by what they are of.

    Args:
        variables: of the environment of the process that counts.

    Raises:
        KernelVelocityError: it does not begin.
    """
    info = fingerprint.build_info(build)
    calls = {series: _call(suite, series) for series in wanted}
    (side,) = count(suite, [build], [*dict.fromkeys(call for call in calls.values() if call is not None)], variables)
    answers = {
        series: _described(info, series) if call is None else _value(side, series, call)
        for series, call in calls.items()
    }
    return answers, {f"{call.kernel} {call.implementation} {call.of_series}": c for call, c in side.listings.items()}


def _parts(benchmark: str) -> tuple[str, str, str]:
    """Return the kernel, the device and the figure of a benchmark's name."""
    kernel, class_name, method = benchmark.split(".")
    (device,) = (device for device, name in DEVICES.items() if name == class_name)
    return kernel, device, method.removeprefix("track_")


def _call(suite: Suite, series: Series) -> Counted | None:
    """Return the call that is made, or whose code is read, for a series. None: build-info.json says its value."""
    benchmark, (implementation, case) = series
    kernel, device, figure = _parts(benchmark)
    if figure == ERROR:
        return Output(kernel, implementation, case, device)
    if figure in COUNTS:
        return Call(kernel, implementation, case.removesuffix(f"-{COUNTED_ON}"))
    problem = suite.figures(kernel, device).problem
    return Call(kernel, implementation, case) if is_of_code(problem, figure, implementation, case) else None


def _described(info: Mapping[str, Any], series: Series) -> float | Missing:
    """Return what a build-info.json says."""
    benchmark, (_, case) = series
    kernel, _, figure = _parts(benchmark)
    try:
        return compiled.figure(info, kernel, figure, case)
    except NotImplementedError as error:
        return Missing(str(error), failed=False)
    except DamagedError as error:
        return Missing(f"DamagedError: {error}")


def _value(side: Side, series: Series, call: Counted) -> float | Missing:
    """Return what was counted for a series."""
    value: float | None
    missing: Mapping[str, Any] = {}
    figure = _parts(series[0])[2]
    if isinstance(call, Output):
        value = side.errors.get(call)
    else:
        value = side.figures.get(FigureKey(call.kernel, call.implementation, call.of_series, figure))
        missing = side.code.get(call, {}).get("missing", {})
    if value is not None:
        return value
    if call in side.failed:
        return Missing(side.failed[call], died=call in side.died)
    return Missing(side.unavailable.get(call) or missing.get(figure, f"this code has no {figure}"), failed=False)
