"""Fixtures of the analysis half's tests."""

import pytest

from tests.tools import synthetic


@pytest.fixture
def tree(tmp_path):
    """A fresh repository and results tree that a test may damage."""
    return synthetic.build(tmp_path)


@pytest.fixture
def accept(request):
    """Whether golden files are written instead of compared: pytest --accept-golden."""
    return request.config.getoption("--accept-golden")
