"""The end of a night: what it says and exits with, whatever becomes of the files and pages that it writes."""

import contextlib
import dataclasses
import io
from types import SimpleNamespace

import pytest

from kernel_velocity.__main__ import main
from kernel_velocity.findings import store
from kernel_velocity.findings.verdict import Verdict
from kernel_velocity.nightly import command
from kernel_velocity.nightly.conclude import Concluded
from tests.findings import nights

CLEAN = Verdict(title="nightly on box", when=nights.WHEN, measured=1)
SLOWER = Verdict(title="nightly on box", when=nights.WHEN, measured=1, findings=(nights.finding(),))


class Work:
    """A session that has measured, whose pages are written by `publish`."""

    def __init__(self, results, publish):
        self.results, self.machine, self.commits = results, "box", ()
        self.publish = lambda out: publish()

    def has_results(self):
        return True

    def measurements(self):
        return []


class Kept:
    """The journal, of which a test knows whether its night is over."""

    since, is_over = 0.0, False

    def over(self, work):
        self.is_over = True


@pytest.fixture
def ending(tmp_path, monkeypatch):
    """Do the end of a night with a verdict; return its status, its last line, what was said, and the journal."""

    def end(verdict, publish, *args, unwritten=False):
        kept = Kept()
        monkeypatch.setattr(command, "measuring", lambda *_: contextlib.nullcontext())
        monkeypatch.setattr(command, "_measured", lambda *_: (Work(tmp_path, publish), kept, "cpu"))
        monkeypatch.setattr(command, "AsvRunner", lambda **_: None)
        concluded = Concluded(verdict=verdict, refuted=(), unwritten=unwritten)
        monkeypatch.setattr(command.conclude, "conclude", lambda *_, **__: concluded)
        out, err = io.StringIO(), io.StringIO()
        status = main(["nightly", *args], out, err)
        return SimpleNamespace(status=status, said=out.getvalue().splitlines(), kept=kept)

    return end


def in_the_way():
    raise NotADirectoryError(20, "Not a directory", ".asv/html/kernel-velocity")


@pytest.mark.parametrize(("verdict", "status"), [(SLOWER, 10), (CLEAN, 2)])
def test_pages_that_cannot_be_written_take_no_verdict_away(ending, verdict, status):
    ended = ending(verdict, in_the_way)
    assert ended.status == status and ended.kept.is_over
    (line,) = [line for line in ended.said if line.startswith("error: ")]
    assert line.startswith("error: the site cannot be written: ") and ".asv/html/kernel-velocity" in line
    assert ended.said[-1].startswith("nightly on box: ")


def test_one_report_that_cannot_be_written_leaves_the_others(ending, tmp_path):
    (tmp_path / store.FOLDER).write_text("in the way of what is kept of the verdict")
    ended = ending(SLOWER, lambda: tmp_path / "index.html", f"--markdown={tmp_path / 'summary.md'}")
    assert [line.partition(":")[0] for line in ended.said if "cannot be written" in line] == ["error"]
    assert (tmp_path / "summary.md").exists() and f"Dashboard: {tmp_path.as_uri()}/index.html" in ended.said
    assert ended.status == 10 and ended.kept.is_over


def test_a_night_whose_findings_are_not_written_is_told_and_not_over(ending, tmp_path):
    verdict = dataclasses.replace(SLOWER, errors=("not all findings can be written",))
    ended = ending(verdict, lambda: tmp_path / "index.html", unwritten=True)
    assert ended.status == 2 and not ended.kept.is_over
    assert "not all findings can be written" in ended.said and ended.said[-1].startswith("nightly on box: ")


def test_who_interrupts_the_pages_has_the_verdict_and_the_next_start_writes_them(ending):
    def interrupted():
        raise KeyboardInterrupt

    ended = ending(SLOWER, interrupted)
    assert ended.status == 130 and not ended.kept.is_over
    assert ended.said[-1].startswith("nightly on box: 1 confirmed regression")


def test_a_budget_that_measuring_used_up_is_said():
    assert (command._left(60.0, 20.0, out := io.StringIO()), out.getvalue()) == (40.0, "")
    assert command._left(60.0, 90.0, out) == 0.0
    assert out.getvalue().startswith("note: building and measuring took 1.5 minutes of a budget of 1: ")


def test_the_help_says_what_a_budget_does_not_bound():
    main(["nightly", "--help"], out := io.StringIO(), io.StringIO())
    assert "one at least and each of them whole" in " ".join(out.getvalue().split())
