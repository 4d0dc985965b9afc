"""Load a problem, ours or a user's, and its implementations. Select cases and implementations, and predict memory."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path

from kernel_velocity import units
from kernel_velocity.compare import solutions as solution_files
from kernel_velocity.compare.solutions import Bind
from kernel_velocity.errors import UsageError
from kernel_velocity.names import CONTROLS
from kernel_velocity.problem import implementations as harness_implementations
from kernel_velocity.problem.implementations import Bound, Module
from kernel_velocity.problem.problem import Inputs, Problem, TestCase
from kernel_velocity.problem.problem_file import dtype_of_parameter, load_file, sizes
from kernel_velocity.problem.problem_formats import SUFFIXES, copies
from kernel_velocity.problem.user_file import in_one_line
from kernel_velocity.runner.checks import check_build
from kernel_velocity.suite import config
from kernel_velocity.units import memory

Pattern = str | Sequence[str] | None  # names or regular expressions, a list or separated by commas. None: all

MEMORY_SHARE = 0.9  # of the free memory that a case may take, since other processes allocate, too
# Beside the output of every implementation (as large as inputs and outputs together at most): the inputs, and the
# reference in higher precision with what computing it takes.
BESIDE_OUTPUTS = 2
INPUT_COPIES = (
    3  # of the inputs of a case whose shapes are known: the inputs, what restores them, what the reference gets
)
_BYTES = {"float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1}  # of an element; else 4


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
            problem as it is (problem/problem_formats.py). "FILE:NAME" where a file has several.
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
    names = problem.implementations_on(device) if problem.kernel is not None else CONTROLS
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
    if name in CONTROLS:
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


# Cases and memory -----------------------------------------------------------------------------------------------------


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


def needed(problem: Problem, test: TestCase, count: int) -> int:
    """Return about how many bytes a case takes with `count` implementations bound to it at once.

    They follow from the problem's footprint, else from the shapes of its inputs and outputs, which are computed without
    values. Where neither is known they follow from the largest dimension alone, a lower bound.
    """
    touched = problem.get_footprint(test)
    if touched is not None:
        return (BESIDE_OUTPUTS + count) * touched
    if (bytes_of := sizes(problem, test)) is not None:
        inputs, outputs = bytes_of
        return INPUT_COPIES * inputs + (BESIDE_OUTPUTS + count) * outputs
    return max(map(int, test["dims"] or (1,))) * _BYTES.get(dtype_of(problem, test["name"]), 4)


def fitting(
    problem: Problem, tests: Sequence[TestCase], count: int, free: int | None
) -> tuple[list[TestCase], list[str]]:
    """Return the cases that fit into `free` bytes of memory, None where these are unknown, and a note on the others.

    Raises:
        UsageError: none fits.
    """
    if free is None:
        return list(tests), []
    bound = int(MEMORY_SHARE * free)
    wanted = {test["name"]: needed(problem, test, count) for test in tests}
    large = {name: size for name, size in wanted.items() if size > bound}
    if not large:
        return list(tests), []
    listed = ", ".join(f"{name} ({memory(size)})" for name, size in large.items())
    if len(large) == len(tests):
        raise UsageError(
            f"{problem.name} with {units.count(count, 'implementation')} needs more memory than the {memory(free)} "
            f"free on {problem.device}: {listed}; select smaller cases (--sizes, --sample) or fewer --implementations"
        )
    note = (
        f"{problem.name}: {len(large)} of {units.count(len(tests), 'case')} left out, too large for the "
        f"{memory(bound)} that a comparison may use: {listed}"
    )
    return [test for test in tests if test["name"] not in large], [note]
