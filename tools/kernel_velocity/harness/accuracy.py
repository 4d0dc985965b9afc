"""How right an output is: figures first, so that a failure says where and by how much. Nothing wrong passes silently.

In a script of your own:

    >>> import torch
    >>> from kernel_velocity.harness.accuracy import accuracy
    >>> expected = torch.tensor([1.0, 2.0, 4.0])
    >>> figures = accuracy(expected, torch.tensor([1.0, 2.0, 4.5]), tolerance="1e-3")
    >>> figures["right"], figures["wrong"], figures["first_wrong_index"]
    (False, 1, (2,))
    >>> figures["max_absolute_error"], figures["max_relative_error"], figures["passes_1e5"]
    (0.5, 0.125, False)
    >>> print(figures["why"])
    1 of 3 elements wrong, the first at (2,): got 4.5, wanted 4
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kernel_velocity.harness import error_sums
from kernel_velocity.harness.error_sums import FloatErrors, IntegerErrors
from kernel_velocity.harness.tolerance import EPSILON, INTEGERS, Tolerance, parse_tolerance, tolerance_of

if TYPE_CHECKING:
    import torch

# What a script needs; the tolerances are `tolerance`'s.
__all__ = [  # noqa: RUF022 - by use
    "accuracy",
    "compare",
    "compare_outputs",
    "verdict",
    "in_words",
    "Figures",
    "Tolerance",
    "parse_tolerance",
    "tolerance_of",
]

Figures = dict[str, Any]

NAMES = (
    *("right", "why", "wrong", "first_wrong", "first_wrong_index", "first_expected", "first_actual", "elements"),
    *("max_error", "max_absolute_error", "mean_absolute_error", "max_relative_error", "mean_relative_error"),
    *("max_ulp_error", "mean_ulp_error", "mean_signed_error", "total_error", "off_by_one"),
    *("nan", "infinite", "missing", "expected_nan", "expected_infinite", "passes_1e5", "rtol", "atol", "tolerance"),
    *("expected_shape", "actual_shape", "expected_dtype", "actual_dtype"),
)
# What a message says besides `why`: where it is not 0.
_SAID = ("nan", "infinite", "missing", "off_by_one", "max_absolute_error", "max_relative_error", "max_ulp_error")


def accuracy(
    expected: torch.Tensor, actual: torch.Tensor, tolerance: str | Tolerance | None = None, *, dtype: str | None = None
) -> Figures:
    """Return how right an output is, for a script of your own; the example is in this module's first lines.

    Args:
        expected: what was wanted, of any shape, on any device. actual: the output, of the same shape.
        tolerance: as `parse_tolerance` reads it ("1e-3", "rtol=1e-5,atol=0", "epsilon"); None: the default of
            the output's dtype (`tolerance_of`).
        dtype: the output's, where `expected` is of another one; see `compare`.

    Returns:
        the figures of `compare`.

    Raises:
        ValueError: the tolerance is not understood, or numbers of this dtype are not compared here.
    """
    allowed = parse_tolerance(tolerance) if isinstance(tolerance, str) else tolerance
    return compare(expected, actual, allowed, dtype=dtype)


def compare(
    expected: torch.Tensor, actual: torch.Tensor, tolerance: Tolerance | None = None, *, dtype: str | None = None
) -> Figures:
    """Return error figures of one output; memory for a block of it is all that this takes.

    Args:
        expected: any shape; floats (float16, bfloat16, float32, float64), integers or booleans. It may lie on
            another device, and either may be strided.
        actual: the output, of the same shape.
        tolerance: what is allowed; None: the default of the output's dtype.
        dtype: the one that the output must have, such as "float32"; None: that of `expected`, or any floating one
            where that is float64: a reference of higher precision.

    Returns:
        every name of NAMES; a figure that has no meaning here is None (all of them where `expected` and
        `actual` differ in kind, shape or dtype; the errors where no element of a wrong output has one).

        right: whether every element is within the tolerance, and nothing is NaN or infinite but what should be.
        why: one line on what is wrong, None where nothing is.
        wrong: number of wrong elements. first_wrong, first_wrong_index: flat index and indices of the first.
        first_expected, first_actual: the two values there. elements: number of elements.
        max_absolute_error, mean_absolute_error: of |actual - expected|, over pairs of finite numbers.
        total_error: the sum of |actual - expected|. mean_signed_error: mean of actual - expected: a bias.
        max_relative_error, mean_relative_error: of |actual - expected| / |expected|; for |expected| below the smallest
            normal number (float64: that of float32; integers: 1) that stands in its place.
        max_ulp_error, mean_ulp_error: of |actual - expected| in units in the last place of the expected value in
            the output's dtype: a result that is correctly rounded has at most .5. None of integers.
        max_error: the largest of what is smaller, absolute or relative error, element by element; of integers the
            largest absolute error. This is what is tracked per commit.
        passes_1e5: whether max_error is at most 1e-5 and no NaN or infinity is unexpected or missing; of integers
            whether all are equal. As published suites say it: each error is within 1e-5, absolutely or relatively.
        nan, infinite: elements that are NaN or infinite and should not be. missing: elements that should be and are
            not. expected_nan, expected_infinite: elements that are, and should be. None of integers.
        off_by_one: integers that differ by exactly 1. None of floats.
        rtol, atol, tolerance: what was allowed, and where that comes from.
        expected_shape, actual_shape, expected_dtype, actual_dtype: tuples, and names such as "float32".

    Raises:
        ValueError: numbers of this dtype are not compared here (complex, for one), or the preset does not know it.
    """
    unlike = _unlike(expected, actual, dtype)
    shapes = {
        "expected_shape": _shape(expected),
        "actual_shape": _shape(actual),
        "expected_dtype": _dtype(expected),
        "actual_dtype": _dtype(actual),
    }
    if unlike is not None:
        return _figures(right=False, why=unlike, **shapes)
    own = _dtype(actual)
    allowed = (tolerance or tolerance_of(own)).resolved(own)
    errors = _errors(expected.detach(), actual.detach(), own, allowed)
    stated = {"rtol": allowed.rtol, "atol": allowed.atol, "tolerance": allowed.source}
    return _figures(**shapes, **stated, **errors.figures(), **_wrong(errors, tuple(actual.shape)))


def compare_outputs(
    expected: object, actual: object, tolerance: Tolerance | None = None, names: Sequence[str] = ()
) -> dict[str, Figures]:
    """Return the figures of every output by its name.

    Args:
        expected, actual: a tensor, or a tuple or list of them. tolerance: of all of them; None: by dtype.
        names: of the outputs, in order; what is not named is "out" if it is the only one, else "out0", "out1" ...

    Returns:
        figures as `compare` returns them; an output that is missing, or too many, is wrong and says so.

    Raises:
        ValueError: as `compare`.
    """
    wanted, got = _several(expected), _several(actual)
    count = max(len(wanted), len(got))
    named = [*names[:count], *(f"out{index}" if count > 1 else "out" for index in range(len(names), count))]
    found: dict[str, Figures] = {}
    for index, name in enumerate(named):
        if index < min(len(wanted), len(got)):
            found[name] = compare(wanted[index], got[index], tolerance)
        else:
            why = f"got {_outputs(len(got))}, wanted {len(wanted)}"
            found[name] = _figures(right=False, why=why)
    return found


def verdict(outputs: Mapping[str, Figures]) -> tuple[bool, Figures]:
    """Return what `Problem.verify_result` returns, for figures of several outputs: whether all are right, and details.

    The details are `why` and `max_error` of all together, and the figures of each under `outputs`.
    """
    wrong = [f"{name}: {figures['why']}" for name, figures in outputs.items() if not figures["right"]]
    errors = [figures["max_error"] for figures in outputs.values()]
    largest = None if None in errors else max(errors, default=0.0)
    details = {"right": not wrong, "why": "; ".join(wrong) or None, "max_error": largest, "outputs": dict(outputs)}
    return not wrong, details


def in_words(details: Mapping[str, Any]) -> str:
    """Return the figures, or what a foreign problem's `verify_result` says, as one line for a message."""
    if "why" not in details:
        return _listed(details, tuple(details))
    said = _listed(details, [name for name in _SAID if details.get(name)])
    allowed = _listed(details, [name for name in ("rtol", "atol") if details.get(name) is not None])
    return "; ".join(text for text in (details["why"] or "right", said, allowed) if text)


