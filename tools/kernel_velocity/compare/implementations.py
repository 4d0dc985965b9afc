"""Load a problem, ours or a user's, and its implementations."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

from kernel_velocity import config
from kernel_velocity.compare import solutions as solution_files
from kernel_velocity.compare.solutions import Bind
from kernel_velocity.errors import UsageError
from kernel_velocity.harness import cases
from kernel_velocity.harness import implementations as harness_implementations
from kernel_velocity.harness.implementations import Bound, Module
from kernel_velocity.harness.problem import Inputs, Problem
from kernel_velocity.harness.problem_file import load_file
from kernel_velocity.harness.problem_formats import SUFFIXES, copies
from kernel_velocity.harness.user_file import in_one_line
from kernel_velocity.runner.checks import check_build


def load(
    what: str,
    device: str,
    solutions: Sequence[Path] = (),
    dtype: str = "float32",
    around: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> tuple[Problem, dict[str, Bind]]:
    """Return a problem on its device, with its implementations by name, the reference first.

    It runs inside `prepared`.

    Args:
        what: a kernel of ours ("matmul"), or the path of a problem file: with a Problem class of ours, or a public
            problem as it is (harness/problem_formats.py). "FILE:NAME" where a file has several.
        device: "cpu" or "cuda": where inputs are made, whatever device a file has written in.
        solutions: shared libraries with `extern "C" void solution(...)`, and Python files with `solution(...)`. Their
            implementations have the names of the files.
        dtype: torch's name of the element type that older definitions ask for.
        around: makes a context from a solution's name. The solution is loaded within, which runs a user's code.

    Raises:
        UsageError: there is no such kernel, a solution does not load, or two have the same name.
        ProblemError: there is no such file, the file does not import, or its class lacks something.
    """
    problem = _problem(what, device, dtype)
    names = problem.implementations_on(device) if problem.kernel is not None else cases.CONTROLS
    implementations = binders(*names)
    for path in solutions:
        if path.stem in implementations:
            raise UsageError(f"{path}: another implementation is called {path.stem!r}; rename the file")
        with around(path.stem):
            implementations[path.stem] = solution_files.binder(path, problem)
    return problem, implementations


def is_file(what: str) -> bool:
    """Return whether a name means a file, such as "a.py" or "a.py:CLASS", and not a kernel of the suite."""
    path = what.partition(":")[0]
    return path.endswith(SUFFIXES) or "/" in path


def _problem(what: str, device: str, dtype: str) -> Problem:
    path, _, name = what.partition(":")
    if is_file(what):
        return load_file(Path(path), name or None, device, dtype)
    ours = {problem.name: problem for problem in config.suite(Path()).problems()}
    if what not in ours:
        hint = f" (did you mean {what}.py?)" if Path(f"{what}.py").is_file() else ""
        raise UsageError(f"{what}: must be a kernel ({', '.join(ours)}) or the path of a problem file{hint}")
    problem = ours[what]
    problem.device = device
    return problem


def binders(*names: str) -> dict[str, Bind]:
    """Return the functions that bind implementations to inputs, by name: "eager", "compile", "native", "triton"."""
    return {name: partial(_bind, name) for name in names}


def _bind(name: str, problem: Problem, case: str, inputs: Inputs) -> Bound:
    if name in cases.CONTROLS:
        _try_reference(problem, copies(inputs) if problem.in_place else inputs)
        if problem.in_place:
            return solution_files.restored(inputs, partial(_bind_plain, name, problem, case))
    return _bind_plain(name, problem, case, inputs)


def _bind_plain(name: str, problem: Problem, case: str, inputs: Inputs) -> Bound:
    if name == "compile":
        return harness_implementations.bind_live_compile(problem, case, inputs)
    if isinstance(function := problem.functions.get(name), Module):
        folder = Path(str(importlib.import_module(function.package).__file__)).parent
        check_build(folder, str(problem.kernel))
    return harness_implementations.bind(name, problem, case, inputs, Path())


def _try_reference(problem: Problem, inputs: Inputs) -> None:
    """Run the reference once on the device that its code names. Redirecting it to another would be timed, too.

    Raises:
        NotImplementedError: it cannot run on this device.
    """
    try:
        problem.reference_solution(*inputs)
    except (AssertionError, RuntimeError) as error:
        if problem.device == "cuda" or "CUDA" not in str(error):
            raise
        raise NotImplementedError(f"the reference names a CUDA device in its code: {in_one_line(error)}") from None
