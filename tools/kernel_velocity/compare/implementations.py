"""Load a problem, ours or a user's, and its implementations. Select cases and implementations."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from kernel_velocity.compare import solutions as solution_files
from kernel_velocity.compare.solutions import Bind
from kernel_velocity.errors import UsageError
from kernel_velocity.names import CONTROLS
from kernel_velocity.problem.implementations import Bound, Module, bind_live_compile
from kernel_velocity.problem.implementations import bind as bind_implementation
from kernel_velocity.problem.problem import Inputs, Problem, TestCase
from kernel_velocity.problem.problem_file import dtype_of_parameter, load_file
from kernel_velocity.problem.problem_formats import SUFFIXES, copies
from kernel_velocity.problem.user_file import in_one_line, lacking
from kernel_velocity.runner.checks import check_build
from kernel_velocity.suite import config

Pattern = str | Sequence[str] | None  # names or regular expressions, a list or separated by commas. None: all


def load(
    what: str,
    device: str,
    solutions: Sequence[Path] = (),
    dtype: str = "float32",
) -> tuple[Problem, dict[str, Bind]]:
    """Return a problem on its device, with its implementations by name, the reference first.

    It runs inside `prepared`.

    Args:
        what: a kernel of ours ("matmul"), or the path of a problem file: with a Problem class of ours, or a public
            problem as it is (problem/problem_formats.py). "FILE:NAME" where a file has several.
        device: "cpu" or "cuda": where inputs are made, whatever device a file has written in.
        solutions: shared libraries with `extern "C" void solution(...)`, and Python files with `solution(...)`. Their
            implementations have the names of the files.
        dtype: torch's name of the element type that older definitions ask for.

    Raises:
        UsageError: there is no such kernel, a solution is no such file, or two have the same name.
        ProblemError: there is no such file, the file does not import, or its class lacks something.
    """
    problem = _problem(what, device, dtype)
    implementations = binders(
        *(name for name in problem.implementations_on(device) if problem.kernel is not None or name in CONTROLS)
    )
    for path in solutions:
        if path.stem in implementations:
            raise UsageError(f"{path}: another implementation is called {path.stem!r}; rename the file")
        implementations[path.stem] = solution_files.Solution(path, problem)
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
    """Bind an implementation to inputs. The reference runs once first, on the device that its code names.

    Raises:
        NotImplementedError: it cannot run on this device. To redirect its code to this one would be timed, too.
    """
    bind = bind_live_compile if name == "compile" else partial(bind_implementation, name, cache=Path())
    if name in CONTROLS:
        try:
            problem.reference_solution(*(copies(inputs) if problem.in_place else inputs))
        except (AssertionError, RuntimeError) as error:
            if not lacking(error, has_cuda=problem.device == "cuda"):
                raise
            raise NotImplementedError(f"the reference names a CUDA device in its code: {in_one_line(error)}") from None
        if problem.in_place:
            return solution_files.restored(inputs, partial(bind, problem, case))
    elif isinstance(function := problem.functions.get(name), Module):
        folder = Path(str(importlib.import_module(function.package).__file__)).parent
        check_build(folder, str(problem.kernel))
    return bind(problem, case, inputs)


# Cases and names ------------------------------------------------------------------------------------------------------


def named_dtype(case: str) -> str | None:
    """Return the dtype that a case's name begins with (`float32-5M`), None for any other name."""
    match = re.match(r"(b?float\d+|u?int\d+|tf32)-", case)
    return None if match is None else match.group(1)


def dtype_of(problem: Problem, case: str) -> str:
    """Return the dtype of a case: what its name begins with, else that of the first tensor."""
    pointers = [parameter for parameter in problem.parameters if parameter["pointer"]]
    first = (dtype_of_parameter(pointers[0]) or str(pointers[0]["type"])) if pointers else "float32"
    return named_dtype(case) or first


def select_cases(problems: Sequence[Problem], pattern: Pattern, dtype: str | None) -> list[list[TestCase]]:
    """Return the test cases of each problem that match a pattern and have a dtype, both None for all cases.

    A part of the pattern must match in one of the problems.

    Raises:
        UsageError: a part of the pattern matches in none, or is no regular expression. No case has that dtype.
    """
    tests = [problem.generate_test_cases() for problem in problems]
    pairs = list(zip(problems, tests, strict=True))
    dtypes = {dtype_of(problem, test["name"]) for problem, group in pairs for test in group}
    where = f"{' and '.join(problem.name for problem in problems)} on {problems[0].device}"
    if dtype is not None and dtype not in dtypes:
        raise UsageError(f"--dtype must be one of {', '.join(sorted(dtypes))} for {where} (got {dtype})")
    chosen = [[test for test in group if dtype in (None, dtype_of(problem, test["name"]))] for problem, group in pairs]
    names = list(dict.fromkeys(test["name"] for group in chosen for test in group))
    matched = matching("--sizes", pattern, names, where)
    return [[test for test in group if test["name"] in matched] for group in chosen]


def matching(option: str, pattern: Pattern, names: Sequence[str], where: str) -> list[str]:
    """Return the names that match a pattern: names or regular expressions, separated by commas, None for all.

    A whole name means only itself, even with a comma in it. Anything else is searched for in the names.

    Raises:
        UsageError: a part that matches nothing, or is no regular expression.
    """
    if pattern is None:
        return list(names)
    if isinstance(pattern, str):  # a comma separates, but not that of x{1,2}
        pattern = [pattern] if pattern in names else re.split(r",(?![^{]*})", pattern)
    chosen: set[str] = set()
    for part in pattern:
        try:
            matched = [part] if part in names else [name for name in names if part and re.search(part, name)]
        except re.error as error:
            raise UsageError(f"{option} {part!r}: not a name, and not a valid regular expression ({error})") from None
        if not matched:
            raise UsageError(f"{option} {part!r} matches nothing of {where}: there are {', '.join(names)}")
        chosen.update(matched)
    return [name for name in names if name in chosen]