def _listed(details: Mapping[str, Any], names: Sequence[str]) -> str:
    values = [(name, details[name]) for name in names]
    return ", ".join(f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in values)


def _figures(**known: Any) -> Figures:
    return dict.fromkeys(NAMES) | known


def _errors(
    expected: torch.Tensor, actual: torch.Tensor, dtype: str, allowed: Tolerance
) -> FloatErrors | IntegerErrors:
    """Sum up the errors of two tensors that are alike."""
    errors: FloatErrors | IntegerErrors
    if dtype in EPSILON:
        errors = FloatErrors(dtype, rtol=allowed.rtol, atol=allowed.atol)
    else:
        errors = IntegerErrors(atol=0.0 if dtype == "bool" else allowed.atol)
    size = error_sums.BLOCK_CPU if str(actual.device) == "cpu" else error_sums.BLOCK_DEVICE
    for offset, wanted, got in error_sums.blocks(expected, actual, size):
        errors.add(offset, wanted if wanted.device == got.device else wanted.to(got.device), got)
    return errors


def _wrong(errors: FloatErrors | IntegerErrors, shape: tuple[int, ...]) -> Figures:
    """Return what is said of wrong elements."""
    found: Figures = {"right": errors.wrong == 0, "wrong": errors.wrong, "elements": errors.elements}
    if errors.first is None:
        return found
    flat, wanted, got = errors.first
    index = _index(flat, shape)
    place = f"the first at {index}: got {_value(got)}, wanted {_value(wanted)}"
    found |= {"first_wrong": flat, "first_wrong_index": index, "first_expected": wanted, "first_actual": got}
    return found | {"why": f"{errors.wrong} of {errors.elements} elements wrong, {place}"}


