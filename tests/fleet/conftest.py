"""A clone to unpack into, and a node's tar of its first two commits."""

import pytest

from tests.fleet import node


@pytest.fixture
def home(tmp_path):
    return node.home(tmp_path / "clone")


@pytest.fixture
def tar(tmp_path, home):
    return node.tar(tmp_path, home.commits)
