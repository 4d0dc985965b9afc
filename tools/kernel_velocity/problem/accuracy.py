"""Compare outputs with expected values: error figures, tolerances, and where the first wrong value lies.

In a script of your own:

    >>> import torch
    >>> from kernel_velocity.problem.accuracy import accuracy
    >>> expected = torch.tensor([1.0, 2.0, 4.0])
    >>> figures = accuracy(expected, torch.tensor([1.0, 2.0, 4.5]), tolerance="1e-3")
    >>> figures["right"], figures["wrong"], figures["first_wrong_index"]
    (False, 1, (2,))
    >>> figures["max_absolute_error"], figures["max_relative_error"], figures["passes_1e5"]
    (0.5, 0.125, False)
    >>> print(figures["why"])
    1 of 3 elements wrong, the first at (2,): got 4.5, wanted 4

Errors are summed up block by block, in float64 (integers: int64), on whatever device the output lies: no temporary is
larger than a block.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kernel_velocity.names import INTEGERS
from kernel_velocity.problem.problem import leaves

if TYPE_CHECKING:
    import torch

Figures = dict[str, Any]

# dtype -> significant bits, least exponent of a normal number (IEEE 754 and the definition of bfloat16).
FORMATS: Mapping[str, tuple[int, int]] = {
    "float16": (11, -14),
    "bfloat16": (8, -126),
    "float32": (24, -126),
    "float64": (53, -1022),
}
EPSILON: Mapping[str, float] = {dtype: 2.0 ** (1 - bits) for dtype, (bits, _) in FORMATS.items()}  # from 1 to the next
_COMPARABLE = ", ".join([*FORMATS, *INTEGERS])

# Tolerances -----------------------------------------------------------------------------------------------------------

# 1e-5 and 1e-7 are what published suites of kernels allow, and the absolute tolerances of torch.testing.assert_close.
# Two epsilon: a result and one intermediate that are rounded once err by half of one each; the rest is reserve.
_DEFAULTS: Mapping[str, tuple[float, str]] = {
    "float16": (2 * EPSILON["float16"], "default of float16: 2 machine epsilon"),
    "bfloat16": (2 * EPSILON["bfloat16"], "default of bfloat16: 2 machine epsilon"),
    "float32": (1e-5, "default of float32: 1e-5, as published suites"),
    "float64": (1e-7, "default of float64: 1e-7, as published suites"),
}
_WANTED = "wanted a number (1e-3), rtol=1e-3,atol=1e-5,norm=1e-4, or epsilon"
EPSILONS = 1e3  # of `--tolerance epsilon`: ComPPare's default, an absolute error. Lax in float16, where it is .98


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """What an output may differ by: each element, and where `norm` is stated all of them together.

    A float is right when |actual - expected| <= atol + rtol |expected|, or by `by_larger` when it is at most the larger
    of atol and rtol |expected|. An integer when |actual - expected| <= atol. Of
    booleans none may differ, whatever the tolerance is. Floats are right together when the 2-norm of their errors is at
    most `norm` times that of the expected values. So where all are far below `atol`, zeros are wrong.

    Attributes:
        rtol: relative tolerance, a fraction. Of integers it means nothing.
        atol: absolute tolerance, in the output's own unit.
        norm: of the errors over that of the expected values, a fraction. None: it is not judged. Of integers it means
            nothing.
        source: where the figures come from, one line for a person.
        epsilons: atol of a float, in machine epsilon of its dtype. 0: it is as above.
        by_larger: whether the larger of both is allowed, as FlashInfer-Bench does, and not their sum.

    Raises:
        ValueError: a figure is negative, NaN or infinite.
    """

    rtol: float
    atol: float
    norm: float | None = None
    source: str
    epsilons: float = 0.0
    by_larger: bool = False

    def __post_init__(self) -> None:
        figures = {"rtol": self.rtol, "atol": self.atol, "norm": self.norm or 0.0, "epsilons": self.epsilons}
        for name, value in figures.items():
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"tolerance: {name} is {value!r}; a finite number of at least 0 is wanted")

    def __str__(self) -> str:
        """Return it as `parse_tolerance` reads it."""
        if self.epsilons:
            return "epsilon"
        norm = "" if self.norm is None else f",norm={self.norm!r}"
        return f"rtol={self.rtol!r},atol={self.atol!r}{norm}"

    def of(self, dtype: str) -> Tolerance:
        """Return what an output of a dtype may differ by."""
        if not self.epsilons or dtype not in EPSILON:
            return self
        return replace(self, atol=self.epsilons * EPSILON[dtype], epsilons=0.0)


def tolerance_of(dtype: str, length: int = 1) -> Tolerance:
    """Return what an output of a dtype may differ by where nothing is stated.

    1e-5 for float32, 1e-7 for float64, two machine epsilon for float16 and bfloat16, relative and absolute alike.
    Integers, booleans: 0.

    The norm of the errors may be as large a part of that of the expected values, and sqrt(length) u more: a sum of n
    terms errs by at most about sqrt(n) u sum|x_i| with high probability (Higham and Mary, A New Approach to
    Probabilistic Rounding Error Analysis, SIAM J. Sci. Comput. 41(5), 2019). u = 2^-24, of float64 2^-53: narrower
    types are summed up in float32.

    Args:
        dtype: "float32" or "torch.float32", and so on.
        length: terms of the longest sum that the result of one element, or an upper bound of it.

    Raises:
        ValueError: the dtype is not known.
    """
    name = dtype.removeprefix("torch.")
    if name in INTEGERS:
        return Tolerance(rtol=0.0, atol=0.0, source=f"default of {name}: exact")
    if name not in _DEFAULTS:
        raise ValueError(f"tolerance: none is known for dtype {name}; there are {_COMPARABLE}")
    allowed, source = _DEFAULTS[name]
    unit = EPSILON["float64" if name == "float64" else "float32"] / 2
    norm = allowed + math.sqrt(length) * unit
    return Tolerance(rtol=allowed, atol=allowed, norm=norm, source=source)


def parse_tolerance(text: str) -> Tolerance:
    """Return the tolerance that a user wrote.

    Args:
        text: a number ("1e-3") for both figures: an integer output may then differ by so many ("1": off by one is
            allowed). "rtol=1e-3,atol=1e-5", what is left out being 0. With ",norm=1e-4" the norm of the errors is
            judged, too. "epsilon": an absolute error of EPSILONS machine epsilon of the output's dtype, of integers 0.

    Raises:
        ValueError: one line with what was wrong and what is wanted.
    """
    stated = text.strip()
    if stated == "epsilon":
        source = f"an absolute error of {EPSILONS:g} machine epsilon, integers exact"
        return Tolerance(rtol=0.0, atol=0.0, epsilons=EPSILONS, source=source)
    parts = stated.split(",") if "=" in stated else [f"rtol={stated}", f"atol={stated}"]
    figures: dict[str, float] = {}
    for part in parts:
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name not in ("rtol", "atol", "norm") or name in figures:
            raise ValueError(f"tolerance {text!r}: {part.strip()!r} is not understood; {_WANTED}")
        try:
            figures[name] = float(value)
        except ValueError:
            raise ValueError(f"tolerance {text!r}: {value!r} is not a number; {_WANTED}") from None
        if not (math.isfinite(figures[name]) and figures[name] >= 0):
            raise ValueError(f"tolerance {text!r}: {value} is not a finite number of at least 0; {_WANTED}")
    rtol, atol = (figures.get(name, 0.0) for name in ("rtol", "atol"))
    return Tolerance(rtol=rtol, atol=atol, norm=figures.get("norm"), source="as given")


# Figures --------------------------------------------------------------------------------------------------------------

NAMES = (
    *("right", "why", "wrong", "first_wrong", "first_wrong_index", "first_expected", "first_actual", "elements"),
    *("max_error", "max_absolute_error", "mean_absolute_error", "max_relative_error", "max_ulp_error"),
    *("total_error", "norm_error", "off_by_one", "nan", "infinite", "missing", "passes_1e5"),
    *("rtol", "atol", "norm", "tolerance", "rule"),
    *("expected_shape", "actual_shape", "expected_dtype", "actual_dtype"),
)
# What a message has besides `why`, where it is not 0.
_IN_MESSAGES = (
    *("nan", "infinite", "missing", "off_by_one"),
    *("max_absolute_error", "max_relative_error", "max_ulp_error", "norm_error"),
)
DEFAULT = "default of"  # begins the source of a default tolerance
CURE = "allow more by `tolerance=` in the definition"


def compare(
    expected: torch.Tensor,
    actual: torch.Tensor,
    tolerance: str | Tolerance | None = None,
    *,
    dtype: str | None = None,
    length: int = 1,
    by_row: bool = False,
) -> Figures:
    """Return error figures of one output. Memory for a block of it is all that this takes.

    Args:
        expected: any shape. Floats (float16, bfloat16, float32, float64), integers or booleans. It may lie on
            another device, and either may be strided.
        actual: the output, of the same shape.
        tolerance: what is allowed, also as `parse_tolerance` reads it ("1e-3", "epsilon"). None: the default
            of the output's dtype.
        dtype: the one that the output must have, such as "float32". None: that of `expected`, or any floating one
            where that is float64: a reference of higher precision.
        length: terms of the longest sum behind an element (`tolerance_of`), where no tolerance is given.
        by_row: whether the norm of the errors is judged in every row, too: in a part of one index of the first
            dimension. A row may err by a machine epsilon of an average row beyond that: one of nothing but rounding
            errors, or of zeros, has no norm to compare with.

    Returns:
        every name of NAMES. A figure that has no meaning here is None (all of them where `expected` and
        `actual` differ in kind, shape or dtype, the errors where no element of a wrong output has one).

        right: whether every element is within the tolerance, and nothing is NaN or infinite but what should be.
        why: one line on what is wrong, None where nothing is.
        wrong: number of wrong elements. first_wrong, first_wrong_index: flat index and indices of the first.
        first_expected, first_actual: the two values there. elements: number of elements.
        max_absolute_error, mean_absolute_error: of |actual - expected|, over pairs of finite numbers.
        total_error: the sum of |actual - expected|.
        norm_error: the 2-norm of actual - expected over that of expected. None of integers, and of errors where all
            expected values are 0.
        max_relative_error: of |actual - expected| / |expected|. For |expected| below the smallest normal number
            (float64: that of float32, integers: 1) that stands in its place.
        max_ulp_error: of |actual - expected| in units in the last place of the expected value in the output's dtype: a
            result that is correctly rounded has at most .5. None of integers.
        max_error: the largest of what is smaller, absolute or relative error, element by element. Of integers the
            largest absolute error. This is what is tracked per commit.
        passes_1e5: whether max_error is at most 1e-5 and no NaN or infinity is unexpected or missing. Of integers
            whether all are equal. As published suites have it: each error is within 1e-5, absolutely or relatively.
        nan, infinite: elements that are NaN or infinite and should not be. missing: elements that should be and are
            not. None of integers.
        off_by_one: integers that differ by exactly 1. None of floats.
        rtol, atol, norm, tolerance: what was allowed, and where that comes from.
        rule: which decided that it is wrong: "element", "norm" or "row norm". None where nothing is wrong.
        expected_shape, actual_shape, expected_dtype, actual_dtype: tuples, and names such as "float32".

    Raises:
        ValueError: the tolerance is not understood, or numbers of this dtype are not compared here (complex, for one).
    """
    allowed = parse_tolerance(tolerance) if isinstance(tolerance, str) else tolerance
    unlike = _unlike(expected, actual, dtype)
    figures = dict.fromkeys(NAMES) | {
        "expected_shape": _shape(expected),
        "actual_shape": _shape(actual),
        "expected_dtype": _dtype(expected),
        "actual_dtype": _dtype(actual),
    }
    if unlike is not None:
        return figures | {"right": False, "why": unlike}
    name = _dtype(actual)
    allowed = allowed.of(name) if allowed else tolerance_of(name, length)
    errors: FloatErrors | IntegerErrors
    has_rows = by_row and allowed.norm is not None and name in FORMATS and actual.ndim > 1 and actual.numel() > 0
    row = actual[0].numel() if has_rows else 0
    if name in FORMATS:
        errors = FloatErrors(name, allowed, row)
    else:
        errors = IntegerErrors(atol=0.0 if name == "bool" else allowed.atol)
    size = BLOCK_CPU if str(actual.device) == "cpu" else BLOCK_DEVICE
    for offset, wanted, got in _blocks_of_rows(expected.detach(), actual.detach(), size, row):
        errors.add(offset, wanted if wanted.device == got.device else wanted.to(got.device), got)
    figures |= {"rtol": allowed.rtol, "atol": allowed.atol, "norm": allowed.norm, "tolerance": allowed.source}
    return figures | errors.figures() | _wrong(errors, tuple(actual.shape))


accuracy = compare  # its name in scripts


def compare_outputs(
    expected: object,
    actual: object,
    tolerance: Tolerance | None = None,
    names: Sequence[str] = (),
    *,
    length: int = 1,
    by_row: bool = False,
) -> dict[str, Figures]:
    """Return the figures of every output by its name.

    Args:
        expected, actual: a tensor, or what has such `leaves`. tolerance: of all of them. None: by dtype.
        length, by_row: as `compare` takes them.
        names: of the outputs, in order. Without one, "out" if it is the only output, else "out0", "out1" ...

    Returns:
        figures as `compare` returns them. An output that is missing, or too many, is wrong and says so.

    Raises:
        ValueError: as `compare`.
    """
    wanted, got = leaves(expected), leaves(actual)
    count = max(len(wanted), len(got))
    names = [*names[:count], *(f"out{index}" if count > 1 else "out" for index in range(len(names), count))]
    why = f"got {'1 output' if len(got) == 1 else f'{len(got)} outputs'}, wanted {len(wanted)}"
    absent = dict.fromkeys(NAMES) | {"right": False, "why": why}
    both = min(len(wanted), len(got))
    compared = [compare(wanted[index], got[index], tolerance, length=length, by_row=by_row) for index in range(both)]
    return dict(zip(names, [*compared, *(dict(absent) for _ in range(count - both))], strict=True))


def is_within_norm(figures: Mapping[str, Any], length: int, rtol: float = 0.0) -> bool | None:
    """Return whether the norm of an output's errors is at most what the default tolerance allows, or `rtol`.

    None where it has none: integers, errors of an output of zeros, outputs of unlike kinds.
    """
    error, dtype = figures.get("norm_error"), str(figures.get("actual_dtype"))
    norm = tolerance_of(dtype, length).norm if error is not None and dtype in FORMATS else None
    return None if error is None or norm is None else error <= max(norm, rtol)


def stated_rtol(details: Mapping[str, Any]) -> float:
    """Return the largest relative tolerance that details of a verdict name, 0 where they name none."""
    outputs = details.get("outputs")
    parts = outputs.values() if isinstance(outputs, Mapping) else (details,)
    return max((part["rtol"] for part in parts if isinstance(part.get("rtol"), int | float)), default=0.0)


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
    """Return the figures, or the details of a foreign problem's `verify_result`, as one line for a message."""
    if "why" not in details:
        return _listed(details, tuple(details))
    errors = _listed(details, [name for name in _IN_MESSAGES if details.get(name)])
    rule, source = details.get("rule"), str(details.get("tolerance"))
    names = ("rtol", "atol") if rule in (None, "element") else ("norm",)
    allowed = _listed(details, [name for name in names if details.get(name) is not None])
    by = f"the {rule} rule allows {allowed} ({source})" if rule and allowed else allowed
    cure = CURE if rule and source.startswith(DEFAULT) else ""
    return "; ".join(text for text in (details["why"] or "right", errors, by, cure) if text)


