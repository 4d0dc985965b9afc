"""Tests of a kernel that run once with the code of every instruction set: those that this CPU has, and aarch64's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from kernels._native import library
from tests.aarch64 import emulated

USUAL = library.cpu_isa()  # what runs where nobody chooses
# Not where it cannot run: test_aarch64.py says why, and fails for it in CI.
EMULATED = [] if emulated.missing() else [pytest.param(emulated.NAME, marks=pytest.mark.slow)]
ISAS = [*map(pytest.param, library.cpu_isas()), *EMULATED]


def in_turn(isas: Any) -> list[pytest.MarkDecorator]:
    """Return the marks of a module whose tests run with each of these, by the fixture `isa` (conftest.py)."""
    return [pytest.mark.usefixtures("isa"), pytest.mark.parametrize("isa", isas, indirect=True, scope="module")]


def on_every_device(isas: Iterable[Any] = ISAS) -> list[pytest.MarkDecorator]:
    """Return the marks of a module whose tests have a `device`: the CPU with each of these, then CUDA."""
    devices = [
        *(pytest.param(*isa.values, "cpu", id=f"cpu-{isa.values[0]}", marks=isa.marks) for isa in isas),
        pytest.param(USUAL, "cuda", id="cuda", marks=pytest.mark.cuda),
    ]
    chosen = pytest.mark.parametrize(("isa", "device"), devices, indirect=["isa"], scope="module")
    return [pytest.mark.usefixtures("isa"), chosen]
