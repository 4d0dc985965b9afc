"""kernel-velocity: how fast every kernel was at every commit, in asv's format.

`kv track` builds commits and has asv measure them, `kv nightly` judges them, `kv report` writes the site. A room is a
folder with a charter in its `__init__.py`. It imports only rooms of earlier lines, and leaves, which are the modules of
this folder. `tests/test_architecture.py` holds this order. The package knows the suite of a repository by its
asv.conf.json, never by import.

    bounds.py       bounds of recorded numbers
    direction.py    which direction of a series' values is better
    documents.py    JSON that may be damaged: a document, or one line that says what is wrong
    errors.py       errors that a user can cure
    fields.py       dataclasses as plain data, checked against their annotations
    files.py        replace files atomically
    forking.py      run part of the work in a forked child
    lock.py         one measuring run at a time
    make_venv.py    make the virtual environment, by a bare Python
    names.py        names of test cases, implementations, devices (contract)
    processes.py    end what a killed process started
    progress.py     how much of a long command is done
    statuses.py     exit statuses: what each means, how bad it is, which comes first
    tables.py       tables as text
    terminal.py     where text leaves the program: no foreign letter controls a terminal
    units.py        numbers as text
    unproven.py     the word in place of "right" where a check proves nothing

    engine/         measure one series in one process: timers, sampling, stopping, a line a round
    problem/        what a kernel computes: cases, reference, tolerance, public forms
    machine/        what a machine can do at most, and times that cannot be true
    counts/         what is counted and not timed: figures of compiled code, instructions of a call
    suite/          the benchmarks of a repository: its section, its definitions, asv's classes
    results/        the recorded past: asv's files, the telemetry beside them, git
    stats/          mathematics: two samples, adjusting, change points
    roofline/       ceilings of a machine, and how far a timing is from them
    past/           every recorded series as columns, adjusted and cached
    verdict/        what moved, by how much, whose doing: for pages, nights, gates, exports
    runner/         build commits and have asv measure them (`kv track`, `kv peaks`)
    findings/       findings, evidence and verdicts: their files and texts (`kv findings`)
    ab/             two commits measured in turns (`kv gate`, `kv bisect`, `kv false-alarms`)
    fleet/          many machines measure one history (`kv track --fleet`, `kv offline`)
    nightly/        measure and judge the new commits (`kv nightly`)
    site/           the dashboard (`kv report`)
    compare/        implementations side by side on the working tree (`kv compare`)
    scaffold/       the files of a new kernel, or of a new suite (`kv new`)

    __main__.py     the command line
    asv_plugin.py   asv's plugin: the environment of a commit, our pages in asv's site
    pytest_plugin.py   pytest's plugin: a test that fails where a kernel became slower
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernel_velocity.past.frames import read
    from kernel_velocity.problem.accuracy import Tolerance
    from kernel_velocity.problem.problem import Problem
    from kernel_velocity.suite.definition import (
        benchmark,
        gpu_code,
        gpu_file,
        module,
        native,
        normal,
        problem_file,
        register,
        solution,
    )
    from kernel_velocity.suite.under_test import artefact

__all__ = [
    "Problem",
    "Tolerance",
    "artefact",
    "benchmark",
    "gpu_code",
    "gpu_file",
    "module",
    "native",
    "normal",
    "problem_file",
    "read",
    "register",
    "solution",
]
# What benchmarks and notebooks import from here. Imported on use: the command line needs none of it.
_PUBLIC = {
    "Problem": "problem.problem",
    "Tolerance": "problem.accuracy",
    "artefact": "suite.under_test",
    **dict.fromkeys(
        (
            "benchmark",
            "gpu_code",
            "gpu_file",
            "module",
            "native",
            "normal",
            "problem_file",
            "register",
            "solution",
        ),
        "suite.definition",
    ),
    "read": "past.frames",
}


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)
