import pytest

from tests.faults.tiny import make


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    return make(tmp_path_factory.mktemp("template"))


@pytest.fixture
def tiny(template, tmp_path):
    """A copy, with its own home and its own host packages."""
    return template.copy(tmp_path)
