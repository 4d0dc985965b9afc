"""A build made again with other compilers: the old one stays where the new one fails."""

import io
from pathlib import Path

import pytest
from asv.build_cache import BuildCache

from kernel_velocity.ab import session
from kernel_velocity.ab.session import AsvRunner
from kernel_velocity.runner import builds, environment
from kernel_velocity.runner.environment import CommitNotBuilt, HostTorch

COMMIT = "c0ffee00" + "0" * 32


class Environment(HostTorch):
    """Our environment with asv's own cache, and a compiler that does what a test says."""

    def __init__(self, folder, build):
        self._path = str(folder)
        self._cache = BuildCache(None, self._path)
        self._cache._cache_size = 10
        self._compile = build

    def create(self):
        pass

    def build(self, repo, commit):
        self._make(commit, "before")
        self._compile()
        self._make(commit, "new")
        self._cache.finalize_cache_dir(commit)

    def _make(self, commit, text):
        folder = Path(self._cache.create_cache_dir(commit), "unpacked")
        folder.mkdir()
        (folder / "code.txt").write_text(text)
        folder.with_name(environment.TOOLCHAIN_FILE).write_text("here" if text == "new" else "old")

    def code(self):
        return (self.unpacked(COMMIT) / "code.txt").read_text() if self.is_built(COMMIT) else None


def fails():
    raise CommitNotBuilt(COMMIT, "x.cpp:1: error: y", Path("build.log"))


def is_killed():
    raise KeyboardInterrupt


@pytest.fixture
def built(tmp_path, monkeypatch):
    """Return an environment with a build of an old compiler in it, and a runner of it."""
    monkeypatch.setattr(environment, "has_compiler", lambda: True)
    monkeypatch.setattr(environment.build_info, "describe", lambda environ: "here")
    monkeypatch.setattr(session, "get_repo", lambda conf: None)
    own = Environment(tmp_path, lambda: None)
    own._make(COMMIT, "old")
    own._cache.finalize_cache_dir(COMMIT)
    runner = object.__new__(AsvRunner)
    runner._conf, runner._environment, runner._created = None, own, False
    runner.again, runner.err = False, io.StringIO()
    return own, runner


def left(own):
    return list((own.folder / builds.FOLDER).glob("*"))


def test_a_new_build_takes_the_place_of_the_old_one(built):
    own, runner = built
    assert runner.prepare(COMMIT) is None
    assert (own.code(), left(own)) == ("new", [])
    assert "was built with old" in runner.err.getvalue() and "put back" not in runner.err.getvalue()


def test_a_compiler_that_cannot_build_it_leaves_the_old_build(built):
    own, runner = built
    own._compile = fails
    assert "error: y" in runner.prepare(COMMIT)
    assert (own.code(), left(own)) == ("old", [])
    assert own.other_toolchain(COMMIT) == "old"
    assert runner.err.getvalue().splitlines()[-1] == (
        "note: c0ffee00 is not built again: its build of before is put back"
    )
    own._cache.finalize_cache_dir("absent")  # asv's cleaning up
    assert own.code() == "old"


def test_whoever_interrupts_a_build_keeps_the_old_one(built):
    own, runner = built
    own._compile = is_killed
    with pytest.raises(KeyboardInterrupt):
        runner.prepare(COMMIT)
    assert own.code() == "old"


def test_what_a_killed_run_put_aside_comes_back(built):
    own, runner = built
    builds.keep(own, COMMIT)
    own._make(COMMIT, "half")
    assert own.code() is None
    own._compile = fails
    assert runner.prepare(COMMIT) is not None
    assert (own.code(), left(own)) == ("old", [])
