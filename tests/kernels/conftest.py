"""What the kernels' tests share."""

from __future__ import annotations

import os

import pytest

from kernels._native import library
from tests.aarch64 import emulated


@pytest.fixture(scope="session")
def aarch64():
    """The library for aarch64 in a process of the emulator. Skips where it cannot be built and run, but fails in CI."""
    reason = emulated.missing()
    if reason is not None:
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    process = emulated.Emulated(emulated.build())
    yield process
    process.close()


@pytest.fixture(scope="module")
def isa(request):
    """The instruction set whose code the CPU kernels run meanwhile."""
    if request.param == emulated.NAME:
        with request.getfixturevalue("aarch64").instead_of_native():
            yield request.param
        return
    library.choose_isa(request.param)
    assert library.cpu_isa() == request.param
    yield request.param
    library.choose_isa(None)
