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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernel_velocity.names import INTEGERS

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
_WANTED = "wanted a number (1e-3), or rtol=1e-3,atol=1e-5"


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """A float is right when |actual - expected| <= atol + rtol |expected|. An integer when |actual - expected| <= atol.

    Of booleans none may differ, whatever the tolerance is.

    Attributes:
        rtol: relative tolerance, a fraction. Of integers it means nothing.
        atol: absolute tolerance, in the output's own unit.
        source: where the figures come from, one line for a person.

    Raises:
        ValueError: a figure is negative, NaN or infinite.
    """

    rtol: float
    atol: float
    source: str

    def __post_init__(self) -> None:
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"tolerance: {name} is {value!r}; a finite number of at least 0 is wanted")

    def __str__(self) -> str:
        """Return it as `parse_tolerance` reads it."""
        return f"rtol={self.rtol!r},atol={self.atol!r}"


def tolerance_of(dtype: str) -> Tolerance:
    """Return what an output of a dtype may differ by where nothing is stated.

    1e-5 for float32, 1e-7 for float64, two machine epsilon for float16 and bfloat16, relative and absolute alike. So
    results far below 1 are hardly checked: a problem that knows their size has a better one. Integers, booleans: 0.

    Args:
        dtype: "float32" or "torch.float32", and so on.

    Raises:
        ValueError: the dtype is not known.
    """
    name = dtype.removeprefix("torch.")
    if name in INTEGERS:
        return Tolerance(rtol=0.0, atol=0.0, source=f"default of {name}: exact")
    if name not in _DEFAULTS:
        raise ValueError(f"tolerance: none is known for dtype {name}; there are {_COMPARABLE}")
    allowed, source = _DEFAULTS[name]
    return Tolerance(rtol=allowed, atol=allowed, source=source)


def parse_tolerance(text: str) -> Tolerance:
    """Return the tolerance that a user wrote.

    Args:
        text: a number ("1e-3") for both figures: an integer output may then differ by so many ("1": off by one is
            allowed). "rtol=1e-3,atol=1e-5", what is left out being 0.

    Raises:
        ValueError: one line with what was wrong and what is wanted.
    """
    stated = text.strip()
    parts = stated.split(",") if "=" in stated else [f"rtol={stated}", f"atol={stated}"]
    figures: dict[str, float] = {}
    for part in parts:
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name not in ("rtol", "atol") or name in figures:
            raise ValueError(f"tolerance {text!r}: {part.strip()!r} is not understood; {_WANTED}")
        try:
            figures[name] = float(value)
        except ValueError:
            raise ValueError(f"tolerance {text!r}: {value!r} is not a number; {_WANTED}") from None
        if not (math.isfinite(figures[name]) and figures[name] >= 0):
            raise ValueError(f"tolerance {text!r}: {value} is not a finite number of at least 0; {_WANTED}")
    return Tolerance(rtol=figures.get("rtol", 0.0), atol=figures.get("atol", 0.0), source="as given")


# Figures --------------------------------------------------------------------------------------------------------------

NAMES = (
    *("right", "why", "wrong", "first_wrong", "first_wrong_index", "first_expected", "first_actual", "elements"),
    *("max_error", "max_absolute_error", "mean_absolute_error", "max_relative_error", "max_ulp_error"),
    *("total_error", "off_by_one", "nan", "infinite", "missing", "passes_1e5", "rtol", "atol", "tolerance"),
    *("expected_shape", "actual_shape", "expected_dtype", "actual_dtype"),
)
# What a message has besides `why`, where it is not 0.
_IN_MESSAGES = ("nan", "infinite", "missing", "off_by_one", "max_absolute_error", "max_relative_error", "max_ulp_error")


