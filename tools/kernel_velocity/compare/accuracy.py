"""Whether what an implementation wrote is right: every output against the reference in higher precision.

The problem's own `verify_result` decides, unless a tolerance is given; the figures are those of the harness. NaN or
infinity where none is expected is wrong whatever a problem says, and so is another shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernel_velocity.compare.result import Accuracy
from kernel_velocity.harness import accuracy
from kernel_velocity.harness.problem import Problem, outputs_of

# What is said of an output under one tolerance only: not carried over where another judged it.
_JUDGEMENT = (
    *("right", "why", "wrong", "first_wrong", "first_wrong_index", "first_expected", "first_actual"),
    *("rtol", "atol", "tolerance"),
)
_NEVER_RIGHT = ("nan", "infinite", "missing")  # counts of elements


def verify(problem: Problem, expected: Any, actual: Any, tolerance: accuracy.Tolerance | None) -> tuple[Accuracy, ...]:
    """Return how right each output is.

    Args:
        problem: whose `verify_result` decides where no tolerance is given.
        expected: what `problem.expected` returned: a tensor, or several.
        actual: what the implementation wrote.
        tolerance: decides instead.

    Raises:
        ValueError: the harness compares no numbers of that dtype by a tolerance.
    """
    names = problem.output_names()
    try:
        found = accuracy.compare_outputs(expected, actual, tolerance, names)
    except ValueError:
        if tolerance is not None:
            raise
        found = {name: {} for name in names[: len(outputs_of(expected))] or ("out",)}
    if tolerance is None and not any("wrong" in each and each["wrong"] is None for each in found.values()):
        found = _as_the_problem_says(problem, expected, actual, found)
    return tuple(Accuracy(output=name, right=bool(each["right"]), details=each) for name, each in found.items())


def _as_the_problem_says(
    problem: Problem, expected: Any, actual: Any, found: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the figures with the verdict of the problem in place of that of the default tolerances."""
    said, details = problem.verify_result(expected, actual)
    own = {name: dict(details) if len(found) == 1 else _part(details, name) for name in found}
    refused = [name for name in found if own[name].get("right") is False]
    blamed = refused or [name for name, each in found.items() if not each.get("right", True)] or list(found)
    judged = {}
    for name, each in found.items():
        right = (bool(said) or name not in blamed) and not any(each.get(count) for count in _NEVER_RIGHT)
        # A default tolerance's word on what is wrong and where; not where the problem allows more.
        kept = {key: value for key, value in each.items() if key not in _JUDGEMENT or not (right or each["right"])}
        kept |= {key: value for key, value in own[name].items() if value is not None}
        why = kept.get("why") or f"the problem's own check refuses it: {_listed(details)}"
        judged[name] = {**kept, "right": right, "why": None if right else why}
    return judged


def _part(details: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return what a problem's details say of one of several outputs (as `accuracy.verdict` does), {} for nothing."""
    outputs = details.get("outputs")
    part = outputs.get(name) if isinstance(outputs, Mapping) else None
    return dict(part) if isinstance(part, Mapping) else {}


def _listed(details: Mapping[str, Any]) -> str:
    return accuracy.in_words(dict(details)) or "it says no more"


def in_words(found: tuple[Accuracy, ...]) -> str:
    """Return what is wrong with the outputs that are, as one line."""
    return "; ".join(
        f"{each.output} is wrong: {accuracy.in_words(dict(each.details))}" for each in found if not each.right
    )
