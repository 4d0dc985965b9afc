"""The devices that a kernel's tests run on."""

import pytest


# Of the session: hypothesis refuses a fixture that is made anew for every test, for it would not be for every example.
@pytest.fixture(scope="session", params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def device(request):
    """Name the device: the same checks on the CPU, which is everywhere, and on CUDA."""
    return request.param
