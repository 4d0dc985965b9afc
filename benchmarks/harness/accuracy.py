"""Comparing an output with what was expected: figures first, so that a failure says by how much."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def compare_floats(expected: torch.Tensor, actual: torch.Tensor, *, rtol: float, atol: float) -> dict[str, Any]:
    """Return error figures of `actual` against `expected`, both of any shape and floating dtype.

    An element is wrong when |actual - expected| > atol + rtol |expected|, or when one is NaN and the other is not.
    Infinities must agree in place and sign.

    Returns:
        wrong (count), first_wrong (flat index or None), max_absolute_error, max_relative_error, elements, and the
        two tolerances; or shape figures alone where the shapes differ.
    """
    if expected.shape != actual.shape:
        return {"wrong": None, "expected_shape": tuple(expected.shape), "actual_shape": tuple(actual.shape)}
    wanted, got = expected.flatten().double(), actual.flatten().double()
    error = (got - wanted).abs()
    error[(got == wanted) | (got.isnan() & wanted.isnan())] = 0.0  # inf - inf is NaN; equal is right
    wrong = ~(error <= atol + rtol * wanted.abs().nan_to_num(posinf=0.0))
    finite = error.isfinite()
    relative = error[finite] / wanted[finite].abs().clamp_min(2.0**-126)  # the smallest normal float32
    return {
        "wrong": int(wrong.sum()),
        "first_wrong": int(wrong.nonzero()[0, 0]) if bool(wrong.any()) else None,
        "max_absolute_error": float(error[finite].max()) if bool(finite.any()) else 0.0,
        "max_relative_error": float(relative.max()) if bool(finite.any()) else 0.0,
        "nan": int((got.isnan() & ~wanted.isnan()).sum()),
        "elements": wanted.numel(),
        "rtol": rtol,
        "atol": atol,
    }


def compare_integers(expected: torch.Tensor, actual: torch.Tensor) -> dict[str, Any]:
    """Return figures of an integer output that must be equal: wrong, off_by_one (counts), first_wrong, elements."""
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        return {
            "wrong": None,
            "expected_shape": tuple(expected.shape),
            "actual_shape": tuple(actual.shape),
            "expected_dtype": str(expected.dtype),
            "actual_dtype": str(actual.dtype),
        }
    difference = (actual.flatten().int() - expected.flatten().int()).abs()
    wrong = difference != 0
    return {
        "wrong": int(wrong.sum()),
        "off_by_one": int((difference == 1).sum()),
        "first_wrong": int(wrong.nonzero()[0, 0]) if bool(wrong.any()) else None,
        "elements": difference.numel(),
    }


def in_words(details: dict[str, Any]) -> str:
    """Return the figures as one line for a message."""
    return ", ".join(
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in details.items()
    )
