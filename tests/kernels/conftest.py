"""What the kernels' tests share."""

from __future__ import annotations

import pytest

from kernels._native import library


@pytest.fixture(scope="module")
def isa(request):
    """The instruction set whose code the CPU kernels run meanwhile."""
    library.choose_isa(request.param)
    assert library.cpu_isa() == request.param
    yield request.param
    library.choose_isa(None)
