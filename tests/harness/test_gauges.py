"""Gauges: what they do, and what a quiet core reads."""

import json
import os
import random
import time
from pathlib import Path

import numpy as np
import pytest

from kernel_velocity.harness import gauges, reported
from kernel_velocity.harness.gauges import FRESH, SLICE, reference


def test_gauges_take_time():
    assert 0 < gauges.cpu_gauge()() < 1
    assert 0 < gauges.memory_gauge(4 * SLICE)() < 1


@pytest.mark.parametrize(("size", "slices"), [(3 * SLICE + 5, 3), (1, 2), (1 << 60, 4)])
def test_memory_is_copied_slice_by_slice(monkeypatch, size, slices):
    monkeypatch.setattr(gauges, "LARGEST", 4 * SLICE)
    copied = []
    address = lambda array: array.__array_interface__["data"][0]  # noqa: E731
    monkeypatch.setattr(np, "copyto", lambda to, source: copied.append((address(to), address(source), source.nbytes)))
    read = gauges.memory_gauge(size)
    for _ in range(slices + 1):
        read()
    target, source, _ = copied[0]
    wanted = [(target + n * SLICE, source + n * SLICE, SLICE) for n in range(slices)]
    assert copied == [*wanted, wanted[0]]
    assert abs(target - source) >= slices * SLICE


def test_slices_before_the_timed_one_are_not_timed(monkeypatch):
    now, copied = [0.0], []
    monkeypatch.setattr(gauges, "perf_counter", lambda: now[0])

    def copy(to, source):
        now[0] += 1.0 if len(copied) % 3 == 2 else 10.0
        copied.append(source.nbytes)

    monkeypatch.setattr(np, "copyto", copy)
    read = gauges.memory_gauge(4 * SLICE, untimed=2)
    assert [read(), read()] == [1.0, 1.0]
    assert copied == [SLICE] * 6


class Controlled:
    """A control whose calls cost so many s each, the last of them from there on, by a clock of its own."""

    def __init__(self, monkeypatch, *costs):
        self.now, self.calls, self._costs = 0.0, 0, costs
        monkeypatch.setattr(gauges, "perf_counter", lambda: self.now)

    def __call__(self):
        cost = self._costs[min(self.calls, len(self._costs) - 1)]
        self.calls += 1
        self.now = round(self.now + cost, 9)


def test_a_control_is_warm_when_it_is_read_and_finds_what_it_left_itself(monkeypatch):
    """The kernel's own leavings are not to be told apart from a slow machine."""
    control = Controlled(monkeypatch, *[0.001] * 10, 0.009, 0.002)
    read = gauges.control_gauge(control)
    assert control.calls == 10
    assert read() == pytest.approx(0.002)
    assert control.calls == 12


def test_a_control_is_not_warmed_for_long(monkeypatch):
    control = Controlled(monkeypatch, 0.025)
    assert gauges.control_gauge(control) is not None
    assert control.calls == 4


@pytest.mark.parametrize(("seconds", "read"), [(0.03, True), (0.031, False)])
def test_a_control_that_takes_long_is_not_read(monkeypatch, seconds, read):
    control = Controlled(monkeypatch, 1.0, seconds) if not read else Controlled(monkeypatch, 0.05, seconds)
    assert (gauges.control_gauge(control) is not None) is read


def always(seconds):
    return lambda: seconds


def test_the_reference_is_the_fastest_tenth(tmp_path):
    readings = [float(n) for n in range(1, gauges.CALIBRATION + 1)]
    random.Random(1).shuffle(readings)
    assert reference(iter(readings).__next__, tmp_path) == 1 + gauges.CALIBRATION // 10


def test_the_reference_is_the_least_of_the_last_day(tmp_path):
    folder = tmp_path / "gauge"
    assert reference(always(2.0), folder) == 2.0
    assert reference(always(3.0), folder) == 2.0  # this round began in a busy second
    assert reference(always(1.0), folder) == 1.0
    assert reference(always(2.0), folder) == 1.0
    (kept,) = folder.iterdir()  # and no draft
    yesterday = time.time() - FRESH - 60
    os.utime(kept, (yesterday, yesterday))
    assert reference(always(3.0), folder) == 3.0
    assert reference(always(4.0), folder) == 3.0


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "\xff", '"1"', *(f'{{"seconds": {x}}}' for x in (0, -1, '"1"'))])
def test_a_kept_reference_that_is_none_is_replaced(tmp_path, text):
    reference(always(1.0), tmp_path)
    (kept,) = tmp_path.iterdir()
    kept.write_text(text, encoding="latin-1")
    assert reference(always(2.0), tmp_path) == 2.0
    assert json.loads(kept.read_text()) == {"seconds": 2.0}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "null", "true"])
def test_a_kept_reference_is_a_number(tmp_path, number):
    reference(always(0.1), tmp_path)
    (kept,) = tmp_path.iterdir()
    kept.write_text(f'{{"seconds": {number}}}')
    assert reference(always(0.2), tmp_path) == 0.2
    assert reference(always(0.3), tmp_path) == 0.2


def test_a_reference_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    reference(always(2.0), tmp_path)
    (kept,) = tmp_path.iterdir()

    def killed(self, target):
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        reference(always(1.0), tmp_path)
    assert json.loads(kept.read_text()) == {"seconds": 2.0}


def test_another_machine_has_another_reference(tmp_path, monkeypatch):
    reference(always(1.0), tmp_path)
    monkeypatch.setattr(reported, "name", lambda device: "another processor")
    assert reference(always(2.0), tmp_path) == 2.0
    monkeypatch.setattr(np, "__version__", "0")
    assert reference(always(3.0), tmp_path) == 3.0


def test_a_folder_that_cannot_be_written_to_costs_nothing_but_the_memory(tmp_path):
    (tmp_path / "gauge").write_text("a file where the folder should be")
    assert reference(always(2.0), tmp_path / "gauge") == 2.0
