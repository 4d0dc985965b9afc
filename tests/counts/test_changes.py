"""What differs between two builds, and what the rules of a section call it."""

import pytest

from kernel_velocity.counts.changes import Change, FigureKey, Rules, differing
from kernel_velocity.errors import UsageError
from kernel_velocity.suite import config

INSTRUCTIONS = FigureKey("scale", "native", "float32-4k-avx2", "instructions")
SPILLS = FigureKey("scale", "native", "sm_90", "spill_bytes")


def test_only_figures_of_both_sides_differ():
    before = {INSTRUCTIONS: 100, SPILLS: 0, INSTRUCTIONS._replace(figure="reads"): 5}
    after = {INSTRUCTIONS: 101, SPILLS: 0, INSTRUCTIONS._replace(figure="writes"): 5}
    (change,) = differing(before, after)
    assert str(change) == "scale float32-4k-avx2: 100 -> 101 instructions of a call"
    assert change.ratio == 1.01


@pytest.mark.parametrize(
    ("key", "before", "after", "worse"),
    [
        (INSTRUCTIONS, 1000, 1010, False),
        (INSTRUCTIONS, 1000, 1011, True),
        (INSTRUCTIONS, 1000, 100, False),
        (INSTRUCTIONS, 0, 1, True),
        (SPILLS, 1000, 1004, True),
        (SPILLS, 8, 4, False),
        (SPILLS._replace(figure="occupancy"), 48, 32, True),
        (SPILLS._replace(figure="occupancy"), 32, 48, False),
        (SPILLS._replace(figure="float32_instructions"), 8, 7, True),
        (SPILLS._replace(figure="registers"), 32, 255, False),
    ],
)
def test_figures_become_worse(key, before, after, worse):
    rules = Rules()
    assert Change(key, before, after).worsens((*rules.regression, *rules.suspect), rules) is worse


@pytest.mark.parametrize("names", [("spill_bytes",), ("instructions",), ("registers",)])
def test_mix_is_one_name_of_the_rules(names):
    change = Change(SPILLS._replace(figure="tensor_instructions"), 8, 4)
    assert not change.worsens(names, Rules()) and change.worsens((*names, "mix"), Rules())


def test_change_from_zero_has_no_ratio():
    assert Change(SPILLS, 0, 4).ratio is None


def test_section_sets_the_rules(tmp_path):
    (tmp_path / "kernel-velocity.toml").write_text(
        '[counts]\nregression = ["spill_bytes", "instructions"]\nsuspect = ["ll_misses"]\npercent = 5\n'
    )
    rules = config.project(tmp_path).counts
    assert rules == Rules(regression=("spill_bytes", "instructions"), suspect=("ll_misses",), percent=5.0)
    assert config.project(tmp_path / "none").counts == Rules()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('regression = ["cycles"]', r"counts\.regression\[0\]: one of .*instructions.* is wanted, got 'cycles'"),
        ("percent = -1", r"counts\.percent: a number from 0 on is wanted, got -1"),
        ("most = 3", r"counts\.most: one of percent, regression, suspect is wanted"),
        ('suspect = "instructions"', r"counts\.suspect: a list is wanted"),
    ],
)
def test_malformed_rules_are_refused(tmp_path, text, words):
    (tmp_path / "kernel-velocity.toml").write_text(f"[counts]\n{text}\n")
    with pytest.raises(UsageError, match=words):
        config.project(tmp_path)
