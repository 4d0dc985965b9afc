"""Compare every output of an implementation with the reference in higher precision.

The problem's own `verify_result` decides, unless a tolerance is given. The figures are those of the harness. NaN or
infinity where none is expected is always wrong, and so is another shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_velocity.compare.result import Accuracy
from kernel_velocity.harness import accuracy
from kernel_velocity.harness.problem import Problem, outputs_of

# The verdict under one tolerance: it does not hold where something else judged the output.
_VERDICT = (
    *("right", "why", "wrong", "first_wrong", "first_wrong_index", "first_expected", "first_actual"),
    *("rtol", "atol", "tolerance"),
)
_NEVER_RIGHT = ("nan", "infinite", "missing")  # counts of elements


def verify(problem: Problem, expected: Any, actual: Any, tolerance: accuracy.Tolerance | None) -> tuple[Accuracy, ...]:
    """Return how right each output is.

    Args:
        problem: its `verify_result` decides where no tolerance is given.
        expected: what `problem.expected` returned: a tensor, or several.
        actual: what the implementation wrote.
        tolerance: decides instead.

    Raises:
        ValueError: the harness compares no numbers of that dtype by a tolerance.
    """
    names = problem.output_names()
    figures: Mapping[str, Mapping[str, Any]]
    try:
        figures = accuracy.compare_outputs(expected, actual, tolerance, names)
    except ValueError:
        if tolerance is not None:
            raise
        figures = {name: {} for name in names[: len(outputs_of(expected))] or ("out",)}
    if tolerance is None and not any(output.get("wrong", 0) is None for output in figures.values()):
        figures = _as_the_problem_says(problem, expected, actual, figures)
    return tuple(Accuracy(output=name, right=bool(output["right"]), details=output) for name, output in figures.items())


def _as_the_problem_says(
    problem: Problem, expected: Any, actual: Any, figures: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the figures with the verdict of the problem in place of that of the default tolerances."""
    right, details = problem.verify_result(expected, actual)
    stated = {name: details if len(figures) == 1 else _part(details, name) for name in figures}
    refused = [name for name in figures if stated[name].get("right") is False]
    blamed = refused or [name for name in figures if not figures[name].get("right", True)] or list(figures)
    judged = {}
    for name, output in figures.items():
        accepted = (bool(right) or name not in blamed) and not any(output.get(count) for count in _NEVER_RIGHT)
        # The default tolerance's verdict says what is wrong and where, unless the problem allows more.
        agrees = not accepted and not output.get("right", True)
        merged = {key: value for key, value in output.items() if agrees or key not in _VERDICT}
        merged |= {key: value for key, value in stated[name].items() if value is not None}
        summary = accuracy.in_words(dict(details)) or "no reason given"
        why = merged.get("why") or f"the problem's own check rejects it: {summary}"
        judged[name] = {**merged, "right": accepted, "why": None if accepted else why}
    return judged


def _part(details: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a problem's details on one of several outputs (in the form of `accuracy.verdict`), {} for none."""
    outputs = details.get("outputs")
    part = outputs.get(name) if isinstance(outputs, Mapping) else None
    return part if isinstance(part, Mapping) else {}


def in_words(verified: tuple[Accuracy, ...]) -> str:
    """Return what is wrong with the outputs that are wrong, as one line."""
    wrong = (output for output in verified if not output.right)
    return "; ".join(f"{output.output} is wrong: {accuracy.in_words(dict(output.details))}" for output in wrong)
