"""The end of a night: its output and exit status, whatever becomes of the files and pages that it writes."""

import contextlib
import dataclasses
import io
from types import SimpleNamespace

import pytest

from kernel_velocity.findings import store
from kernel_velocity.findings.verdict import NightVerdict
from kernel_velocity.nightly import command
from kernel_velocity.nightly.conclude import Concluded
from kernel_velocity.nightly.measure import NightJournal, PlannedNight
from tests.commands import kv
from tests.findings import nights

CLEAN = NightVerdict(title="nightly on box", when=nights.WHEN, measured=1)
SLOWER = dataclasses.replace(CLEAN, findings=(nights.finding(),))


@pytest.fixture
def ending(tmp_path, monkeypatch):
    """Do the end of a night with a verdict. Return its status, the lines of its output, and its journal."""

    def end(verdict, publish, *args, unwritten=False):
        journal = NightJournal(tmp_path / "journal.json", "")
        journal.begin(PlannedNight(began=0.0, commits=("a", "b", "c"), heartbeat=False))
        work = SimpleNamespace(
            results=tmp_path,
            machine="box",
            commits=("a", "b", "c"),
            failed_builds={"a": "does not build"},
            unreadable={"b": "broken"},
            is_measured=lambda commit: False,
            root=tmp_path,
            has_results=lambda: True,
            publish=lambda out: publish(),
        )
        monkeypatch.setattr(command, "measuring", lambda *_, wait, lock_clocks: contextlib.nullcontext())
        monkeypatch.setattr(command, "_measured", lambda *_: (work, journal, "cpu"))
        monkeypatch.setattr(command, "AsvRunner", lambda **_: None)
        monkeypatch.setattr(command.past, "open", lambda *_: None)
        concluded = Concluded(verdict=verdict, unwritten=unwritten)
        monkeypatch.setattr(command.conclude, "conclude", lambda *_, **__: concluded)
        status, out, _ = kv("nightly", *args)
        return SimpleNamespace(status=status, lines=out.splitlines(), record=journal.record)

    return end


def in_the_way():
    raise NotADirectoryError(20, "Not a directory", ".asv/html/kernel-velocity")


@pytest.mark.parametrize(("verdict", "status"), [(SLOWER, 10), (CLEAN, 2)])
def test_unwritable_pages_take_no_verdict_away(ending, verdict, status):
    ended = ending(verdict, in_the_way)
    assert ended.status == status and ended.record.night is None
    assert (ended.record.unbuilt, ended.record.incomplete) == ({"a": 1}, {"c": 1})
    (line,) = [line for line in ended.lines if line.startswith("error: ")]
    assert line.startswith("error: the site cannot be written: ") and ".asv/html/kernel-velocity" in line
    assert ended.lines[-1].startswith("nightly on box: ")


def test_unwritable_report_leaves_the_others(ending, tmp_path):
    (tmp_path / store.FOLDER).write_text("in the way of what is kept of the verdict")
    ended = ending(SLOWER, lambda: tmp_path / "index.html", f"--markdown={tmp_path / 'summary.md'}")
    assert [line.partition(":")[0] for line in ended.lines if "cannot be written" in line] == ["error"]
    assert (tmp_path / "summary.md").exists() and f"Dashboard: {tmp_path.as_uri()}/index.html" in ended.lines
    assert ended.status == 10 and ended.record.night is None


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("-", "--json -: a file is wanted"),
        ("nowhere/a.json", "--json nowhere/a.json: must be a file in an existing folder"),
        ("/proc/new", "--json /proc/new: cannot be written ("),
    ],
)
def test_report_that_cannot_be_written_is_refused_at_once(monkeypatch, path, words):
    monkeypatch.setattr(command, "measuring", lambda *_, **__: pytest.fail("measured"))
    status, _, err = kv("nightly", "--json", path)
    assert status == 2 and words in err


def test_night_with_unwritten_findings_is_not_over(ending, tmp_path):
    verdict = dataclasses.replace(SLOWER, errors=("not all findings can be written",))
    ended = ending(verdict, lambda: tmp_path / "index.html", unwritten=True)
    assert ended.status == 2 and ended.record.night is not None
    assert "not all findings can be written" in ended.lines and ended.lines[-1].startswith("nightly on box: ")


def test_interrupted_pages_are_written_by_the_next_start(ending):
    def interrupted():
        raise KeyboardInterrupt

    ended = ending(SLOWER, interrupted)
    assert ended.status == 130 and ended.record.night is not None
    assert ended.lines[-1].startswith("nightly on box: 1 confirmed regression")


def test_used_up_budget_is_a_note():
    assert (command._left(60.0, 20.0, out := io.StringIO()), out.getvalue()) == (40.0, "")
    assert command._left(60.0, 90.0, out) == 0.0
    assert out.getvalue().startswith("note: building and measuring took 1.5 minutes of a budget of 1: ")


@pytest.mark.parametrize("option", ["--budget=0", "--budget=nan", "--json=-", "--json=.", "--junit=no/such/folder"])
def test_bad_option_is_one_line_before_anything_is_measured(option):
    status, out, err = kv("nightly", option)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {option.partition('=')[0]} ")
