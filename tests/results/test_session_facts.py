"""What a session found on its machine: the lines, the file beside the telemetry, and what changed."""

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.results import lines, sessions
from kernel_velocity.results.sessions import SessionFacts, SessionLineError

TEXTS = st.dictionaries(st.text(max_size=10), st.text(max_size=10), max_size=4)
FIRST = SessionFacts(began=100.0, facts={"driver": "550"}, code={"matmul": "a"})
SECOND = SessionFacts(began=200.0, facts={"driver": "560"}, code={"matmul": "a"})


@settings(max_examples=40)
@given(began=st.floats(0, 4e9), facts=TEXTS, code=TEXTS)
def test_decode_inverts_encode(began, facts, code):
    session = SessionFacts(began=round(began, 3), facts=facts, code=code)
    line = sessions.encode(session)
    assert sessions.decode(line) == session and "\n" not in line


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("[]", "an object is wanted, got list"),
        ("{}", "t: a Unix time is wanted, got None"),
        ('{"t": true}', "t: a Unix time is wanted, got True"),
        ('{"t": NaN}', "t: a Unix time is wanted, got nan"),
        ('{"t": 1, "facts": {"driver": 5}}', "facts: an object of texts is wanted"),
        ('{"t": 1, "code": []}', "code: an object of texts is wanted"),
    ],
)
def test_other_lines_are_refused(line, message):
    with pytest.raises(SessionLineError, match=message):
        sessions.decode(line)


def test_unknown_keys_are_ignored():
    assert sessions.decode('{"t": 1, "later": {}}') == SessionFacts(began=1)


def test_only_what_changed_is_kept(tmp_path):
    file = tmp_path / "bench-1" / "abc-env.json"
    for session in (FIRST, dataclasses.replace(FIRST, began=150.0), SECOND, dataclasses.replace(FIRST, began=300.0)):
        lines.append_session(file, session)
    assert [session.began for session in lines.read_sessions(file, [])] == [100.0, 200.0, 300.0]
    assert lines.beside(file, sessions.SUFFIX) == tmp_path / "bench-1" / "telemetry" / "abc-env.sessions.jsonl"


def test_a_malformed_line_is_named_kept_and_costs_no_other(tmp_path):
    file = tmp_path / "bench-1" / "abc-env.json"
    lines.append_session(file, FIRST)
    path = lines.beside(file, sessions.SUFFIX)
    path.write_text(path.read_text() + "{broken")  # a disk that was full
    lines.append_session(file, SECOND)
    notes = []
    assert lines.read_sessions(file, notes) == (FIRST, SECOND)
    assert notes[0].startswith("bench-1/telemetry/abc-env.sessions.jsonl:2: not JSON: ")
    assert "{broken\n" in path.read_text()


@pytest.mark.parametrize(
    ("when", "began"), [(50.0, 100.0), (100.0, 100.0), (199.0, 100.0), (200.0, 200.0), (None, 200.0)]
)
def test_what_held_at_a_time(when, began):
    assert sessions.at([SECOND, FIRST], when).began == began
    assert sessions.at([], when) is None


def test_changes_are_of_facts_that_both_know():
    before, after = {"driver": "550", "cuda": "12", "gone": "x"}, {"driver": "560", "cuda": "12", "new": "y"}
    assert sessions.changes(before, after) == {"driver": ("550", "560")}
    assert sessions.changes(None, after) == sessions.changes(before, None) == {}


def test_merging_keeps_every_session_once_in_order():
    text = sessions.merged((SECOND,), (FIRST, SECOND))
    assert [json.loads(line)["t"] for line in text.splitlines()] == [100.0, 200.0]
