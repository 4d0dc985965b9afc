"""What the methods of a user's Problem return, looked at before it is used: each answer as we need it, or one line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, cast

from kernel_velocity.errors import UsageError
from kernel_velocity.harness.problem import TestCase, Verdict

KEYS = ("name", "dims", "create_inputs")  # of a test case
PARAMETER = {"name": str, "type": str, "pointer": object, "const": object}


def parameters(path: Path, found: Any) -> None:
    """Check the `parameters` of a class.

    Raises:
        UsageError: it is no list of {"name", "type", "pointer", "const"}.
    """
    wanted = 'wanted a list of {"name": "x", "type": "float", "pointer": True, "const": True}'
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise UsageError(f"{path}: parameters is {_kind(found)}, {wanted}")
    for each in found:
        lacking = [name for name in PARAMETER if name not in each] if isinstance(each, Mapping) else list(PARAMETER)
        if lacking:
            raise UsageError(f"{path}: {short(each)} in parameters lacks {', '.join(lacking)}; {wanted}")
        for name, kind in PARAMETER.items():
            if not isinstance(each[name], kind):
                raise UsageError(f"{path}: the {name} of {short(each)} in parameters is {_kind(each[name])}; {wanted}")


def cases(path: Path, found: Any) -> list[TestCase]:
    """Return test cases, their dims as tuples.

    Raises:
        UsageError: no list, a case that lacks something or has it of the wrong kind.
    """
    if not isinstance(found, Sequence) or isinstance(found, str):
        raise UsageError(f"{path}: generate_test_cases returned {_kind(found)}, wanted a list")
    return [case(path, each) for each in found]


def case(path: Path, found: Any) -> TestCase:
    """Return a test case, its dims as a tuple.

    Raises:
        UsageError: it lacks something, or has it of the wrong kind.
    """
    lacking = [key for key in KEYS if key not in found] if isinstance(found, Mapping) else list(KEYS)
    if lacking:
        raise UsageError(f"{path}: a test case lacks {', '.join(lacking)}: {short(found)}")
    name, dims = found["name"], found["dims"]
    if not isinstance(name, str) or not name.strip():
        raise UsageError(f'{path}: the name of a test case is {short(name)}, wanted text such as "1024x1024"')
    if not isinstance(dims, Sequence) or not all(_is_number(each) for each in dims):
        raise UsageError(
            f"{path}: case {name!r}: dims is {short(dims)}, wanted a tuple of numbers such as (1024, 1024)"
        )
    if not callable(found["create_inputs"]):
        got = _kind(found["create_inputs"])
        raise UsageError(f"{path}: case {name!r}: create_inputs is {got}, wanted a function of no arguments")
    return cast(TestCase, {**found, "dims": tuple(dims)})


def amount(where: str, found: Any) -> int | None:
    """Return FLOPs or bytes as a whole number; None: the problem does not say.

    Raises:
        UsageError: no number, or one that cannot be an amount; the message begins with `where`.
    """
    if found is not None and (not _is_number(found) or found < 0):
        raise UsageError(f"{where} returned {short(found)}, wanted a number >= 0, or None where it is not known")
    return None if found is None else round(found)


def verdict(where: str, found: Any) -> Verdict:
    """Return what `verify_result` returned.

    Raises:
        UsageError: it is no (bool, dict).
    """
    wanted = 'wanted (True, {}) or (False, {"what": "is wrong"})'
    if not isinstance(found, Sequence) or isinstance(found, str) or len(found) != 2:
        raise UsageError(f"{where} returned {short(found)}, {wanted}")
    right, details = found
    if not isinstance(details, Mapping):
        raise UsageError(f"{where} returned {_kind(details)} for details, {wanted}")
    try:
        return bool(right), {str(key): value for key, value in details.items()}
    except (ValueError, RuntimeError):  # an array of several
        raise UsageError(f"{where} returned {_kind(right)} of several elements for a verdict, {wanted}") from None


def outputs(where: str, found: Any) -> Any:
    """Return what a reference returned: a tensor, or several in a tuple.

    Raises:
        UsageError: it is something else.
    """
    several = found if isinstance(found, tuple | list) else (found,)
    odd = [each for each in several if not hasattr(each, "data_ptr")]
    if odd or not several:
        got = f"{_kind(odd[0])} among its outputs" if odd and several is found else _kind(found)
        raise UsageError(f"{where} returned {got}, wanted a tensor, or a tuple of tensors")
    return found


def listed(where: str, found: Any) -> list[Any]:
    """Return a list or tuple as a list.

    Raises:
        UsageError: it is something else.
    """
    if not isinstance(found, list | tuple):
        raise UsageError(f"{where} returned {_kind(found)}, wanted a list")
    return list(found)


def signature(where: str, found: Any) -> dict[str, Any]:
    """Return what `get_function_signature` returned.

    Raises:
        UsageError: it has no list of argtypes.
    """
    if not isinstance(found, Mapping) or not isinstance(found.get("argtypes"), list | tuple):
        raise UsageError(f'{where} returned {short(found)}, wanted {{"argtypes": [...], "restype": None}}')
    return dict(found)


def short(value: Any) -> str:
    """Return a value as text of one line, cut off where it is long."""
    return " ".join(repr(value).split())[:80]


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
