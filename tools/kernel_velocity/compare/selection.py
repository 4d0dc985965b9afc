"""Which cases and implementations a comparison takes, and whether a case fits: said before anything is allocated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from kernel_velocity.errors import UsageError
from kernel_velocity.harness.problem import Problem, TestCase
from kernel_velocity.units import memory

Chosen = TypeVar("Chosen")
Pattern = str | Sequence[str] | None  # names or regular expressions, commas between or each its own; None: all

SHARE = 0.9  # of the free memory that a case may take: what is free now need not be in a second
# Beside the output of every implementation (as large as inputs and outputs together at most): the inputs, and the
# reference in higher precision with what computing it takes.
BESIDE = 2
# C types of parameters -> dtype; the rest are what they are called.
_DTYPES = {"float": "float32", "double": "float64", "int": "int32", "int8_t": "int8", "uint8_t": "uint8"}
_DTYPES |= {"int32_t": "int32", "int64_t": "int64"}
_BYTES = {"float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1}  # of an element; else 4


def said_dtype(case: str) -> str | None:
    """Return the dtype that a case's name begins with, None where it begins with none: it may be called anything."""
    match = re.match(r"(b?float\d+|u?int\d+|tf32)-", case)
    return None if match is None else match.group(1)


def dtype_of(problem: Problem, case: str) -> str:
    """Return the dtype of a case: what its name begins with (`float32-5M`), else that of the first tensor."""
    said = said_dtype(case)
    if said is not None:
        return said
    pointers = [str(parameter["type"]) for parameter in problem.parameters if parameter["pointer"]]
    found = pointers[0] if pointers else "float"
    return _DTYPES.get(found, found)


def cases(problem: Problem, pattern: Pattern, dtype: str | None) -> list[TestCase]:
    """Return the test cases whose name matches, of that dtype; all where nothing is asked for.

    Raises:
        UsageError: none does, or `pattern` is no regular expression.
    """
    return cases_of([problem], pattern, dtype)[0]


def cases_of(problems: Sequence[Problem], pattern: Pattern, dtype: str | None) -> list[list[TestCase]]:
    """Return the test cases of each problem, as `cases`; what matches in one of them need not match in another.

    Raises:
        UsageError: a part of the pattern matches in none, or `pattern` is no regular expression.
    """
    tests = [problem.generate_test_cases() for problem in problems]
    dtypes = [
        {test["name"]: dtype_of(problem, test["name"]) for test in of}
        for problem, of in zip(problems, tests, strict=True)
    ]
    names = list(dict.fromkeys(name for of in dtypes for name, its in of.items() if dtype in (None, its)))
    where = f"{' and '.join(problem.name for problem in problems)} on {problems[0].device}"
    if dtype is not None and not names:
        there = ", ".join(sorted({its for of in dtypes for its in of.values()}))
        raise UsageError(f"--dtype {dtype}: {where}: no case of that dtype; of {there}")
    wanted = set(matching("--sizes", pattern, names, where))
    return [
        [test for test in of if test["name"] in wanted and dtype in (None, its[test["name"]])]
        for of, its in zip(tests, dtypes, strict=True)
    ]


def implementations(found: Mapping[str, Chosen], pattern: str | None, problem: str) -> dict[str, Chosen]:
    """Return the implementations whose name matches; all where nothing is asked for.

    Raises:
        UsageError: none does, or `pattern` is no regular expression.
    """
    return {name: found[name] for name in matching("--implementations", pattern, list(found), problem)}


def matching(option: str, pattern: Pattern, names: Sequence[str], where: str) -> list[str]:
    """Return the names that `pattern` means: names or regular expressions, commas between them; None means all.

    A name that is there means itself alone, commas in it or not; what is no name is searched for.

    Raises:
        UsageError: a part that matches nothing, or is no regular expression.
    """
    if pattern is None:
        return list(names)
    if isinstance(pattern, str):  # a comma separates, but not that of x{1,2}
        pattern = [pattern] if pattern in names else re.split(r",(?![^{]*})", pattern)
    found: set[str] = set()
    for part in pattern:
        matched = [part] if part in names else _searched(option, part, names)
        if not matched:
            raise UsageError(f"{option} {part!r}: nothing of {where} matches; there are {', '.join(names)}")
        found.update(matched)
    return [name for name in names if name in found]


def _searched(option: str, part: str, names: Iterable[str]) -> list[str]:
    try:
        return [name for name in names if part and re.search(part, name)]
    except re.error as error:
        raise UsageError(f"{option} {part!r}: neither a name nor a regular expression ({error})") from None


def needed(problem: Problem, test: TestCase, count: int) -> int:
    """Return the bytes that a case takes, about, with `count` implementations bound to it at once.

    From what the problem says it touches, which is its inputs and outputs. Of a problem that does not say, from its
    largest dimension alone: so much it takes at least.
    """
    touched = problem.get_footprint(test)
    if touched is not None:
        return (BESIDE + count) * touched
    # Of (m, n, k) no tensor need have more than one dimension: no more than the largest is certain.
    return max(test["dims"] or (1,)) * _BYTES.get(dtype_of(problem, test["name"]), 4)


def check_fits(problem: Problem, test: TestCase, count: int, free: int | None) -> None:
    """Refuse a case that does not fit into the free memory (bytes; None: not known, then nothing is refused).

    Raises:
        UsageError: it does not.
    """
    wanted = needed(problem, test, count)
    if free is not None and wanted > SHARE * free:
        raise UsageError(
            f"{problem.name} {test['name']}: needs about {memory(wanted)} for {count} implementations, "
            f"{memory(free)} are free on {problem.device}; take smaller cases (--sizes) or fewer --implementations"
        )
