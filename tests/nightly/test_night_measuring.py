"""What a night begins, and how it goes on after it was cut off."""

import io
import math
from types import SimpleNamespace

import pytest

from kernel_velocity.errors import ResultsError
from kernel_velocity.nightly import journal as night_journal
from kernel_velocity.nightly import measure
from kernel_velocity.nightly.journal import Journal, Night
from kernel_velocity.nightly.measure import Kept
from kernel_velocity.runner.report import LIMITS


class Work:
    """A session of which nothing is measured but what a test says."""

    def __init__(self, commits, *, measured=(), failed=(), broken=(), root="."):
        self.commits, self.rounds, self.root = tuple(commits), 8, root
        self._measured, self._failed, self._broken = set(measured), set(failed), set(broken)
        self.unreadable = {}
        self.done, self.failed_builds, self.since = [], {}, {}

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
        return lambda *given: self.done.append((name, *(item for item in given if not isinstance(item, io.StringIO))))


@pytest.fixture(autouse=True)
def all_change_kernels(monkeypatch):
    monkeypatch.setattr(measure, "changing", lambda root: frozenset("abcdefgh"))


def begin(work, journal=None, *, budget=1e5, now=100.0):
    out = io.StringIO()
    night = measure.begin(work, journal or Journal(), budget=budget, tier="core", now=now, out=out)
    return night, out.getvalue()


def test_a_night_takes_what_is_new_in_the_order_of_the_line():
    night, said = begin(Work("abcde", measured="c"))
    assert night == Night(began=100.0, commits=("a", "b"), heartbeat=False)
    assert said.splitlines() == ["tonight: a (new)", "tonight: b (new)"]


@pytest.mark.parametrize(
    ("broken", "said"),
    [("c", "tonight: a (new)\n"), ("a", "tonight: c (heartbeat)\n"), ("ac", "tonight: d (heartbeat)\n")],
)
@pytest.mark.parametrize("cut_off", [None, Night(began=50.0, commits=("b",), heartbeat=False)])
def test_what_cannot_be_read_is_noted_and_stops_no_night(broken, said, cut_off):
    work = Work("abcd", measured="bcd", broken=broken, failed="b")
    night, told = begin(work, Journal(night=cut_off, unbuilt={"b": 9}))
    assert list(work.unreadable) == list(broken)
    assert night == cut_off if cut_off else told == said


def test_its_time_is_counted_in_commits_of_the_tier():
    night, said = begin(Work("abcdefg", measured="g"), budget=2.5 * LIMITS["core"] / 0.6)
    assert night.commits == ("a", "b")
    assert "left for another night, for want of time: 4 commits" in said


def test_a_quiet_night_has_a_heartbeat():
    night, said = begin(Work("ab", measured="ab"))
    assert (night.commits, night.heartbeat) == (("a",), True)
    assert said == "tonight: a (heartbeat)\n"


def test_a_night_that_was_cut_off_goes_on():
    cut_off = Night(began=50.0, commits=("b",), heartbeat=False)
    night, said = begin(Work("abc", measured="bc"), Journal(night=cut_off))
    assert night == cut_off
    assert said.startswith("going on with the night of ")


def test_after_the_clock_was_set_back_a_new_night_begins():
    night, said = begin(Work("abc", measured="c"), Journal(night=Night(began=500.0, commits=("b",), heartbeat=False)))
    assert night == Night(began=100.0, commits=("a", "b"), heartbeat=False)
    assert "the clock was set back" in said


def test_a_night_that_was_cut_off_too_long_ago_is_another_that_judges_its_values():
    began = 1000.0
    journal = Journal(night=Night(began=began, commits=("b",), heartbeat=False))
    late = began + measure.LASTS
    assert begin(Work("abc", measured="bc"), journal, now=late)[0] == journal.night
    night, said = begin(Work("abc", measured="bc"), journal, now=late + 1)
    assert night == Night(began=late + 1, commits=("a",), heartbeat=False, judged_from=began)
    assert "was cut off: too long ago" in said and "tonight: a (new)" in said
    third, _ = begin(Work("abc", measured="abc"), Journal(night=night), now=3 * late)
    assert third.since == began


