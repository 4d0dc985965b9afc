"""What changed on a machine from session to session, and whether it is one machine at all."""

import pytest

from kernel_velocity.results import machines
from kernel_velocity.results.sessions import SessionFacts


def sessions(*facts):
    return [(f"c{number}", SessionFacts(began=float(number), facts=each)) for number, each in enumerate(facts)]


def test_a_fact_that_changed_is_told_once_with_its_session():
    found = machines.changes(sessions({"driver": "550"}, {"driver": "550"}, {"driver": "560"}, {"driver": "560"}))
    assert [(each.began, each.commit, each.name, each.before, each.after) for each in found] == [
        (2.0, "c2", "driver", "550", "560")
    ]


def test_a_fact_that_a_session_did_not_know_is_compared_with_the_last_one_that_did():
    found = machines.changes(sessions({"driver": "550"}, {}, {"driver": "560"}, {"governor": "powersave"}))
    assert [(each.before, each.after) for each in found] == [("550", "560")]


def test_how_a_wheel_was_built_is_no_change_of_the_machine():
    versions = [{"cxx compiler version": text} for text in ("12.2.0", "13.1.0", "12.2.0")]
    assert machines.changes(sessions(*versions)) == ()


def test_the_newest_facts_say_since_when_they_hold():
    found = machines.newest(sessions({"a": "1", "b": "x"}, {"a": "2"}, {"a": "2"}))
    assert found == {"a": ("2", 1.0), "b": ("x", 0.0)}
    assert machines.newest([]) == {}


@pytest.mark.parametrize("fact", machines.HARDWARE)
def test_hardware_that_alternates_is_two_machines_of_one_name(fact):
    (said,) = machines.hardware(sessions(*({fact: name} for name in ("A", "A", "B", "A"))))
    assert said.startswith(f"two machines seem to share this name: the {fact} was A and B in turn.")
    assert "MACHINE=" in said


def test_hardware_that_changed_once_may_have_been_exchanged():
    (said,) = machines.hardware(sessions({"cpu": "A"}, {}, {"cpu": "B"}))
    assert said.startswith("the cpu changed: A, then B.")


def test_one_machine_raises_no_doubt():
    assert list(machines.hardware(sessions({"cpu": "A"}, {"cpu": "A"}, {}))) == []
    assert list(machines.hardware([])) == []
