"""What a night keeps for the next start, and what is refused as none."""

import json
from dataclasses import replace

import pytest

from kernel_velocity.errors import ResultsError
from kernel_velocity.nightly import journal as night_journal
from kernel_velocity.nightly.journal import Journal, Night

NIGHT = Night(began=1.5, commits=("b" * 40, "a" * 40), heartbeat=False)


@pytest.mark.parametrize(
    "journal",
    [
        Journal(),
        Journal(night=NIGHT, unbuilt={"c" * 40: 2}, incomplete={"d" * 40: 1}, setting="x"),
        Journal(night=replace(NIGHT, judged_from=0.5)),
    ],
)
def test_what_is_kept_is_read_again(tmp_path, journal):
    path = night_journal.path_of(tmp_path, "box", "host-py3.11")
    assert night_journal.read(path) == Journal()
    night_journal.write(path, journal)
    assert night_journal.read(path) == journal
    assert path == tmp_path / ".asv" / "journals" / "box-host-py3.11.json"


def test_nights_on_which_a_commit_did_not_build_are_counted():
    journal = Journal(night=NIGHT, unbuilt={"a": 1, "b": 1, "c": 3})
    assert journal.after(("a", "b", "d"), ("a", "d"), ()) == Journal(unbuilt={"c": 3, "a": 2, "d": 1})


def test_nights_that_left_a_commit_incomplete_are_counted_until_something_else_is_asked_for():
    journal = Journal(incomplete={"a": 1, "b": 1, "c": 3}, setting="x")
    after = journal.after(("a", "b", "d"), (), ("a", "d"))
    assert after == Journal(incomplete={"c": 3, "a": 2, "d": 1}, setting="x")
    assert after.under("x") == after and after.under("y") == Journal(setting="y")


@pytest.mark.parametrize(
    ("night", "read"), [("null", None), ('{"began": 1.5, "commits": ["a"], "heartbeat": false}', ("a",))]
)
def test_a_journal_of_before_is_read(tmp_path, night, read):
    (tmp_path / "box.json").write_text(f'{{"unbuilt": {{"a": 1}}, "night": {night}}}')
    known = None if read is None else Night(began=1.5, commits=read, heartbeat=False)
    assert night_journal.read(tmp_path / "box.json") == Journal(unbuilt={"a": 1}, night=known)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"night": null}',
        '{"unbuilt": [], "night": null}',
        '{"unbuilt": {}, "incomplete": 3, "night": null}',
        '{"unbuilt": {}, "night": {"began": "now", "commits": [], "heartbeat": true}}',
        '{"unbuilt": {}, "night": {"began": 1, "commits": []}}',
        '{"unbuilt": {}, "night": {"began": 1, "commits": [], "heartbeat": true, "judged_from": "then"}}',
    ],
)
def test_another_text_is_refused_in_a_line(tmp_path, text):
    path = tmp_path / "box-host.json"
    path.write_text(text)
    with pytest.raises(ResultsError, match="no journal of a night") as caught:
        night_journal.read(path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


def test_a_journal_is_plain_json(tmp_path):
    path = tmp_path / "box-host.json"
    night_journal.write(path, Journal(night=NIGHT))
    assert json.loads(path.read_text())["night"]["commits"] == list(NIGHT.commits)
