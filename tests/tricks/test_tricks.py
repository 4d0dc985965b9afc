"""Every trick is found, by what its entry names, and the same code without the trick passes."""

import shutil

import pytest

from kernel_velocity.results.measurement import FIRST_LOOK
from tests.tricks.honest_code import HONEST
from tests.tricks.table import AGAIN, CROWDED, FASTER, LATE, TRICKS, UNFINISHED
from tests.tricks.verdicts import finding, run, run_honest

pytest.importorskip("torch", reason="the tricks' inputs are PyTorch's")
pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
    pytest.mark.timeout(3600),  # `running` bounds each process, and how many there are: a busy machine takes long
]
# One of each kind of defence: they run with every change. The others are slow together.
FAST = (
    "computes the first three calls only",
    "works only where the output is poisoned",
    "zeroes its inputs, after which there is nothing to do",
    "replaces the harness's comparison",
    "zeroes those elements of its input that were never looked at",
    "returns a view of its input in place of a copy",
    "launches on a stream that nobody waits for",
)
# One of each form and definition: without its trick the code of the others is much the same.
TWINS = tuple({(trick.form, trick.definition): trick for trick in reversed(TRICKS)}.values())
HONEST_FAST = ("sorts", "gathers by indices", "is over in less time than its call takes")
# What finds a trick by how long it takes: such tricks run alone, and so does what must not be taken for one.
BY_TIME = {FASTER, AGAIN, LATE, UNFINISHED, CROWDED}


def of(entries, fast, by_time=lambda entry: True):
    """Return entries as parameters. Those that are not fast are slow, and those that times decide run alone."""
    return [
        pytest.param(entry, id=entry.name, marks=() if entry.name in fast else marks_of(by_time(entry)))
        for entry in entries
    ]


def marks_of(alone):
    return (pytest.mark.slow, pytest.mark.alone) if alone else (pytest.mark.slow,)


@pytest.mark.parametrize("trick", of(TRICKS, FAST, lambda trick: not BY_TIME.isdisjoint(trick.by)))
def test_trick_is_found(tmp_path, trick):
    """In a round. Of what times decide, in one of the fewest rounds that a series has."""
    outcomes = []
    for number in range(1 if BY_TIME.isdisjoint(trick.by) else FIRST_LOOK):
        (folder := tmp_path / str(number)).mkdir()
        outcomes.append(run(folder, trick, is_trick=True))
        if finding(trick, outcomes[-1]):
            return
    pytest.fail(str(outcomes))


@pytest.mark.parametrize("trick", of(TWINS, FAST[:1]))
def test_same_code_without_the_trick_passes(tmp_path, trick):
    assert run(tmp_path, trick, is_trick=False).refused == ""


@pytest.mark.parametrize("honest", of(HONEST, HONEST_FAST))
def test_honest_code_that_looks_like_a_trick_passes(tmp_path, honest):
    assert run_honest(tmp_path, honest).refused == ""


def test_table_has_every_form_and_says_where_each_trick_was_seen():
    assert len({trick.name for trick in TRICKS}) == len(TRICKS)
    assert {trick.form for trick in TRICKS} == {"native", "python", "cuda", "compare"}
    assert all(trick.by and trick.reported_by for trick in TRICKS)
