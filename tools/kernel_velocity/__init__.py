"""kernel-velocity: how fast every kernel was at every commit, in asv's format.

`kv track` builds commits and has asv measure them, `kv nightly` judges them, `kv report` writes the site. A room is a
folder with a charter in its `__init__.py`. It imports only rooms of earlier lines, and leaves, which are the modules of
this folder. `tests/test_architecture.py` holds this order. The package knows the suite of a repository by its
asv.conf.json, never by import.

    harness/        measure one series in one process. Imports nothing else of this package

    bounds.py       check recorded numbers
    config.py       read asv.conf.json
    errors.py       errors that a user can cure
    fields.py       dataclasses as plain data, checked against their annotations
    files.py        replace files atomically
    forking.py      run part of the work in a forked child
    lock.py         one measuring run at a time
    make_venv.py    make the virtual environment, by a bare Python
    processes.py    end what a killed process started
    progress.py     a progress bar
    statuses.py     exit statuses: what each means, how bad it is, which comes first
    tables.py       tables as text
    units.py        numbers as text

    results/        the recorded past: asv's files, the telemetry beside them, git
    stats/          mathematics: two samples, adjusting, change points
    roofline/       ceilings of a machine, and how far a timing is from them
    series/         every recorded series as columns, adjusted and cached
    runner/         build commits and have asv measure them (`kv track`, `kv peaks`)
    findings/       findings, evidence and verdicts: their files and texts (`kv findings`)
    ab/             two commits measured in turns (`kv gate`, `kv bisect`, `kv false-alarms`)
    nightly/        measure and judge the new commits (`kv nightly`)
    site/           the dashboard (`kv report`)
    compare/        implementations side by side on the working tree (`kv compare`)
    fleet/          many machines measure one history (`kv track --fleet`, `kv offline`)
    scaffold/       the files of a new kernel, or of a new suite (`kv new`)

    __main__.py     the command line
    asv_plugin.py   asv's plugin: the environment of a commit, our pages in asv's site
    pytest_plugin.py   pytest's plugin: a test that fails where a kernel became slower
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernel_velocity.harness.accuracy import Tolerance
    from kernel_velocity.harness.definition import benchmark, module, native, normal, problem_file, solution
    from kernel_velocity.harness.problem import Problem
    from kernel_velocity.harness.under_test import artefact
    from kernel_velocity.series.frames import read

__all__ = [
    "Problem",
    "Tolerance",
    "artefact",
    "benchmark",
    "module",
    "native",
    "normal",
    "problem_file",
    "read",
    "solution",
]
# What benchmarks and notebooks import from here. Imported on use: the command line needs none of it.
_PUBLIC = {
    "Problem": "harness.problem",
    "Tolerance": "harness.accuracy",
    "artefact": "harness.under_test",
    **dict.fromkeys(("benchmark", "module", "native", "normal", "problem_file", "solution"), "harness.definition"),
    "read": "series.frames",
}


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PUBLIC[name]}"), name)
