"""Errors of one output, summed up block by block: no temporary is larger than a block, on whatever device it lies.

Arithmetic is in float64 (integers: int64) beside the output's own dtype, whose spacing the units in the last place are.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# Elements that are compared at once. CPU: the few buffers of float64 stay in a cache; 10M floats took .22, .20, .17 and
# .15 s with blocks of 2^14 to 2^17 on a busy machine. Elsewhere each step is a launch, and a block of 32 MB keeps a
# GPU busy for longer than a launch takes.
BLOCK_CPU = 1 << 16
BLOCK_DEVICE = 1 << 22

# dtype -> significant bits, least exponent of a normal number (IEEE 754 and the definition of bfloat16).
FORMATS: Mapping[str, tuple[int, int]] = {
    "float16": (11, -14),
    "bfloat16": (8, -126),
    "float32": (24, -126),
    "float64": (53, -1022),
}
_EXPONENT = 0x7FF0_0000_0000_0000  # the bits of a float64 that hold its exponent
_LARGEST = 2**63 - 1


def blocks(expected: torch.Tensor, actual: torch.Tensor, size: int) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Yield two tensors of one shape in blocks: flat index of the first element, and both blocks, 1-D, row-major.

    Strided tensors are copied a block at a time, never as a whole; of an empty one there is no block.
    """
    if expected.is_contiguous() and actual.is_contiguous():
        expected, actual = expected.view(-1), actual.view(-1)
    yield from _pieces(expected, actual, size, 0)