def compare(
    expected: torch.Tensor,
    actual: torch.Tensor,
    tolerance: str | Tolerance | None = None,
    *,
    dtype: str | None = None,
) -> Figures:
    """Return error figures of one output. Memory for a block of it is all that this takes.

    Args:
        expected: any shape. Floats (float16, bfloat16, float32, float64), integers or booleans. It may lie on
            another device, and either may be strided.
        actual: the output, of the same shape.
        tolerance: what is allowed, also as `parse_tolerance` reads it ("1e-3", "rtol=1e-5,atol=0"). None: the default
            of the output's dtype.
        dtype: the one that the output must have, such as "float32". None: that of `expected`, or any floating one
            where that is float64: a reference of higher precision.

    Returns:
        every name of NAMES. A figure that has no meaning here is None (all of them where `expected` and
        `actual` differ in kind, shape or dtype, the errors where no element of a wrong output has one).

        right: whether every element is within the tolerance, and nothing is NaN or infinite but what should be.
        why: one line on what is wrong, None where nothing is.
        wrong: number of wrong elements. first_wrong, first_wrong_index: flat index and indices of the first.
        first_expected, first_actual: the two values there. elements: number of elements.
        max_absolute_error, mean_absolute_error: of |actual - expected|, over pairs of finite numbers.
        total_error: the sum of |actual - expected|.
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
        rtol, atol, tolerance: what was allowed, and where that comes from.
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
    allowed = allowed or tolerance_of(name)
    errors: FloatErrors | IntegerErrors
    if name in FORMATS:
        errors = FloatErrors(name, rtol=allowed.rtol, atol=allowed.atol)
    else:
        errors = IntegerErrors(atol=0.0 if name == "bool" else allowed.atol)
    size = BLOCK_CPU if str(actual.device) == "cpu" else BLOCK_DEVICE
    for offset, wanted, got in blocks(expected.detach(), actual.detach(), size):
        errors.add(offset, wanted if wanted.device == got.device else wanted.to(got.device), got)
    figures |= {"rtol": allowed.rtol, "atol": allowed.atol, "tolerance": allowed.source}
    return figures | errors.figures() | _wrong(errors, tuple(actual.shape))


accuracy = compare  # its name in scripts


def compare_outputs(
    expected: object, actual: object, tolerance: Tolerance | None = None, names: Sequence[str] = ()
) -> dict[str, Figures]:
    """Return the figures of every output by its name.

    Args:
        expected, actual: a tensor, or a tuple or list of them. tolerance: of all of them. None: by dtype.
        names: of the outputs, in order. Without one, "out" if it is the only output, else "out0", "out1" ...

    Returns:
        figures as `compare` returns them. An output that is missing, or too many, is wrong and says so.

    Raises:
        ValueError: as `compare`.
    """
    outputs: list[list[Any]] = [
        list(value) if isinstance(value, tuple | list) else [value] for value in (expected, actual)
    ]
    wanted, got = outputs
    count = max(len(wanted), len(got))
    names = [*names[:count], *(f"out{index}" if count > 1 else "out" for index in range(len(names), count))]
    why = f"got {'1 output' if len(got) == 1 else f'{len(got)} outputs'}, wanted {len(wanted)}"
    absent = dict.fromkeys(NAMES) | {"right": False, "why": why}
    both = min(len(wanted), len(got))
    compared = [compare(wanted[index], got[index], tolerance) for index in range(both)]
    return dict(zip(names, [*compared, *(dict(absent) for _ in range(count - both))], strict=True))


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
    allowed = _listed(details, [name for name in ("rtol", "atol") if details.get(name) is not None])
    return "; ".join(text for text in (details["why"] or "right", errors, allowed) if text)


def _listed(details: Mapping[str, Any], names: Sequence[str]) -> str:
    values = [(name, details[name]) for name in names]
    return ", ".join(f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in values)


def _wrong(errors: FloatErrors | IntegerErrors, shape: tuple[int, ...]) -> Figures:
    """Return the figures of wrong elements."""
    figures: Figures = {"right": errors.wrong == 0, "wrong": errors.wrong, "elements": errors.elements}
    if errors.first is None:
        return figures
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

    def _sizes(self, compared: int) -> dict[str, float | None]:
        """Return the errors by name, the mean over `compared` elements.

        JSON can hold them: an error from zero, counted in subnormals, may be beyond float64.
        """
        sizes = {"max_error": self._largest["error"]}
        sizes |= {f"max_{kind}_error": value for kind, value in self._largest.items() if kind != "error"}
        sizes |= {"mean_absolute_error": self._total / max(compared, 1), "total_error": self._total}
        return {name: min(value, sys.float_info.max) for name, value in sizes.items()}


class FloatErrors(_Errors):
    """Errors of a floating-point output of a dtype ("float32"), whose reference may be of a wider one."""

    def __init__(self, dtype: str, *, rtol: float, atol: float) -> None:
        super().__init__("absolute", "relative", "ulp")
        bits, exponent = FORMATS[dtype]
        self._rtol, self._atol = rtol, atol
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
        mask = error > size.mul(self._rtol).add_(self._atol)
        self._count(mask if unlike is None else mask | unlike, offset, wanted, got)
        relative = error / size.clamp_min(self._floor)
        self._grow("relative", relative)
        self._largest["error"] = max(self._largest["error"], float(torch.minimum(relative, error).max()))
        self._grow("ulp", error.div_(self._spacing(size)))

    def _spacing(self, size: torch.Tensor) -> torch.Tensor:
        """Return the unit in the last place of each of `size` (float64, not negative, overwritten), in the dtype.

        The power of two at or below the value, times the unit of 1 (Goldberg 1991, Muller, On the definition of ulp(x),
        INRIA RR-5504, 2005). Below the smallest normal number the subnormals' constant distance.
        """
        import torch  # noqa: PLC0415

        size.view(torch.int64).bitwise_and_(_EXPONENT)
        return size.mul_(self._ulp).clamp_min_(self._least_ulp)

    def _set_aside(self, wanted: torch.Tensor, error: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
        """Count what is NaN or infinite in a block, and return where that is wrong. There, error becomes 0, wanted 1.

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
        wanted.masked_fill_(aside, 1.0)
        return wrong["nan"] | wrong["infinite"] | wrong["missing"]

    def figures(self) -> dict[str, Any]:
        """Return the figures by name, as `compare` describes them."""
        unexpected = self._odd["nan"] + self._odd["infinite"] + self._odd["missing"]
        sizes = self._sizes(self.elements - self._aside)
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
