"""What ingest puts back, withdraws and leaves alone, and on which machine."""

import os

import pytest

from kernel_velocity.results import ingest
from tests.results.spooled import NAME, at, fail, spool, stored_lines, stored_values, write_result


@pytest.mark.parametrize("when", [0.1, 1.5])  # before the rounds that asv stored_lines, and between them
def test_a_round_with_wrong_numbers_withdraws_the_value_for_good(tmp_path, when):
    path = write_result(tmp_path, [4.0, 1.5], [[4.0], [1.0, 2.0]])
    spool(tmp_path, at(100.0, 1.0), at(200.0, 2.0))
    fail(tmp_path, when * 100)
    (line,) = ingest.ingest(tmp_path, now=300.0, machine="box").restored
    assert "value withdrawn" in line and NAME in line
    assert stored_values(path) == [4.0, None]
    assert len(stored_lines(tmp_path, suffix=".failures.jsonl")) == 1
    spool(tmp_path, at(300.0, 4.0, ("eager", "c")))  # the next ingest has something to do here
    assert ingest.ingest(tmp_path, now=310.0, machine="box").restored == []
    assert stored_values(path) == [4.0, None]


def test_kernel_that_always_crashes_loses_its_old_time(tmp_path):
    write_result(tmp_path, [4.0, 1.0], [[4.0], [1.0]])
    spool(tmp_path, at(1.0, 1.0))
    ingest.ingest(tmp_path, now=10.0, machine="box")
    path = write_result(tmp_path, [4.0, None], [[4.0], None])
    fail(tmp_path, 50.0, died=True, error="its process crashed")
    for _ in range(2):
        assert ingest.ingest(tmp_path, now=60.0, machine="box").restored == []
        assert stored_values(path) == [4.0, None]
        spool(tmp_path, at(61.0, 4.0, ("eager", "c")))  # the second ingest, too, has something to do


@pytest.mark.parametrize("machine", ["box", None])
def test_measuring_machine_gets_values_and_failures(tmp_path, machine):
    path = write_result(tmp_path, [4.0, None], [[4.0], None])
    other = write_result(tmp_path, [None, None], [None, None], machine="another")
    os.utime(path, (1.0, 1.0))  # a checkout makes any file the newest
    spool(tmp_path, at(1.0, 1.0), at(1.0, 4.0, ("eager", "c")))
    fail(tmp_path, 2.0, died=True)
    assert len(ingest.ingest(tmp_path, now=10.0, machine=machine).restored) == 1
    assert stored_values(path) == [4.0, 1.0]
    assert stored_values(other) == [None, None]
    assert len(stored_lines(tmp_path, suffix=".failures.jsonl")) == 1
    assert stored_lines(tmp_path, "another", ".failures.jsonl") == []


@pytest.mark.parametrize(("when", "restored"), [(1002.0, 1), (900.0, 0), (2000.0, 0)])
def test_restoring_without_machine_name_or_value(tmp_path, when, restored):
    write_result(tmp_path, [None, None], [None, None])  # from 1000 to 1005 s
    spool(tmp_path, at(when, 1.0))
    assert len(ingest.ingest(tmp_path, now=when).restored) == restored


def test_rounds_of_another_machine_are_never_restored(tmp_path):
    other = write_result(tmp_path, [None, None], [None, None], machine="another")
    spool(tmp_path, at(1002.0, 1.0))
    assert ingest.ingest(tmp_path, now=1010.0, machine="box").waiting == 1
    assert stored_values(other) == [None, None]