def _pieces(
    expected: torch.Tensor, actual: torch.Tensor, size: int, first: int
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    count = expected.numel()
    if count <= size:
        if count:
            yield first, expected.flatten(), actual.flatten()
        return
    row = count // expected.shape[0]
    if row > size:
        for index in range(expected.shape[0]):
            yield from _pieces(expected[index], actual[index], size, first + index * row)
        return
    step = size // row
    for begin in range(0, expected.shape[0], step):
        end = begin + step
        yield first + begin * row, expected[begin:end].flatten(), actual[begin:end].flatten()


class _Errors:
    """What both kinds of output have in common: counts, and the first wrong element."""

    def __init__(self) -> None:
        self.elements = 0
        self.wrong = 0
        self.first: tuple[int, Any, Any] | None = None  # flat index, wanted, got

    def _count(self, mask: torch.Tensor, offset: int, wanted: torch.Tensor, got: torch.Tensor) -> None:
        """Count the wrong elements of a block; `mask` says which they are."""
        if not bool(mask.any()):
            return
        self.wrong += int(mask.sum())
        if self.first is None:
            place = int(mask.nonzero()[0, 0])
            self.first = (offset + place, wanted[place].item(), got[place].item())


class FloatErrors(_Errors):
    """Errors of a floating-point output of a dtype ("float32"), whose reference may be of a wider one."""

    def __init__(self, dtype: str, *, rtol: float, atol: float) -> None:
        super().__init__()
        bits, exponent = FORMATS[dtype]
        self._rtol, self._atol = rtol, atol
        self._ulp = 2.0 ** (1 - bits)  # of 1
        self._least_ulp = 2.0 ** (exponent + 1 - bits)  # the smallest subnormal number
        # Below the smallest normal number no relative accuracy can be had. In float64 that of float32 serves: a
        # difference from zero, divided by 1e-308, would be infinite.
        self._floor = 2.0 ** max(exponent, -126)
        self.aside = 0  # elements of which one is NaN or infinite: they have no error
        self.nan = self.infinite = self.missing = self.expected_nan = self.expected_infinite = 0
        self.largest = dict.fromkeys(("error", "absolute", "relative", "ulp"), 0.0)
        self.total = dict.fromkeys(("signed", "absolute", "relative", "ulp"), 0.0)

    def add(self, offset: int, wanted: torch.Tensor, got: torch.Tensor) -> None:
        """Take a block, both 1-D; `offset` is the flat index of its first element."""
        import torch  # noqa: PLC0415 - discovery must work without torch

        size = wanted.to(torch.float64, copy=True)
        error = got.to(torch.float64, copy=True).sub_(size)
        self.elements += error.numel()
        signed = float(error.sum())
        unlike = None
        if not math.isfinite(signed):  # whatever is not finite leaves no finite sum
            unlike = self._set_aside(size, error, got)
            signed = float(error.sum())
        self.total["signed"] += signed
        self._grow("absolute", error.abs_())
        size.abs_()
        mask = error > size.mul(self._rtol).add_(self._atol)
        self._count(mask if unlike is None else mask | unlike, offset, wanted, got)
        relative = error / size.clamp_min(self._floor)
        self._grow("relative", relative)
        self.largest["error"] = max(self.largest["error"], float(torch.minimum(relative, error).max()))
        self._grow("ulp", error.div_(self._spacing(size)))

    def _grow(self, name: str, errors: torch.Tensor) -> None:
        self.largest[name] = max(self.largest[name], float(errors.max()))
        self.total[name] += float(errors.sum())

    def _spacing(self, size: torch.Tensor) -> torch.Tensor:
        """Return the unit in the last place of each of `size` (float64, not negative, overwritten), in the dtype.

        The power of two at or below the value, times the unit of 1 (Goldberg 1991; Muller, On the definition of ulp(x),
        INRIA RR-5504, 2005); below the smallest normal number the subnormals' constant distance.
        """
        import torch  # noqa: PLC0415

        size.view(torch.int64).bitwise_and_(_EXPONENT)
        return size.mul_(self._ulp).clamp_min_(self._least_ulp)

    def _set_aside(self, wanted: torch.Tensor, error: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
        """Count what is NaN or infinite in a block, and return where that is wrong; there, error becomes 0, wanted 1.

        An infinity is right where the expected value is the same one, or is beyond the range of the output's dtype.
        """
        import torch  # noqa: PLC0415

        found = got.to(torch.float64)
        nan, infinite, was_nan = found.isnan(), found.isinf(), wanted.isnan()
        same = infinite & (found == wanted.to(got.dtype).to(torch.float64))
        odd = was_nan | wanted.isinf()
        missing = odd & ~(nan | infinite)
        self.missing += int(missing.sum())
        self.nan += int((nan & ~was_nan).sum())
        self.expected_nan += int((nan & was_nan).sum())
        self.infinite += int((infinite & ~same).sum())
        self.expected_infinite += int(same.sum())
        aside = odd | nan | infinite
        self.aside += int(aside.sum())
        error.masked_fill_(aside, 0.0)
        wanted.masked_fill_(aside, 1.0)
        return missing | (nan & ~was_nan) | (infinite & ~same)

    def figures(self) -> dict[str, Any]:
        """Return the figures by name (`accuracy.compare` says what they are)."""
        unexpected = self.nan + self.infinite + self.missing
        counts = ("nan", "infinite", "missing", "expected_nan", "expected_infinite")
        return {
            **self._sizes(is_unknown=unexpected > 0 and self.aside == self.elements),
            **{name: getattr(self, name) for name in counts},
            "passes_1e5": unexpected == 0 and self.largest["error"] <= 1e-5,
        }

    def _sizes(self, *, is_unknown: bool) -> dict[str, float | None]:
        """Return the errors; unknown, all None: of an output of NaN a 0 would say that it is perfect."""
        compared = max(self.elements - self.aside, 1)
        names = ("absolute", "relative", "ulp")
        found = {
            "max_error": self.largest["error"],
            **{f"max_{name}_error": self.largest[name] for name in names},
            **{f"mean_{name}_error": self.total[name] / compared for name in names},
            "mean_signed_error": self.total["signed"] / compared,
            "total_error": self.total["absolute"],
        }
        return {name: None if is_unknown else _capped(value) for name, value in found.items()}


class IntegerErrors(_Errors):
    """Errors of an integer or boolean output. `atol` is cut to what int64 holds."""

    def __init__(self, *, atol: float) -> None:
        super().__init__()
        self._limit = min(int(atol), _LARGEST)
        self.off_by_one = 0
        self.largest = dict.fromkeys(("absolute", "relative"), 0.0)
        self.total = dict.fromkeys(("signed", "absolute", "relative"), 0.0)

    def add(self, offset: int, wanted: torch.Tensor, got: torch.Tensor) -> None:
        """Take a block, both 1-D and of one dtype; `offset` is the flat index of its first element."""
        import torch  # noqa: PLC0415 - discovery must work without torch

        self.elements += wanted.numel()
        if wanted.dtype == got.dtype and not bool((wanted != got).any()):
            return
        size = wanted.to(torch.int64)  # also because torch compares no two unlike types if one of them is unsigned
        signed = _difference(got.to(torch.int64), size)
        error = signed.abs()
        self._count(error > self._limit, offset, wanted, got)
        self.off_by_one += int((error == 1).sum())
        distance = error.to(torch.float64)
        self.total["signed"] += float(signed.to(torch.float64).sum())
        self._grow("absolute", distance)
        self._grow("relative", distance / size.to(torch.float64).abs().clamp_min(1.0))

    def _grow(self, name: str, errors: torch.Tensor) -> None:
        self.largest[name] = max(self.largest[name], float(errors.max()))
        self.total[name] += float(errors.sum())

    def figures(self) -> dict[str, Any]:
        """Return the figures by name (`accuracy.compare` says what they are)."""
        count = max(self.elements, 1)
        names = ("absolute", "relative")
        return {
            "max_error": self.largest["absolute"],
            **{f"max_{name}_error": self.largest[name] for name in names},
            **{f"mean_{name}_error": self.total[name] / count for name in names},
            "mean_signed_error": self.total["signed"] / count,
            "total_error": self.total["absolute"],
            "off_by_one": self.off_by_one,
            "passes_1e5": self.largest["absolute"] == 0,
        }


def _difference(got: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Return got - wanted, both int64; what int64 cannot hold becomes its largest number, with the sign."""
    difference = got - wanted
    over = (
        (got ^ wanted) & (got ^ difference)
    ) < 0  # operands of unlike sign, and the result's sign is not the first's
    if bool(over.any()):
        difference.masked_fill_(over & (got > wanted), _LARGEST).masked_fill_(over & (got < wanted), -_LARGEST)
    return difference.clamp_min(-_LARGEST)  # -2^63 has no absolute value


def _capped(value: float) -> float | None:
    """Return a figure that JSON can hold; an error from zero, counted in subnormals, may be beyond float64.

    None of a sum that is not a number: its parts overflowed with either sign.
    """
    if math.isnan(value):
        return None
    return min(max(value, -sys.float_info.max), sys.float_info.max)
