"""Fixtures of the analysis half's tests."""

import dataclasses
import shutil

import pytest

from tests.tools import synthetic


@pytest.fixture
def tree(tmp_path):
    """A fresh repository and results tree that a test may damage."""
    return synthetic.build(tmp_path)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A repository and results tree that no test may change."""
    return synthetic.build(tmp_path_factory.mktemp("built"))


@pytest.fixture
def copied(built, tmp_path):
    """A results tree that a test may damage; its repository is everybody's."""
    shutil.copytree(built.results, tmp_path / "results")
    return dataclasses.replace(built, results=tmp_path / "results")


@pytest.fixture
def accept(request):
    """Whether golden files are written instead of compared: pytest --accept-golden."""
    return request.config.getoption("--accept-golden")
