"""The newest verdict of a machine's nights: kept beside the findings, read back, and never the site's end."""

from datetime import UTC, datetime

import pytest

from kernel_velocity.errors import ResultsError
from kernel_velocity.findings import last_night
from kernel_velocity.findings.verdict import Failed, Verdict
from tests.findings.nights import finding

WHEN = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)
NIGHT = Verdict(title="nightly on bench-1", when=WHEN, measured=12, findings=(finding(),))


def test_what_is_kept_comes_back(tmp_path):
    kept = last_night.of(NIGHT, "bench-1")
    path = last_night.write(tmp_path, kept)
    assert path == tmp_path / "findings" / "nights" / "bench-1.toml"
    assert last_night.read(tmp_path) == ((kept,), ())
    assert (kept.summary, kept.exit_status, kept.measured) == ("1 confirmed regression", 10, 12)


def test_a_later_night_replaces_it_and_machines_are_apart(tmp_path):
    for machine, day in (("a", 22), ("b", 23), ("a", 24)):
        night = Verdict(title="t", when=WHEN.replace(day=day), measured=1)
        last_night.write(tmp_path, last_night.of(night, machine))
    found, problems = last_night.read(tmp_path)
    assert [(item.machine, item.when.day, item.summary) for item in found] == [("a", 24, "clean"), ("b", 23, "clean")]
    assert problems == ()


def test_failures_are_kept_by_name_up_to_a_number_and_whatever_they_printed(tmp_path):
    failures = tuple(Failed(what=f"case {number}", why="wrong \ud800") for number in range(30))
    last_night.write(tmp_path, last_night.of(Verdict(title="t", when=WHEN, measured=1, failures=failures), "m"))
    ((kept,), _) = last_night.read(tmp_path)
    assert len(kept.failures) == last_night.LISTED
    assert kept.failures[0] == "case 0: wrong ?"
    assert kept.summary == "30 failed benchmarks"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"{", "not TOML"),
        (b"\xff", "not UTF-8 at byte 0"),
        (b'machine = "m"\nwhen = 2026-11-22\n', "m.toml:2:1: when: a time with its zone"),
        (b'machine = "m"\ncolour = "red"\n', "colour: one of"),
    ],
)
def test_a_file_that_is_none_is_named_and_costs_no_other(tmp_path, text, complaint):
    kept = last_night.of(NIGHT, "good")
    path = last_night.write(tmp_path, kept)
    path.with_name("m.toml").write_bytes(text)
    found, (problem,) = last_night.read(tmp_path)
    assert found == (kept,)
    assert "m.toml" in problem and complaint in problem


def test_where_no_night_was_there_is_none(tmp_path):
    assert last_night.read(tmp_path) == ((), ())


def test_a_file_is_refused_by_line(tmp_path):
    with pytest.raises(ResultsError, match="exit_status: a whole number is wanted"):
        last_night.parse(
            'machine = "m"\nwhen = 2026-11-22T00:00:00Z\nsummary = ""\nexit_status = true\nmeasured = 1\n', tmp_path
        )
