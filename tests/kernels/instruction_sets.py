"""Tests of a kernel that run once with the code of every instruction set that this CPU has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kernels._native import library

USUAL = library.cpu_isa()  # what runs where nobody chooses
ISAS = library.cpu_isas()
SLOW_BUT_FOR_USUAL = [isa if isa == USUAL else pytest.param(isa, marks=pytest.mark.slow) for isa in ISAS]


def in_turn(isas: Any) -> list[pytest.MarkDecorator]:
    """Return the marks of a module whose tests run with each of these, by the fixture `isa` (conftest.py)."""
    return [pytest.mark.usefixtures("isa"), pytest.mark.parametrize("isa", isas, indirect=True, scope="module")]


def on_every_device(isas: Sequence[str] = ISAS) -> list[pytest.MarkDecorator]:
    """Return the marks of a module whose tests have a `device`: the CPU with each of these, then CUDA."""
    devices = [
        *(pytest.param(isa, "cpu", id=f"cpu-{isa}") for isa in isas),
        pytest.param(USUAL, "cuda", id="cuda", marks=pytest.mark.cuda),
    ]
    chosen = pytest.mark.parametrize(("isa", "device"), devices, indirect=["isa"], scope="module")
    return [pytest.mark.usefixtures("isa"), chosen]
