"""How far an output may be from what was expected: by dtype, by preset, or as a user says it. No torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

# Distance from 1 to the next number: IEEE 754 binary16, bfloat16 (8 significant bits), binary32, binary64.
EPSILON: Mapping[str, float] = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
INTEGERS = ("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "int64")
PRESETS = ("default", "epsilon")

# 1e-5 and 1e-7 are what published suites of kernels allow, and the absolute tolerances of torch.testing.assert_close.
# Two epsilon: a result and one intermediate that are rounded once err by half of one each; the rest is reserve.
_DEFAULTS: Mapping[str, tuple[float, str]] = {
    "float16": (2 * EPSILON["float16"], "default of float16: 2 machine epsilon"),
    "bfloat16": (2 * EPSILON["bfloat16"], "default of bfloat16: 2 machine epsilon"),
    "float32": (1e-5, "default of float32: 1e-5, as published suites"),
    "float64": (1e-7, "default of float64: 1e-7, as published suites"),
}
EPSILONS = 1000  # of the preset "epsilon", another convention of published suites: lax in float16, where it allows .98

_WANTED = "wanted a number (1e-3), rtol=1e-3,atol=1e-5, or one of " + ", ".join(PRESETS)


@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """A float is right when |actual - expected| <= atol + rtol |expected|; an integer when |actual - expected| <= atol.

    Of booleans none may differ, whatever the tolerance says.

    Attributes:
        rtol: relative tolerance, a fraction; of integers it means nothing.
        atol: absolute tolerance, in the output's own unit.
        source: where the figures come from, one line for a person.
        preset: a name of PRESETS: the figures depend on the output's dtype, and `resolved` gives them. Until
            then both are 0, the strictest there is.

    Raises:
        ValueError: a figure is negative, NaN or infinite, or the preset unknown.
    """

    rtol: float
    atol: float
    source: str
    preset: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("rtol", self.rtol), ("atol", self.atol)):
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"tolerance: {name} is {value!r}; a finite number of at least 0 is wanted")
        if self.preset not in (None, *PRESETS):
            raise ValueError(f"tolerance: preset {self.preset!r} is not known; {_WANTED}")

    def __str__(self) -> str:
        """Return it as `parse_tolerance` reads it."""
        return self.preset or f"rtol={self.rtol!r},atol={self.atol!r}"

    def resolved(self, dtype: str) -> Tolerance:
        """Return the figures for an output of a dtype ("float32"); the tolerance itself where no preset is named.

        Raises:
            ValueError: a preset says nothing of that dtype.
        """
        return self if self.preset is None else tolerance_of(dtype, self.preset)


def tolerance_of(dtype: str, preset: str = "default") -> Tolerance:
    """Return what a preset allows an output of a dtype.

    Args:
        dtype: "float32" or "torch.float32", and so on. preset: "default": 1e-5 for float32, 1e-7 for float64, two
            machine epsilon for float16 and bfloat16, relative and absolute alike, so that results far below 1 are
            hardly looked at: a problem that knows the size of its results says better. "epsilon": 1000 machine
            epsilon. Integers and booleans: 0.

    Raises:
        ValueError: the preset or the dtype is not known.
    """
    name = dtype.removeprefix("torch.")
    if preset not in PRESETS:
        raise ValueError(f"tolerance: preset {preset!r} is not known; {_WANTED}")
    if name in INTEGERS:
        return Tolerance(rtol=0.0, atol=0.0, source=f"{preset} of {name}: exact")
    if name not in EPSILON:
        raise ValueError(f"tolerance: none is known for dtype {name}; there are {', '.join([*EPSILON, *INTEGERS])}")
    if preset == "epsilon":
        allowed = EPSILONS * EPSILON[name]
        return Tolerance(rtol=allowed, atol=allowed, source=f"epsilon of {name}: {EPSILONS} machine epsilon")
    allowed, source = _DEFAULTS[name]
    return Tolerance(rtol=allowed, atol=allowed, source=source)


def parse_tolerance(text: str) -> Tolerance:
    """Return the tolerance that a user wrote.

    Args:
        text: a number ("1e-3") for both figures: an integer output may then differ by so many ("1": off by one is
            allowed); "rtol=1e-3,atol=1e-5", what is left out being 0; or a preset ("default", "epsilon").

    Raises:
        ValueError: one line that says what was wrong and what is wanted.
    """
    stated = text.strip()
    if stated in PRESETS:
        return Tolerance(rtol=0.0, atol=0.0, source=f"preset {stated}", preset=stated)
    if "=" not in stated:
        both = _figure(stated, text)
        return Tolerance(rtol=both, atol=both, source="as given")
    found: dict[str, float] = {}
    for part in stated.split(","):
        name, _, value = part.partition("=")
        name = name.strip()
        if name not in ("rtol", "atol") or name in found:
            raise ValueError(f"tolerance {text!r}: {part.strip()!r} is not understood; {_WANTED}")
        found[name] = _figure(value, text)
    return Tolerance(rtol=found.get("rtol", 0.0), atol=found.get("atol", 0.0), source="as given")


def _figure(part: str, text: str) -> float:
    try:
        value = float(part)
    except ValueError:
        raise ValueError(f"tolerance {text!r}: {part.strip()!r} is not a number; {_WANTED}") from None
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"tolerance {text!r}: {part.strip()} is not a finite number of at least 0; {_WANTED}")
    return value
