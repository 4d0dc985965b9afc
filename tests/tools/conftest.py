"""Fixtures of the analysis half's tests."""

import dataclasses
import shutil

import pytest

from tests.tools import synthetic, synthetic_extras
from tools import lock


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The synthetic tree, built once; nobody may change it."""
    return synthetic.build(tmp_path_factory.mktemp("built"))


@pytest.fixture
def tree(tmp_path, built):
    """A fresh repository and results tree that a test may damage: a copy, which takes a fifteenth of building one."""
    for name in ("repository", "results"):
        shutil.copytree(built.repository.parent / name, tmp_path / name)
    return dataclasses.replace(built, repository=tmp_path / "repository", results=tmp_path / "results")


@pytest.fixture(scope="session")
def copy_of(built):
    """What copies the results of `built` into a folder and returns the tree; its repository is everybody's."""

    def copy(folder):
        shutil.copytree(built.results, folder / "results")
        return dataclasses.replace(built, results=folder / "results")

    return copy


@pytest.fixture
def copied(copy_of, tmp_path):
    """A results tree that a test may damage, and a repository that it may not."""
    return copy_of(tmp_path)


@pytest.fixture(scope="session")
def whole_tree(tmp_path_factory):
    """A tree with everything that pages can show, to be read only."""
    return synthetic_extras.whole(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="session")
def hostile_tree(tmp_path_factory):
    """The same with names that want to be code, to be read only."""
    return synthetic_extras.hostile(tmp_path_factory.mktemp("hostile"))


@pytest.fixture
def accept(request):
    """Whether golden files are written instead of compared: pytest --accept-golden."""
    return request.config.getoption("--accept-golden")


@pytest.fixture
def lock_of_its_own(tmp_path, monkeypatch):
    """`compare` takes the lock of a folder of this test: others compare at the same time."""
    monkeypatch.setattr("tools.compare.root_folder", lambda environ: tmp_path)
    monkeypatch.delenv(lock.HOLDER, raising=False)
