"""What a run finds of one that was killed, and what it says about doing things again."""

import io
from types import SimpleNamespace

import pytest

from kernel_velocity.ab import session as ab_run
from kernel_velocity.lab import sessions
from kernel_velocity.runner import session
from kernel_velocity.runner.session import Session


class Known:
    """An environment with one commit that was built by another compiler, or cannot be built."""

    name = "env"
    then = "g++ 9"

    def create(self):
        pass

    def other_toolchain(self, commit):
        return self.then

    def is_built(self, commit):
        return self.then is not None

    def build(self, repo, commit):
        raise session.CommitNotBuilt(commit, "no", "log")


@pytest.fixture
def known(monkeypatch):
    return Known()


@pytest.fixture
def work(tmp_path, monkeypatch, known):
    conf = SimpleNamespace(results_dir=str(tmp_path / "results"))
    monkeypatch.setattr(session.Config, "load", staticmethod(lambda: conf))
    monkeypatch.setattr(session, "environment_of", lambda conf: known)
    monkeypatch.setattr(session, "get_repo", lambda conf: None)
    series = SimpleNamespace(tracked=(), series=(), versions={})
    return Session(root=tmp_path, commits=("a" * 40,), series=series, rounds=8, machine="box")


def test_what_an_ab_run_or_a_session_left_is_removed_and_nothing_else(work, tmp_path):
    results = tmp_path / "results"
    for name in (ab_run.MACHINE, sessions.MACHINE, "box", "findings"):
        (results / name).mkdir(parents=True)
        (results / name / "machine.json").write_text("{}")
    out = io.StringIO()
    work.recover(out)
    assert sorted(path.name for path in results.iterdir()) == ["box", "findings"]
    assert out.getvalue().splitlines() == [
        f"{results / name}: left by a run that was cut off, removed" for name in ("kv-ab", "kv-sessions")
    ]
    work.recover(out := io.StringIO())
    assert out.getvalue() == ""


@pytest.mark.parametrize(
    ("then", "said"),
    [
        ("g++ 9", "note: aaaaaaaa was built with g++ 9; `make track AGAIN=1` builds it with what is here now"),
        (None, "aaaaaaaa does not build (`make track AGAIN=1` tries it again)"),
    ],
)
def test_again_is_said_of_the_command_that_knows_it(work, known, then, said):
    known.then = then
    work.build(False, out := io.StringIO())
    assert out.getvalue().splitlines() == [said]


def test_again_is_said_of_what_is_measured_already(work, monkeypatch):
    monkeypatch.setattr(Session, "is_measured", lambda self, commit: True)
    monkeypatch.setattr(session, "is_tracked", lambda *_, **__: True)
    work.measure(False, out := io.StringIO())
    assert out.getvalue() == "1 commits are measured already (`make track AGAIN=1` repeats them)\n"
