"""What a night begins, how an interrupted night resumes, and the journal that it resumes from."""

import io
import json
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from kernel_velocity.documents import with_checksum
from kernel_velocity.errors import NothingMeasured, ResultsError
from kernel_velocity.nightly import measure
from kernel_velocity.nightly.measure import JournalRecord, NightJournal, PlannedNight, journal_path
from kernel_velocity.runner.report import Pace

SERIES = 10
A_COMMIT = Pace().seconds(1, 8 * SERIES)  # s


class Work:
    """A session of which nothing is measured but what a test says."""

    def __init__(self, commits, *, measured=(), failed=(), broken=(), root="."):
        self.commits, self.rounds, self.root = tuple(commits), 8, root
        self._measured, self._failed, self._broken = set(measured), set(failed), set(broken)
        self.series, self.pace = SimpleNamespace(series=range(SERIES)), Pace
        self.unreadable = {}
        self.done, self.since = [], {}

    def is_measured(self, commit):
        if commit in self._broken:
            raise ResultsError(f"{commit}: not a results file of asv")
        return commit in self._measured

    def is_readable(self, commit):
        if commit in self._broken:
            self.unreadable[commit] = "not measured"
        return commit not in self._broken

    def failed_before(self, commit):
        return commit in self._failed

    def measured_since(self, commit, when):
        return self.since.get(commit, 0.0) >= when

    def __getattr__(self, name):
        return lambda *args: self.done.append((name, *(entry for entry in args if not isinstance(entry, io.StringIO))))


@pytest.fixture(autouse=True)
def all_change_kernels(monkeypatch):
    monkeypatch.setattr(measure.git, "commits", lambda *_, **__: list("abcdefgh"))


def a_night(*commits, began=50.0, **more):
    return PlannedNight(began=began, commits=commits, **{"heartbeat": False, **more})


def begin(work, night=None, *, budget=1e5, now=100.0, **counts):
    out = io.StringIO()
    record = JournalRecord(night=night, **counts)
    return measure.begin(work, record, budget=budget, now=now, out=out), out.getvalue()


def test_night_takes_new_commits_in_the_order_of_the_line():
    night, text = begin(Work("abcde", measured="c"))
    assert night == a_night("a", "b", began=100.0)
    assert text.splitlines() == ["tonight: a (new)", "tonight: b (new)"]
    night, text = begin(Work("ab", measured="ab"))
    assert (night.commits, night.heartbeat, text) == (("a",), True, "tonight: a (heartbeat)\n")


def test_shallow_clone_without_a_measured_commit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(measure.git, "cut_off", lambda root: "; this clone is shallow")
    work = Work(["a" * 40], root=tmp_path)
    work.results, work.machine, work.environment = tmp_path, "box", "host"
    measure.check_line(work)  # the first night
    (tmp_path / "box").mkdir()
    (tmp_path / "box" / "bbbbbbbb-host.json").touch()
    with pytest.raises(NothingMeasured, match=r"none of the 1 commit that were measured on box is in.*; this clone is"):
        measure.check_line(work)
    monkeypatch.setattr(measure.git, "cut_off", lambda root: "")
    measure.check_line(work)  # a history that was rewritten
    monkeypatch.undo()
    (tmp_path / "box" / "aaaaaaaa-host.json").touch()
    measure.check_line(work)


def test_budget_is_counted_in_commits():
    night, text = begin(Work("abcdefg", measured="g"), budget=2.5 * A_COMMIT / 0.6)
    assert night.commits == ("a", "b")
    assert "; 4 left to another night; --budget 23 has time for all" in text


def test_budget_too_small_for_a_new_clone_is_said():
    night, text = begin(Work("abcde"), budget=60.0)
    assert night.commits == ("a",)
    assert "note: a budget of 1 minutes is short for 3 commits: each takes about 2.2 minutes" in text
    assert "--budget 12 has time" in text and "note" not in begin(Work("abcde"), budget=12 * 60.0)[1]


@pytest.mark.parametrize(
    ("broken", "text"),
    [("c", "tonight: a (new)\n"), ("a", "tonight: c (heartbeat)\n"), ("ac", "tonight: d (heartbeat)\n")],
)
@pytest.mark.parametrize("interrupted", [None, a_night("b")])
def test_unreadable_commit_is_noted_and_stops_no_night(broken, text, interrupted):
    work = Work("abcd", measured="bcd", broken=broken, failed="b")
    night, printed = begin(work, interrupted, unbuilt={"b": 9})
    assert list(work.unreadable) == list(broken)
    assert night == interrupted if interrupted else printed == text


def test_interrupted_night_goes_on():
    night, text = begin(Work("abc", measured="bc"), a_night("b"))
    assert night == a_night("b") and text.startswith("resuming the night of ")
    night, text = begin(Work("abc", measured="c"), a_night("b", began=500.0))
    assert night == a_night("a", "b", began=100.0) and "the clock was set back" in text
    night, _ = begin(Work("abc", measured="c"), a_night("x"))  # a commit that is gone
    assert night.commits == ("a", "b")


