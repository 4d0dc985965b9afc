"""Roofs are those of as many threads as a commit was measured with; where nobody knows, there are none."""

import pytest

from tests.tools import machine_records
from tools import home_page, kept_ceilings, roof_choice, site
from tools.roof_choice import choose
from tools.roofs import CeilingSession
from tools.session_facts import SessionFacts


def session(began, peak, threads=None):
    return CeilingSession(began=began, figures={"peak_float32": peak, "threads": threads}, reported={})


BOTH = (session(1.0, 1e9, 1.0), session(2.0, 8e9, 8.0))
KNOWN = {"one": 1, "eight": 8, "last": 1}


def peak(choice):
    return choice.roofs.peaks["float32"]


def test_a_commits_roofs_are_of_its_threads():
    assert [peak(choose(BOTH, "cpu", KNOWN, sha)) for sha in KNOWN] == [1e9, 8e9, 1e9]
    assert choose(BOTH, "cpu", KNOWN, "one").roofs.warnings == ()


def test_all_commits_are_of_the_newest_ones_threads_and_a_footnote_says_so():
    found = choose(BOTH, "cpu", KNOWN).roofs
    assert found.peaks["float32"] == 1e9
    assert found.warnings == ("commits were measured with 1 and 8 threads; the roofs, and every efficiency, are of 1",)
    assert choose(BOTH, "cpu", {"one": 1}).roofs.warnings == ()


def test_where_nothing_says_with_how_many_it_was_measured_there_are_none():
    found = choose(BOTH, "cpu", KNOWN, "unknown")
    assert found.roofs is None and "of 1 and 8 threads, and nothing says" in found.lacking
    assert choose(BOTH, "cpu", {}).roofs is None
    assert peak(choose(BOTH[:1], "cpu", {})) == 1e9  # one number of threads is everybody's
    assert peak(choose((session(1.0, 5e9), BOTH[1]), "cpu", {})) == pytest.approx(7.25e9)


@pytest.mark.parametrize(
    ("ceilings", "lacking"),
    [
        ((), "no ceilings of this machine's Cpu are recorded"),
        (BOTH[1:], "no ceilings of this machine's Cpu with 1 thread "),
    ],
)
def test_without_ceilings_of_its_threads_there_are_none(ceilings, lacking):
    found = choose(ceilings, "cpu", KNOWN, "one")
    assert found.roofs is None and found.lacking.startswith(lacking)


def test_of_a_gpu_threads_tell_nothing():
    assert peak(choose(BOTH, "cuda", {}, "x")) == 8e9


@pytest.mark.parametrize("text", ["", "many", "9" * 5000, "-1"])
def test_what_is_no_number_of_threads_is_not_known(text):
    sessions = [("a", {"threads": "2"}), ("b", {"threads": text}), ("c", {}), ("a", {"threads": "4"})]
    assert roof_choice.threads((sha, SessionFacts(began=0.0, facts=facts)) for sha, facts in sessions) == {"a": 4}


def test_a_session_of_other_threads_moves_no_efficiency(tree, monkeypatch):
    """It had: ceilings of 8 threads, measured last, were the roofs of every time by one."""
    monkeypatch.setattr(kept_ceilings, "known", lambda *_: BOTH)
    for index in range(5):
        machine_records.add_session(tree, index, threads="1" if index else "8")
    found = site.read(tree.results, tree.repository)
    (place,) = found.places
    assert found.roofs(place, "Cpu", tree.commits[4]).peaks["float32"] == 1e9
    rows = home_page.page(found).grids[0].rows
    assert all(row.figures["efficiency"] == 1 for row in rows)
    assert found.roofs(place, "Cpu").warnings[0].startswith("commits were measured with 1 and 8 threads")