def _index(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Return the indices of a flat index in a row-major tensor."""
    found = []
    for extent in reversed(shape):
        flat, place = divmod(flat, extent)
        found.append(place)
    return tuple(reversed(found))


def _value(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)  # 9 digits tell every float32 apart


def _unlike(expected: Any, actual: Any, dtype: str | None) -> str | None:
    """Return what keeps two outputs from being compared element by element; None where nothing does.

    Raises:
        ValueError: numbers of this dtype are not compared here.
    """
    if not hasattr(actual, "data_ptr"):
        return f"got {_kind(actual)}, wanted a tensor"
    if not hasattr(expected, "data_ptr"):
        return f"got a tensor, wanted {_kind(expected)}"
    for known in (_dtype(expected), _dtype(actual)):
        if known not in EPSILON and known not in INTEGERS:
            cure = "; compare torch.view_as_real of both" if known.startswith("complex") else ""
            raise ValueError(f"outputs of dtype {known} are not compared here, only {_KNOWN}{cure}")
    if not _is_wanted(_dtype(expected), _dtype(actual), dtype):
        return f"got dtype {_dtype(actual)}, wanted {dtype or _dtype(expected)}"
    if _shape(expected) != _shape(actual):
        return f"got shape {_shape(actual)}, wanted {_shape(expected)}"
    return None


_KNOWN = ", ".join([*EPSILON, *INTEGERS])


def _is_wanted(expected: str, actual: str, dtype: str | None) -> bool:
    """Return whether an output of dtype `actual` is what `dtype` asks for, and can be compared with `expected`."""
    if dtype is not None:
        return actual == dtype and (expected in EPSILON) == (actual in EPSILON)
    return expected == actual or (expected == "float64" and actual in EPSILON)


def _shape(value: Any) -> tuple[int, ...] | None:
    return tuple(value.shape) if hasattr(value, "shape") else None


def _dtype(value: Any) -> str:
    return str(getattr(value, "dtype", _kind(value))).removeprefix("torch.")


def _kind(value: object) -> str:
    return "nothing" if value is None else type(value).__name__


def _several(value: object) -> list[Any]:
    return list(value) if isinstance(value, tuple | list) else [value]


def _outputs(count: int) -> str:
    return "1 output" if count == 1 else f"{count} outputs"