def _listed(details: Mapping[str, Any], names: Sequence[str]) -> str:
    values = [(name, details[name]) for name in names]
    return ", ".join(f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in values)


def _wrong(errors: FloatErrors | IntegerErrors, shape: tuple[int, ...]) -> Figures:
    """Return the figures of wrong elements."""
    figures: Figures = {"right": errors.wrong == 0, "wrong": errors.wrong, "elements": errors.elements}
    if errors.first is None:
        rule, why = errors.wrong_together()
        return figures if rule is None else figures | {"right": False, "rule": rule, "why": why}
    flat, wanted, got = errors.first
    index, rest = [], flat  # row-major
    for extent in reversed(shape):
        rest, position = divmod(rest, extent)
        index.append(position)
    where = tuple(reversed(index))
    # 9 digits tell every float32 apart
    texts = [f"{value:.9g}" if isinstance(value, float) else str(value) for value in (got, wanted)]
    return figures | {
        "first_wrong": flat,
        "first_wrong_index": where,
        "first_expected": wanted,
        "first_actual": got,
        "rule": "element",
        "why": f"{errors.wrong} of {errors.elements} elements wrong, the first at {where}: "
        f"got {texts[0]}, wanted {texts[1]}",
    }


def _unlike(expected: Any, actual: Any, dtype: str | None) -> str | None:
    """Return what keeps two outputs from being compared element by element. None where nothing does.

    Raises:
        ValueError: numbers of this dtype are not compared here.
    """
    if not hasattr(actual, "data_ptr"):
        return f"got {_kind(actual)}, wanted a tensor"
    if not hasattr(expected, "data_ptr"):
        return f"got a tensor, wanted {_kind(expected)}"
    wanted, got = _dtype(expected), _dtype(actual)
    for name in (wanted, got):
        if name not in FORMATS and name not in INTEGERS:
            cure = "; compare torch.view_as_real of both" if name.startswith("complex") else ""
            raise ValueError(f"outputs of dtype {name} are not compared here, only {_COMPARABLE}{cure}")
    if dtype is not None:
        is_wanted = got == dtype and (wanted in FORMATS) == (got in FORMATS)
    else:
        is_wanted = wanted == got or (wanted == "float64" and got in FORMATS)
    if not is_wanted:
        return f"got dtype {got}, wanted {dtype or wanted}"
    if _shape(expected) != _shape(actual):
        return f"got shape {_shape(actual)}, wanted {_shape(expected)}"
    return None