def test_night_judges_the_values_of_an_interrupted_one():
    interrupted = a_night("b", began=1000.0)
    late = 1000.0 + measure.LASTS
    assert begin(Work("abc", measured="bc"), interrupted, now=late)[0] == interrupted
    night, text = begin(Work("abc", measured="bc"), interrupted, now=late + 1)
    assert night == a_night("a", began=late + 1, judged_from=1000.0)
    assert "was interrupted too long ago" in text and "tonight: a (new)" in text
    third, _ = begin(Work("abc", measured="abc"), night, now=3 * late)
    assert third.since == 1000.0


@pytest.mark.parametrize("nights", [0, 1, 2])
def test_failed_or_incomplete_commit_is_retried_once(nights):
    counts = {"a": nights} if nights else {}
    _, text = begin(Work("ab", measured="b", failed="a"), unbuilt=counts)
    assert text == "tonight: b (heartbeat)\n" + ("tonight: a (build again)\n" if nights < 2 else "")
    _, text = begin(Work("ab", measured="b"), incomplete=counts)
    assert text == f"tonight: a ({'new' if nights < 2 else 'heartbeat'})\n"


def measured(work, night):
    measure.measure(work, night, device="cpu", ceilings=True, out=io.StringIO())
    return work.done


def test_measuring_begins_with_what_an_interrupted_night_left():
    steps = measured(Work("ab"), a_night("a", "b"))
    names = ["recover", "forget_failures", "build", "measure", "measure_ceilings"]
    assert [step[0] for step in steps] == names and ("measure", False) in steps


@pytest.mark.parametrize(("since", "again"), [({}, True), ({"a": 60.0}, False)])
def test_heartbeat_is_measured_once_a_night(since, again):
    work = Work("a")
    work.since = since
    assert ("measure", again) in measured(work, a_night("a", heartbeat=True))


def test_setting_is_of_the_series_and_the_machine(monkeypatch):
    monkeypatch.setattr(measure.fingerprint, "now", lambda environ: {"driver": "550"})

    def setting(rounds=8, series=("s",), versions=(("b", "1"),), **environ):
        requests = SimpleNamespace(series=series, versions=dict(versions))
        return measure.setting(SimpleNamespace(series=requests, rounds=rounds), environ)

    result = [setting(), setting(rounds=3), setting(series=("t",)), setting(versions=()), setting(KV_RULE="fixed")]
    monkeypatch.setattr(measure.fingerprint, "now", lambda environ: {"driver": "560"})
    assert len({*result, setting()}) == 6


@pytest.mark.parametrize("night", [a_night("b" * 40, "a" * 40), a_night("b" * 40, judged_from=0.5)])
def test_journal_is_read_as_it_was_written(tmp_path, night):
    path = journal_path(tmp_path, "box", "host-py3.11")
    assert path == tmp_path / ".asv" / "journals" / "box-host-py3.11.json"
    journal = NightJournal(path, "x")
    assert (journal.record, journal.since) == (JournalRecord(setting="x"), math.inf)
    journal.begin(night)
    assert NightJournal(path, "x").record == JournalRecord(night=night, setting="x")
    assert NightJournal(path, "x").since == night.since
    assert json.loads(path.read_text())["night"]["commits"] == list(night.commits)


def test_journal_counts_the_nights_that_a_commit_failed(tmp_path):
    path = tmp_path / "x.json"
    text = '{"format": 2, "unbuilt": {"a": 1, "b": 1, "z": 3}, "incomplete": {"c": 1, "d": 1}, "setting": "x"}'
    path.write_text(with_checksum(text))
    NightJournal(path, "x").begin(a_night("a", "b", "c", "d"))
    NightJournal(path, "x").end(("a", "b", "c", "d"), ("b",), ("c",))
    left = JournalRecord(unbuilt={"b": 2, "z": 3}, incomplete={"c": 2}, setting="x")
    assert NightJournal(path, "x").record == left
    assert NightJournal(path, "y").record == replace(left, incomplete={}, setting="y")  # another question


@pytest.mark.parametrize(
    "text",
    [
        "{",
        with_checksum('{"format": 1, "unbuilt": {}}'),
        with_checksum('{"format": 2, "unbuilt": {}, "night": {"began": "now", "commits": [], "heartbeat": true}}'),
        '{"format": 2, "unbuilt": {}, "night": {"began": 1, "commits": [], "heartbeat": true}}',  # without its checksum
    ],
)
def test_journal_with_an_error_is_refused_in_a_line(tmp_path, text):
    path = tmp_path / "box-host.json"
    path.write_text(text)
    with pytest.raises(ResultsError, match="not the journal of a night") as caught:
        NightJournal(path, "")
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)
