"""Change points found in two processes are those found in one."""

import numpy as np
import pytest

from tests.tools import test_series_changes
from tests.tools.planted import stepped
from tools import changes_apart, series_changes
from tools.changes_apart import Finder

SERIES = {
    name: test_series_changes.series(stepped(-7.0, -7.0 + effect, seed=seed))
    for seed, (name, effect) in enumerate({"a": 0.2, "b": -0.1, "c": 0.0, "d": 0.3, "e": 0.15}.items())
}
EXPECTED = {name: series_changes.of(each) for name, each in SERIES.items()}


@pytest.fixture
def many(monkeypatch):
    monkeypatch.setattr(changes_apart, "FEWEST", 1)
    monkeypatch.setattr(changes_apart.os, "sched_getaffinity", lambda _: {0, 1})


@pytest.mark.usefixtures("many")
@pytest.mark.parametrize("order", ["abcde", "edcba", "ddb"])
def test_in_whatever_order_they_are_asked_for(monkeypatch, order):
    here = []
    monkeypatch.setattr(series_changes, "of", lambda columns: here.append(columns) or EXPECTED["a"])
    finder = Finder(tuple(SERIES), SERIES.__getitem__)
    found = {name: finder.of(name) for name in order}
    assert {name: found[name] for name in found if name in "bd"} == {
        name: EXPECTED[name] for name in set(order) & {*"bd"}
    }
    assert len(here) == len(set(order) - {*"bd"})
    assert len(EXPECTED["d"]) == 1


@pytest.mark.usefixtures("many")
def test_what_the_other_process_does_not_say_is_found_here(monkeypatch):
    monkeypatch.setattr(changes_apart.sys, "executable", "false")
    finder = Finder(tuple(SERIES), SERIES.__getitem__)
    assert {name: finder.of(name) for name in SERIES} == EXPECTED


def test_few_values_are_worth_no_process(monkeypatch):
    monkeypatch.setattr(changes_apart.subprocess, "Popen", None)
    finder = Finder(tuple(SERIES), SERIES.__getitem__)
    assert {name: finder.of(name) for name in SERIES} == EXPECTED
    assert np.sum([len(each) for each in EXPECTED.values()]) >= 4
