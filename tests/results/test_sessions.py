"""Facts of sessions: their lines, the file beside the telemetry, changes, and doubts about the machine's name."""

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_velocity.engine.telemetry import TelemetryError
from kernel_velocity.results import lines, sessions
from kernel_velocity.results.sessions import SessionFacts

TEXTS = st.dictionaries(st.text(max_size=10), st.text(max_size=10), max_size=4)
FIRST = SessionFacts(began=100.0, facts={"driver": "550"}, code={"matmul": "a"})
SECOND = SessionFacts(began=200.0, facts={"driver": "560"}, code={"matmul": "a"})


@settings(max_examples=40)
@given(began=st.floats(0, 4e9), facts=TEXTS, code=TEXTS)
def test_session_line_round_trips(began, facts, code):
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
        ('{"t": 1e300}', "t: a Unix time is wanted, got 1e"),
        ('{"t": 1, "facts": {"driver": 5}}', "facts: an object of texts is wanted"),
        ('{"t": 1, "code": []}', "code: an object of texts is wanted"),
    ],
)
def test_malformed_session_line_is_refused(line, message):
    with pytest.raises(TelemetryError, match=message):
        sessions.decode(line)


def test_session_line_with_unknown_keys_is_read():
    assert sessions.decode('{"t": 1, "later": {}}') == SessionFacts(began=1)


def test_session_like_the_last_is_not_appended(tmp_path):
    file = tmp_path / "bench-1" / "abc-env.json"
    for session in (FIRST, dataclasses.replace(FIRST, began=150.0), SECOND, dataclasses.replace(FIRST, began=300.0)):
        lines.append_session(file, session)
    assert [session.began for session in lines.read_sessions(file, [])] == [100.0, 200.0, 300.0]
    assert lines.beside(file, sessions.SUFFIX) == tmp_path / "bench-1" / "telemetry" / "abc-env.sessions.jsonl"


def test_listings_are_those_of_the_last_session_of_equal_code(tmp_path):
    file = tmp_path / "bench-1" / "abc-env.json"
    read = dataclasses.replace(FIRST, began=110.0, listings={"matmul native sm_80": "1", "matmul native sm_90": "2"})
    again = dataclasses.replace(FIRST, began=130.0, listings={"matmul native sm_90": "3"})
    for session in (FIRST, read, dataclasses.replace(FIRST, began=120.0), again):
        lines.append_session(file, session)
    lines.append_session(file, dataclasses.replace(FIRST, began=140.0, code={"matmul": "b"}))
    recorded = lines.read_sessions(file, [])
    assert [session.began for session in recorded] == [100.0, 110.0, 130.0, 140.0]
    assert [[*session.listings.values()] for session in recorded] == [[], ["1", "2"], ["1", "3"], []]


def test_malformed_session_line_is_noted_and_survives(tmp_path):
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
def test_session_at_a_time(when, began):
    assert sessions.at([SECOND, FIRST], when).began == began
    assert sessions.at([], when) is None


def test_changes_are_of_facts_that_both_have():
    before, after = {"driver": "550", "cuda": "12", "gone": "x"}, {"driver": "560", "cuda": "12", "new": "y"}
    assert sessions.changes(before, after) == {"driver": ("550", "560")}
    assert sessions.changes(None, after) == sessions.changes(before, None) == {}


def test_merged_sessions_are_unique_and_in_order():
    text = sessions.merged((SECOND,), (FIRST, SECOND))
    assert [json.loads(line)["t"] for line in text.splitlines()] == [100.0, 200.0]


def recorded(*facts):
    return [(f"c{number}", SessionFacts(began=float(number), facts=fact)) for number, fact in enumerate(facts)]


def test_changed_fact_is_listed_once():
    result = sessions.fact_changes(recorded({"driver": "550"}, {"driver": "550"}, {"driver": "560"}, {"driver": "560"}))
    assert [(change.began, change.commit, change.name, change.before, change.after) for change in result] == [
        (2.0, "c2", "driver", "550", "560")
    ]


def test_missing_fact_is_compared_with_the_last_known():
    result = sessions.fact_changes(recorded({"driver": "550"}, {}, {"driver": "560"}, {"governor": "powersave"}))
    assert [(change.before, change.after) for change in result] == [("550", "560")]


def test_compilers_are_no_change_of_the_machine():
    versions = [{"cxx compiler version": text} for text in ("12.2.0", "13.1.0", "12.2.0")]
    assert sessions.fact_changes(recorded(*versions)) == ()


def test_newest_facts_have_the_time_since_they_hold():
    result = sessions.newest_facts(recorded({"a": "1", "b": "x"}, {"a": "2"}, {"a": "2"}))
    assert result == {"a": ("2", 1.0), "b": ("x", 0.0)}
    assert sessions.newest_facts([]) == {}


@pytest.mark.parametrize("fact", sessions.HARDWARE)
def test_alternating_hardware_is_two_machines(fact):
    (doubt,) = sessions.hardware_doubts(recorded(*({fact: name} for name in ("A", "A", "B", "A"))))
    assert doubt.startswith(f"two machines seem to share this name: the {fact} was A and B in turn.")
    assert "--machine bench-2" in doubt


def test_hardware_changed_once_may_be_an_exchange():
    (doubt,) = sessions.hardware_doubts(recorded({"cpu": "A"}, {}, {"cpu": "B"}))
    assert doubt.startswith("the cpu changed: A, then B.")


def test_constant_hardware_raises_no_doubt():
    assert list(sessions.hardware_doubts(recorded({"cpu": "A"}, {"cpu": "A"}, {}))) == []
    assert list(sessions.hardware_doubts([])) == []