def _shape(value: Any) -> tuple[int, ...] | None:
    return tuple(value.shape) if hasattr(value, "shape") else None


def _dtype(value: Any) -> str:
    return str(getattr(value, "dtype", _kind(value))).removeprefix("torch.")


def _kind(value: object) -> str:
    return "nothing" if value is None else type(value).__name__


# Errors, block by block -----------------------------------------------------------------------------------------------

# Elements that are compared at once. CPU: the few buffers of float64 stay in a cache; 10M floats took .22, .20, .17 and
# .15 s with blocks of 2^14 to 2^17 on a busy machine. Elsewhere each step is a launch, and a block of 32 MB keeps a
# GPU busy for longer than a launch takes.
BLOCK_CPU = 1 << 16
BLOCK_DEVICE = 1 << 22
_EXPONENT = 0x7FF0_0000_0000_0000  # the bits of a float64 that hold its exponent
_LARGEST = 2**63 - 1


def blocks(
    expected: torch.Tensor, actual: torch.Tensor, size: int, first: int = 0
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Yield two tensors of one shape in blocks: flat index of the first element, and both blocks, 1-D, row-major.

    Strided tensors are copied a block at a time, never as a whole. An empty one has no block. `first` is the flat index
    of the first element.
    """
    if expected.is_contiguous() and actual.is_contiguous():
        expected, actual = expected.view(-1), actual.view(-1)
    count = expected.numel()
    if count <= size:
        if count:
            yield first, expected.flatten(), actual.flatten()
        return
    row = count // expected.shape[0]
    if row > size:
        for index in range(expected.shape[0]):
            yield from blocks(expected[index], actual[index], size, first + index * row)
        return
    step = size // row
    for begin in range(0, expected.shape[0], step):
        end = begin + step
        yield first + begin * row, expected[begin:end].flatten(), actual[begin:end].flatten()


def _blocks_of_rows(
    expected: torch.Tensor, actual: torch.Tensor, size: int, row: int
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Yield `blocks` of whole rows of `row` elements, or parts of one row. 0: any."""
    if row <= size:
        yield from blocks(expected, actual, size // row * row if row else size)
        return
    for index in range(expected.shape[0]):
        yield from blocks(expected[index], actual[index], size, index * row)


class _Errors:
    """Sums, maxima, counts, and the first wrong element. `kinds` of errors are summed up."""

    def __init__(self, *kinds: str) -> None:
        self.elements = 0
        self.wrong = 0
        self.first: tuple[int, Any, Any] | None = None  # flat index, wanted, got
        self._largest = dict.fromkeys(("error", *kinds), 0.0)
        self._total = 0.0  # of absolute errors

    def _count(self, mask: torch.Tensor, offset: int, wanted: torch.Tensor, got: torch.Tensor) -> None:
        """Count the wrong elements of a block. `mask` is True where one is."""
        if not bool(mask.any()):
            return
        self.wrong += int(mask.sum())
        if self.first is None:
            index = int(mask.nonzero()[0, 0])
            self.first = (offset + index, wanted[index].item(), got[index].item())

    def _grow(self, kind: str, errors: torch.Tensor) -> None:
        self._largest[kind] = max(self._largest[kind], float(errors.max()))
        self._total += float(errors.sum()) if kind == "absolute" else 0.0

    def wrong_together(self) -> tuple[str | None, str | None]:
        """Return the rule by which the elements are wrong though none by itself is, and why. None twice: by none."""
        return None, None

    def _sizes(self, compared: int) -> dict[str, float | None]:
        """Return the errors by name, the mean over `compared` elements.

        JSON can hold them: an error from zero, counted in subnormals, may be beyond float64.
        """
        sizes = {"max_error": self._largest["error"]}
        sizes |= {f"max_{kind}_error": value for kind, value in self._largest.items() if kind != "error"}
        sizes |= {"mean_absolute_error": self._total / max(compared, 1), "total_error": self._total}
        return {name: min(value, sys.float_info.max) for name, value in sizes.items()}


class FloatErrors(_Errors):
    """Errors of a floating-point output of a dtype ("float32"), whose reference may be of a wider one.

    `row` is the number of elements of which the norms are compared, too. 0: of none.
    """

    def __init__(self, dtype: str, allowed: Tolerance, row: int = 0) -> None:
        super().__init__("absolute", "relative", "ulp")
        bits, exponent = FORMATS[dtype]
        self._allowed, self._norm, self._row = allowed, allowed.norm, row
        self._epsilon = EPSILON[dtype]
        self._squares = [0.0, 0.0]  # sums over all elements, of errors and of expected values
        self._of_row = [0.0, 0.0]  # the same over a row of which a part was added
        self._worst: tuple[float, int, float] = (0.0, 0, 0.0)  # by how much a row's norm is too large, which, its error
        self._ulp = 2.0 ** (1 - bits)  # of 1
        self._least_ulp = 2.0 ** (exponent + 1 - bits)  # the smallest subnormal number
        # Below the smallest normal number no relative accuracy can be had. In float64 that of float32 serves: a
        # difference from zero, divided by 1e-308, would be infinite.
        self._floor = 2.0 ** max(exponent, -126)
        self._aside = 0  # elements of which one is NaN or infinite: they have no error
        self._odd = dict.fromkeys(("nan", "infinite", "missing"), 0)

    def add(self, offset: int, wanted: torch.Tensor, got: torch.Tensor) -> None:
        """Take a block, both 1-D. `offset` is the flat index of its first element."""
        import torch  # noqa: PLC0415 - discovery must work without torch

        size = wanted.to(torch.float64, copy=True)
        error = got.to(torch.float64, copy=True).sub_(size)
        self.elements += error.numel()
        unlike = None
        if not math.isfinite(float(error.sum())):  # whatever is not finite leaves no finite sum
            unlike = self._set_aside(size, error, got)
        self._grow("absolute", error.abs_())
        size.abs_()
        self._add_squares(offset, error, size)
        rtol, atol = self._allowed.rtol, self._allowed.atol
        scaled = size.mul(rtol)
        mask = error > (scaled.clamp_(min=atol) if self._allowed.by_larger else scaled.add_(atol))
        self._count(mask if unlike is None else mask | unlike, offset, wanted, got)
        relative = error / size.clamp_min(self._floor)
        self._grow("relative", relative)
        self._largest["error"] = max(self._largest["error"], float(torch.minimum(relative, error).max()))
        self._grow("ulp", error.div_(self._spacing(size)))

    def _add_squares(self, offset: int, error: torch.Tensor, size: torch.Tensor) -> None:
        """Add a block to the norms: rows as a whole, or a part of one row. No temporary is as large as the block."""
        import torch  # noqa: PLC0415

        count, row = error.numel(), self._row
        if not row or count % row:
            for kind, values in enumerate((error, size)):
                square = float(torch.dot(values, values))
                self._squares[kind] += square
                self._of_row[kind] += square
            if not row or (offset + count) % row:
                return
            norms = torch.tensor(self._of_row, dtype=torch.float64).sqrt().view(2, 1)
            self._of_row = [0.0, 0.0]
        else:
            norms = torch.stack([torch.linalg.vector_norm(values.view(-1, row), dim=1) for values in (error, size)])
            for kind, square in enumerate(norms.square().sum(1).tolist()):
                self._squares[kind] += square
        errors, sizes = norms
        excess, index = (errors - (self._norm or 0.0) * sizes).max(0)
        if float(excess) > self._worst[0]:
            begin = (offset + count) // row - norms.shape[1]
            self._worst = float(excess), begin + int(index), float(errors[index] / sizes[index])

    def _norms(self) -> tuple[float, float]:
        error, size = (math.sqrt(squares) for squares in self._squares)
        return error, size

    def wrong_together(self) -> tuple[str | None, str | None]:
        """Return the rule by which the elements are wrong though none by itself is, and why."""
        if self._norm is None:
            return None, None
        error, size = self._norms()
        if size and error > self._norm * size:
            return "norm", f"the norm of the errors is {error / size:.3g} of that of the expected values"
        excess, row, share = self._worst
        if self._row and excess > self._epsilon * size / math.sqrt(self.elements / self._row):
            return "row norm", f"in row {row} the norm of the errors is {share:.3g} of that of the expected values"
        return None, None

    def _spacing(self, size: torch.Tensor) -> torch.Tensor:
        """Return the unit in the last place of each of `size` (float64, not negative, overwritten), in the dtype.

        The power of two at or below the value, times the unit of 1 (Goldberg 1991, Muller, On the definition of ulp(x),
        INRIA RR-5504, 2005). Below the smallest normal number the subnormals' constant distance.
        """
        import torch  # noqa: PLC0415

        size.view(torch.int64).bitwise_and_(_EXPONENT)
        return size.mul_(self._ulp).clamp_min_(self._least_ulp)

    def _set_aside(self, wanted: torch.Tensor, error: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
        """Count what is NaN or infinite in a block, and return where that is wrong. There, error and wanted become 0.

        An infinity is right where the expected value is the same one, or is beyond the range of the output's dtype.
        """
        import torch  # noqa: PLC0415

        values = got.to(torch.float64)
        nan, infinite, was_nan = values.isnan(), values.isinf(), wanted.isnan()
        same = infinite & (values == wanted.to(got.dtype).to(torch.float64))
        odd = was_nan | wanted.isinf()
        wrong = {"nan": nan & ~was_nan, "infinite": infinite & ~same, "missing": odd & ~(nan | infinite)}
        for name, mask in wrong.items():
            self._odd[name] += int(mask.sum())
        aside = odd | nan | infinite
        self._aside += int(aside.sum())
        error.masked_fill_(aside, 0.0)
        wanted.masked_fill_(aside, 0.0)
        return wrong["nan"] | wrong["infinite"] | wrong["missing"]

    def figures(self) -> dict[str, Any]:
        """Return the figures by name, as `compare` describes them."""
        unexpected = self._odd["nan"] + self._odd["infinite"] + self._odd["missing"]
        error, size = self._norms()
        sizes = self._sizes(self.elements - self._aside)
        sizes["norm_error"] = error / size if size else None if error else 0.0
        if unexpected > 0 and self._aside == self.elements:  # of an output of NaN a 0 would say that it is perfect
            sizes = dict.fromkeys(sizes)
        return {**sizes, **self._odd, "passes_1e5": unexpected == 0 and self._largest["error"] <= 1e-5}


class IntegerErrors(_Errors):
    """Errors of an integer or boolean output. `atol` is cut to what int64 holds."""

    def __init__(self, *, atol: float) -> None:
        super().__init__("absolute", "relative")
        self._limit = min(int(atol), _LARGEST)
        self._off_by_one = 0

    def add(self, offset: int, wanted: torch.Tensor, got: torch.Tensor) -> None:
        """Take a block, both 1-D and of one dtype. `offset` is the flat index of its first element."""
        import torch  # noqa: PLC0415 - discovery must work without torch

        self.elements += wanted.numel()
        if wanted.dtype == got.dtype and not bool((wanted != got).any()):
            return
        size = wanted.to(torch.int64)  # also because torch compares no two unlike types if one of them is unsigned
        error = _difference(got.to(torch.int64), size).abs()
        self._count(error > self._limit, offset, wanted, got)
        self._off_by_one += int((error == 1).sum())
        distance = error.to(torch.float64)
        self._grow("absolute", distance)
        self._grow("relative", distance / size.to(torch.float64).abs().clamp_min(1.0))

    def figures(self) -> dict[str, Any]:
        """Return the figures by name, as `compare` describes them."""
        self._largest["error"] = self._largest["absolute"]
        passes = self._largest["absolute"] == 0
        return {**self._sizes(self.elements), "off_by_one": self._off_by_one, "passes_1e5": passes}


def _difference(got: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Return got - wanted, both int64. What int64 cannot hold becomes its largest number, with the sign."""
    difference = got - wanted
    # operands of unlike sign, and the result's sign is not the first's
    over = ((got ^ wanted) & (got ^ difference)) < 0
    if bool(over.any()):
        difference.masked_fill_(over & (got > wanted), _LARGEST).masked_fill_(over & (got < wanted), -_LARGEST)
    return difference.clamp_min(-_LARGEST)  # -2^63 has no absolute value