def test_a_night_of_commits_that_are_gone_is_not_gone_on_with():
    night, _ = begin(Work("abc", measured="c"), Journal(night=Night(began=50.0, commits=("x",), heartbeat=False)))
    assert night.commits == ("a", "b")


@pytest.mark.parametrize(("nights", "again"), [({}, True), ({"a": 1}, True), ({"a": 2}, False)])
def test_what_did_not_build_is_tried_once_more(nights, again):
    _, said = begin(Work("ab", measured="b", failed="a"), Journal(unbuilt=nights))
    assert said == "tonight: b (heartbeat)\n" + ("tonight: a (build again)\n" if again else "")


@pytest.mark.parametrize(("nights", "said"), [({}, "new"), ({"a": 1}, "new"), ({"a": 2}, "heartbeat")])
def test_what_stays_incomplete_is_tried_once_more(nights, said):
    assert begin(Work("ab", measured="b"), Journal(incomplete=nights))[1] == f"tonight: a ({said})\n"


def measured(work, night):
    measure.measure(work, night, device="cpu", ceilings=True, out=io.StringIO(), err=io.StringIO())
    return work.done


def test_measuring_ingests_what_was_left_first_and_its_own_before_it_measures_ceilings():
    steps = measured(Work("ab"), Night(began=5.0, commits=("a", "b"), heartbeat=False))
    assert [step[0] for step in steps] == [
        "recover",
        "ingest",
        "forget_failures",
        "build",
        "measure",
        "ingest",
        "measure_ceilings",
    ]
    assert ("measure", False) in steps


@pytest.mark.parametrize(("since", "again"), [({}, True), ({"a": 6.0}, False)])
def test_a_heartbeat_is_measured_once_a_night(since, again):
    work = Work("a")
    work.since = since
    assert ("measure", again) in measured(work, Night(began=5.0, commits=("a",), heartbeat=True))


def test_what_was_timed_is_ingested_however_measuring_ends():
    work = Work("a")
    work.measure = lambda *given: (_ for _ in ()).throw(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        measured(work, Night(began=5.0, commits=("a",), heartbeat=False))
    assert work.done[-1] == ("ingest",)


def test_a_night_that_is_over_leaves_what_did_not_build_or_has_no_value(tmp_path):
    path = tmp_path / "x.json"
    night_journal.write(path, Journal(unbuilt={"a": 1, "b": 1}, incomplete={"c": 1}, setting="x"))
    kept = Kept(path, "x")
    assert kept.since == math.inf
    kept.begun(Night(began=1.0, commits=("a", "b"), heartbeat=False))
    assert (Kept(path, "x").since, kept.since) == (1.0, 1.0)
    kept.begun(Night(began=1.0, commits=("a", "b"), heartbeat=False, judged_from=0.5))
    assert Kept(path, "x").since == 0.5
    work = Work("abcd", measured="a")
    work.failed_builds, work.unreadable = {"b": "build failed"}, {"d": "broken"}
    kept.over(work)
    assert night_journal.read(path) == Journal(unbuilt={"b": 2}, incomplete={"c": 2}, setting="x")
    assert Kept(path, "y").journal == Journal(unbuilt={"b": 2}, setting="y")


def test_another_question_or_machine_is_another_setting(monkeypatch):
    monkeypatch.setattr(measure.fingerprint, "now", lambda environ: {"driver": "550"})

    def setting(rounds=8, series=("s",), versions=(("b", "1"),), **environ):
        asked = SimpleNamespace(series=series, versions=dict(versions))
        return measure.setting(SimpleNamespace(series=asked, rounds=rounds), environ)

    found = [setting(), setting(rounds=3), setting(series=("t",)), setting(versions=()), setting(KV_RULE="fixed")]
    monkeypatch.setattr(measure.fingerprint, "now", lambda environ: {"driver": "560"})
    assert len({*found, setting()}) == 6
