"""One round of a definition in a process of its own, as asv runs it, or a comparison: refused, flagged, or timed.

Processes are forked from a server that has imported PyTorch and the harness, as asv's are.
"""

from __future__ import annotations

import importlib.util
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

# As asv's server has imported. Without the first, the first operation on the device `meta` takes half a second
PRELOADED = [
    "torch.fx.experimental.symbolic_shapes",
    "kernel_velocity.suite.asv_type",
    "kernel_velocity.suite.definition",
    "tests.suite.measuring",
]
FLAGS = ("-O3", "-march=native", "-shared", "-fPIC", "-fopenmp")
SECONDS = 600  # s that a round may take on a busy machine
BUSY = 9
SETTINGS = {"KV_T_MIN": ".005", "KV_T_SOFT": ".01", "KV_T_MAX": ".02", "KV_PATIENCE": "0", "KV_THREADS": "1"}
HARMLESS = {
    "contended",
    "faulting",
    "quantised",
    "short",
    "drift",
    "budget",
}  # flags that honest code gets on a busy machine


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of a run: `refused` is the reason, "" for none. `seconds` are those per call that were reported."""

    refused: str
    seconds: float | None = None
    eager: float | None = None  # s per call of the reference, in a comparison
    flags: tuple[str, ...] = ()

    @property
    def suspicious(self) -> tuple[str, ...]:
        """Return the flags that a reader is warned by."""
        return tuple(flag for flag in self.flags if flag not in HARMLESS)


def compiled(folder: Path, source: str, *, trick: bool, name: str = "libtrick.so") -> Path:
    """Compile C with TRICK defined as 1 or 0. Return the library."""
    text, library = folder / "trick.c", folder / name
    text.write_text(source)
    command = ["cc", *FLAGS, f"-DTRICK={int(trick)}", str(text), "-o", str(library), "-lm", "-lpthread"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return library


def written(folder: Path, definition: str, *, trick: bool, name: str = "product.py") -> Path:
    """Write a Python file in which TRICK is True or False. Return it."""
    path = folder / name
    path.write_text(f"TRICK = {trick}\n{definition}")
    return path


def rounds(
    definition: Path, count: int = 1, *, device: str = "Cpu", around: str = "", environ: Sequence[tuple[str, str]] = ()
) -> Outcome:
    """Run rounds of the implementation `ours`, each in a process of its own, until one is refused.

    A contended round does not count, BUSY of them at most for each that is wanted: its times show no trick.

    Args:
        definition: a file of `kv.benchmark` with one case. count: rounds. device: class of the definition.
        around: a module of tests whose function `plant` is called before the definition is imported.
        environ: settings beside those of all rounds.
    """
    outcome, counted = Outcome(refused="no round was run"), 0
    for _ in range((1 + BUSY) * count):
        outcome = _in_a_process(_round, definition, device, around, tuple(environ))
        counted += "contended" not in outcome.flags
        if outcome.refused or counted == count:
            break
    return outcome


def comparison(definition: Path, solution: Path) -> Outcome:
    """Compare a solution with the reference of a definition."""
    return _in_a_process(_compare, definition, solution)


@cache
def context() -> multiprocessing.context.ForkServerContext:
    """Return what starts processes: forks of a server that has imported PyTorch and the harness."""
    result = multiprocessing.get_context("forkserver")
    result.set_forkserver_preload(PRELOADED)
    return result


def _in_a_process(step: object, *args: object) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="tricks-") as folder:
        answer = Path(folder) / "answer"
        process = context().Process(target=_answer, args=(answer, step, args))
        process.start()
        process.join(SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
            return Outcome(refused=f"it ran for more than {SECONDS} s")
        if not answer.exists():
            return Outcome(refused=f"its process ended with status {process.exitcode}")
        fields = json.loads(answer.read_text())
    return Outcome(**fields | {"flags": tuple(fields["flags"])})


def _answer(path: Path, step: object, args: Sequence[object]) -> None:
    """Run a step in this process, and write its outcome to a file. What the code prints goes nowhere."""
    silent = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2) if not os.environ.get("KV_TRICKS_LOUD") else ():
        os.dup2(silent, stream)
    outcome = step(*args)  # type: ignore[operator]
    written_to = path.with_suffix(".part")
    written_to.write_text(json.dumps(vars(outcome)))
    written_to.replace(path)
    os._exit(0)


def _set(folder: Path, environ: Sequence[tuple[str, str]]) -> None:
    """Set what asv sets for a measuring process, and limits that refuse nothing."""
    import pytest

    from kernel_velocity.suite.originals import ORIGINALS
    from tests.machine.planted_limits import plant_limits

    os.environ |= SETTINGS | {
        "ASV_CONF_DIR": str(folder),
        "ASV_ENV_NAME": "env",
        "ASV_COMMIT": "c" * 40,
        "KV_ARTEFACTS": str(folder),
        **dict(environ),
    }
    os.environ.pop("ASV_ENV_DIR", None)
    plant_limits(pytest.MonkeyPatch())  # they take 3 s, and are no trick's finder here
    ORIGINALS.__init__()  # type: ignore[misc]  # what is planted is original here
    ORIGINALS.note()


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _round(definition: Path, device: str, around: str, environ: Sequence[tuple[str, str]]) -> Outcome:
    """Set up and measure one round of `ours` by the benchmark type that asv uses."""
    from tests.suite import measuring

    root = definition.parent
    _set(root, environ)
    if around:
        importlib.import_module(around).plant()
    before = len(measuring.rounds(root))
    try:
        module = _imported(definition)
        bench = measuring.as_asv_runs("RoundBenchmark", module, "time_hot", 1, device)
        if bench.do_setup():
            return Outcome(refused="n/a")
        try:
            bench.run(*bench._current_params)
        finally:
            bench.do_teardown()
    except Exception as error:  # noqa: BLE001 - foreign code raises anything
        return Outcome(refused=f"{type(error).__name__}: {' '.join(str(error).split())}")
    lines = measuring.rounds(root)[before:]
    if len(lines) != 1:
        return Outcome(refused=f"{len(lines)} rounds were recorded")
    return Outcome(refused="", seconds=lines[0].estimate, flags=tuple(lines[0].flags))


def _compare(definition: Path, solution: Path) -> Outcome:
    """Compare a solution with `eager` on the definition's problem."""

    from kernel_velocity.compare.api import binders, compare
    from kernel_velocity.compare.settings import TimingSettings
    from kernel_velocity.compare.solutions import binder
    from kernel_velocity.engine.stopping import FixedCount
    from kernel_velocity.errors import KernelVelocityError
    from kernel_velocity.problem.problem import c_parameters

    _set(definition.parent, ())
    try:
        problem = _imported(definition).Cpu.problem
        type(problem).parameters = c_parameters("const float* a, const float* b, float* out, int n")
        implementations = {**binders("eager"), "ours": binder(solution, problem)}
        quick = TimingSettings(rounds=3, rule=FixedCount(n=5))  # warm-ups would make each sample one call
        (compared,) = compare(problem, implementations, settings=quick).compared
    except (KernelVelocityError, ValueError) as error:
        return Outcome(refused=f"{type(error).__name__}: {' '.join(str(error).split())}")
    eager, ours = compared.timed
    reason = ours.failed or ours.missing or (f"eager: {eager.failed}" if eager.failed else "")
    times = [min(timed.estimates, default=None) for timed in (ours, eager)]
    return Outcome(refused=reason, seconds=times[0], eager=times[1], flags=(*ours.flags, *ours.notes))
