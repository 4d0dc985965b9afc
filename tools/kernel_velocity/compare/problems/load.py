"""What a live comparison works on: a problem, ours or a user's, and the implementations there are of it.

Whether the native library that lies in a source tree was built from what the tree holds now.

Who edits a kernel and compares it without `make build` would time, and call right, the code of before.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from kernel_velocity import config
from kernel_velocity.compare.problems import solutions as solution_files
from kernel_velocity.compare.problems.file import in_one_line
from kernel_velocity.compare.problems.foreign import load_file
from kernel_velocity.errors import UsageError
from kernel_velocity.harness import benchmark, cases, implementations, live_compile
from kernel_velocity.harness.implementations import Bound
from kernel_velocity.harness.problem import Inputs, Problem

Binder = Callable[[Problem, str, Inputs], Bound]

LIBRARY = Path("_native", "libkernel_velocity.so")


@dataclass(frozen=True)
class Loaded:
    """A problem on its device, and its implementations by name, the reference first.

    An implementation takes (problem, name of the case, inputs) and returns them bound. It raises NotImplementedError
    where it does not exist here (n/a), UsageError where the user's files do not fit together.
    """

    problem: Problem
    implementations: Mapping[str, Binder]


def load(
    what: str,
    device: str,
    solutions: Sequence[Path] = (),
    dtype: str = "float32",
    around: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> Loaded:
    """Return a problem and its implementations.

    Args:
        what: a kernel of ours ("matmul"), or the path of a Python file with a Problem class: ours, or a public
            challenge's definition as it is. "FILE:NAME" where a file has several.
        device: "cpu" or "cuda": where inputs are made, whatever device a file has written in.
        solutions: shared libraries with `extern "C" void solution(...)`, and Python files with `solution(...)`; each
            an implementation that is called like its file.
        dtype: torch's name of the element type that older definitions ask for.
        around: makes a context from a solution's name, for while it is loaded: that runs code of its own.

    Sets torch's threads (KV_THREADS, else 1) for this process.

    Raises:
        UsageError: one line that says what does not fit: no such kernel, file or device; the file does not import or
            its class lacks something; a solution does not load; two are called alike.
    """
    if device not in cases.DEVICES:
        raise UsageError(f"device {device!r}: there are {' and '.join(cases.DEVICES)}")
    try:
        benchmark.prepare_torch(device)
    except NotImplementedError as error:
        raise UsageError(f"device {device}: {error}") from None
    problem = _problem(what, device, dtype)
    found: dict[str, Binder] = {"eager": _bind_eager, "compile": _bind_compile}
    if problem.kernel is not None:
        found["native"] = _bind_native
    if problem.kernel is not None and "triton" in cases.implementations_on(device):
        found["triton"] = _bind_triton
    for path in solutions:
        if path.stem in found:
            raise UsageError(f"{path}: there is an implementation {path.stem!r} already; give the file another name")
        with around(path.stem):
            found[path.stem] = solution_files.binder(path, problem)
    return Loaded(problem, found)


def _problem(what: str, device: str, dtype: str) -> Problem:
    path, _, name = what.partition(":")
    if path.endswith(".py") or "/" in path:
        return load_file(Path(path), name or None, device, dtype)
    ours = {problem.name: problem for problem in config.suite(Path()).problems()}
    if what not in ours:
        hint = f"; {what}.py would be taken for a file" if Path(f"{what}.py").is_file() else ""
        raise UsageError(f"{what}: no such kernel; there are {', '.join(ours)}, or the path of a Python file{hint}")
    problem = ours[what]
    problem.device = device
    return problem


def _bind_eager(problem: Problem, case: str, inputs: Inputs) -> Bound:
    _require_reference(problem, inputs)
    return implementations.bind("eager", problem, case, inputs, Path())


def _bind_compile(problem: Problem, case: str, inputs: Inputs) -> Bound:
    _require_reference(problem, inputs)
    return live_compile.bind(problem, case, inputs)


def _bind_native(problem: Problem, case: str, inputs: Inputs) -> Bound:
    if problem.kernel is not None:
        check(Path(str(importlib.import_module("kernels").__file__)).parent, problem.kernel)
    return implementations.bind("native", problem, case, inputs, Path())


def _bind_triton(problem: Problem, case: str, inputs: Inputs) -> Bound:
    return implementations.bind("triton", problem, case, inputs, Path())


def _require_reference(problem: Problem, inputs: Inputs) -> None:
    """Run the reference once. A device that is written into it is not redirected: that would be timed with it.

    Raises:
        NotImplementedError: it cannot run on this device.
    """
    try:
        problem.reference_solution(*inputs)
    except (AssertionError, RuntimeError) as error:
        if problem.device == "cuda" or "CUDA" not in str(error):
            raise
        raise NotImplementedError(f"the reference has a CUDA device written in: {in_one_line(error)}") from None


def check(kernels: Path, kernel: str) -> None:
    """Check the library in a folder of kernels against the sources of one of them, and what these may include.

    An installed wheel has no sources, and a tree without a library says so itself when that is loaded.

    Raises:
        UsageError: a source was changed after the library was built.
    """
    library = kernels / LIBRARY
    if not library.is_file():
        return
    own = [
        path for folder in (kernel, "_native") for kind in ("*.cpp", "*.cu") for path in (kernels / folder).glob(kind)
    ]
    sources = [*own, *kernels.glob("*/*.h")]
    newest = max(sources, key=lambda path: path.stat().st_mtime_ns, default=library)
    if newest.stat().st_mtime_ns > library.stat().st_mtime_ns:
        raise UsageError(
            f"{newest.relative_to(kernels.parent)} was changed after the native library was built: run `make build`, "
            "or what is compared is the code of before"
        )
