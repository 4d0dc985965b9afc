"""The gate: which samples count, what waiting costs, what a quiet core is, and what the gauges do."""

import json
import math
import os
import random
import time
from itertools import chain, repeat

import numpy as np
import pytest

from kernel_velocity.engine import quiet, reported
from kernel_velocity.engine.quiet import EVERY, FRESH, SLICE, Gate, GateError, on_cpu, patience, reference


@pytest.mark.parametrize(("size", "slices"), [(3 * SLICE + 5, 3), (1, 2), (1 << 60, 4)])
def test_memory_gauge_copies_slice_by_slice(monkeypatch, size, slices):
    monkeypatch.setattr(quiet, "LARGEST", 4 * SLICE)
    copied = []
    address = lambda array: array.__array_interface__["data"][0]  # noqa: E731
    monkeypatch.setattr(np, "copyto", lambda to, source: copied.append((address(to), address(source), source.nbytes)))
    read = quiet.memory_gauge(size)
    for _ in range(slices + 1):
        read()
    target, source, _ = copied[0]
    wanted = [(target + n * SLICE, source + n * SLICE, SLICE) for n in range(slices)]
    assert copied == [*wanted, wanted[0]]
    assert abs(target - source) >= slices * SLICE


class Controlled:
    """A control whose calls cost so many s each, the last of them from there on, by a clock of its own."""

    def __init__(self, monkeypatch, *costs):
        self.now, self.calls, self._costs = 0.0, 0, costs
        monkeypatch.setattr(quiet, "perf_counter", lambda: self.now)

    def __call__(self):
        cost = self._costs[min(self.calls, len(self._costs) - 1)]
        self.calls += 1
        self.now = round(self.now + cost, 9)


@pytest.mark.parametrize(
    ("costs", "calls", "seconds"),
    [
        ([0.001] * 10 + [0.009, 0.002], 10, 0.002),  # what a commit left in the caches is no part of a reading
        ([0.025], 4, 0.025),  # warm after .1 s
        ([0.05, 0.03], 3, 0.03),
        ([0.05, 0.031], 3, None),  # too slow to be read often
    ],
)
def test_control_is_warm_and_fast_enough(monkeypatch, costs, calls, seconds):
    control = Controlled(monkeypatch, *costs)
    read = quiet.control_gauge(control)
    assert control.calls == calls
    assert (read and read()) == pytest.approx(seconds)


def always(seconds):
    return lambda: seconds


def test_reference_is_the_fastest_tenth(tmp_path):
    readings = [float(n) for n in range(1, quiet.CALIBRATION + 1)]
    random.Random(1).shuffle(readings)
    assert reference(iter(readings).__next__, tmp_path) == 1 + quiet.CALIBRATION // 10


NO_TIMES = ("0", "-1", '"1"', "NaN", "Infinity", "-Infinity", "1e999", "null", "true")


def test_reference_is_the_least_of_the_last_day(tmp_path):
    folder = tmp_path / "gauge"
    assert reference(always(2.0), folder) == 2.0
    assert reference(always(3.0), folder) == 2.0  # this round began in a busy second
    assert reference(always(1.0), folder) == 1.0
    assert reference(always(2.0), folder) == 1.0
    (file,) = folder.iterdir()  # and no draft
    yesterday = time.time() - FRESH - 60
    os.utime(file, (yesterday, yesterday))
    assert reference(always(3.0), folder) == 3.0
    assert reference(always(4.0), folder) == 3.0


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "\xff", '"1"', *(f'{{"seconds": {x}}}' for x in NO_TIMES)])
def test_malformed_reference_is_replaced(tmp_path, text):
    reference(always(0.1), tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_text(text, encoding="latin-1")
    assert reference(always(0.2), tmp_path) == 0.2
    assert json.loads(file.read_text())["seconds"] == 0.2
    assert reference(always(0.3), tmp_path) == 0.2


def test_unwritable_reference_folder(tmp_path):
    (tmp_path / "gauge").write_text("a file where the folder should be")
    assert reference(always(2.0), tmp_path / "gauge") == 2.0


QUIET, BUSY = 1.0, 2.0  # what the gauge reads, of a reference of 1; the limit lies between
READING, SAMPLE = 1e-5, 1e-4  # s by the clock: a reading, and a sample: five of those are a portion


class Scripted:
    """Gauge, timer and cores whose clock moves only when they are used. `did` is what was done, in order."""

    def __init__(self, *readings, then=QUIET, reading=READING, sample=SAMPLE, cores=1, by_wall=False):
        self.now, self.drawn, self.here, self.did = 0.0, 0, 0, []
        self.by_wall, self.flags = by_wall, set()
        self._readings, self._cores = chain(readings, repeat(then)), cores
        self._reading, self._sample = reading, sample

    def gauge(self):
        self.now += self._reading
        self.did.append("read")
        return next(self._readings)

    def memory(self):
        self.did.append("memory")
        return 100 * BUSY

    def control(self):
        self.now += 2 * self._sample
        self.did.append("control")
        return 2 * self._sample

    def samples(self, call, batch, n):
        """Return n samples that are numbers: 1, 2, 3, ..."""
        self.now += n * self._sample
        self.did.append(n)
        self.drawn += n
        return [float(number) for number in range(self.drawn - n + 1, self.drawn + 1)]

    def move(self):
        self.here = (self.here + 1) % self._cores
        self.did.append(f"to {self.here}")


@pytest.fixture
def gated(monkeypatch):
    """Return a function that makes a gate of a script, and one that takes samples through it."""

    def make(script, patience=1.0, *, memory=False, control=False):
        monkeypatch.setattr(quiet, "perf_counter", lambda: script.now)
        cores = script if script._cores > 1 else None
        gauges = {"memory": script.memory if memory else None, "control": script.control if control else None}
        made = Gate(script.gauge, QUIET, patience, cores, **gauges)
        return made, lambda n, per_batch=SAMPLE: made.take(script, None, 1, n, per_batch)

    return make


def numbers(first, last):
    return [float(number) for number in range(first, last + 1)]


@pytest.mark.parametrize(
    ("readings", "settings", "first", "last", "did", "lost"),
    [
        ((), {}, 1, 12, "read 5 read 5 read 2 read", 0),
        ((), {"then": 1.1}, 1, 5, "read 5 read", 0),  # a tenth above the reference is quiet, more is not
        ((1.0, 1.11), {}, 6, 10, "read 5 read read 5 read", 5 * SAMPLE + READING),
        ((QUIET, BUSY), {}, 6, 15, "read 5 read read 5 read 5 read", 5 * SAMPLE + READING),
        ((BUSY, BUSY), {}, 1, 5, "read read read 5 read", 2 * READING),
        # On another core the first samples fill the caches. Back on its own they are full.
        ((BUSY,), {"cores": 2}, 6, 10, "read to 1 read 5 read 5 read", 5 * SAMPLE + 2 * READING),
        ((BUSY,), {"cores": 2}, 3, 4, "read to 1 read 2 read 2 read", 2 * SAMPLE + 2 * READING),
        ((BUSY, BUSY), {"cores": 2}, 1, 5, "read to 1 read to 0 read 5 read", 2 * READING),
        # One that is busy after that is left. It came from core 1 last, so core 0 is another one, too.
        *(
            ((BUSY, QUIET, BUSY), {"cores": cores}, 11, 15, did, 10 * SAMPLE + 4 * READING)
            for cores, did in (
                (3, "read to 1 read 5 read to 2 read 5 read 5 read"),
                (2, "read to 1 read 5 read to 0 read 5 read 5 read"),
            )
        ),
        # By the wall clock each sample is a portion.
        ((BUSY,), {"cores": 2, "by_wall": True}, 2, 3, "read to 1 read 1 read 1 read 1 read", SAMPLE + 2 * READING),
    ],
)
def test_samples_of_a_quiet_core_count(gated, *, readings, settings, first, last, did, lost):
    script = Scripted(*readings, **settings)
    made, take = gated(script)
    samples, spent = take(last - first + 1)
    assert samples == numbers(first, last)
    assert " ".join(map(str, script.did)) == did
    assert spent == pytest.approx(len(samples) * SAMPLE)
    assert made.lost == pytest.approx(lost)
    assert not made.is_open


def test_control_alternates_with_samples(gated):
    """It takes 2 samples' time, three tenths of theirs: its next turn is after 7, two portions."""
    script = Scripted()
    made, take = gated(script, control=True)
    assert take(15)[0] == [*numbers(1, 5), *numbers(7, 16)]  # the sixth fetched what the control displaced
    turn = ["control", "read", 1]
    assert script.did == ["read", 5, "read", *turn, "read", 5, "read", 5, "read", *turn]
    assert made.control_readings == pytest.approx([2 * SAMPLE] * 2)
    assert made.gauges()[2] == pytest.approx(2 * SAMPLE)
    assert made.lost == 0


def test_sample_longer_than_the_patience_counts(gated):
    """Thrown away, it would be the last. The readings beside it still tell."""
    script = Scripted(QUIET, then=BUSY, sample=2.0)
    made, take = gated(script, patience=1.0)
    assert take(1, per_batch=2.0)[0] == [1.0]
    assert made.readings == [(QUIET + BUSY) / 2]


def test_page_faults_of_counted_samples(gated, monkeypatch):
    script = Scripted(QUIET, BUSY)  # the first portion is lost
    monkeypatch.setattr(quiet, "page_faults", lambda: 100 * script.drawn)
    made, take = gated(script)
    take(10)
    assert made.faults == 1000


def test_everything_counts_after_waiting_out_the_patience(gated):
    script = Scripted(*(2.0, 3.0, 4.0, 5.0), then=6.0, reading=1e-3)
    made, take = gated(script, 2.5e-3)
    assert take(5) == ([], 0.0)  # once fewer, so that whoever asked can stop
    assert made.is_open
    assert (made.lost, script.did) == (2.5e-3, ["read"] * 4)
    assert take(10)[0] == numbers(1, 10)
    assert script.did == [*["read"] * 4, 5, "read", 5, "read"]
    assert made.lost == 2.5e-3
    assert made.readings == [5.5, 6.0]  # what was read last opens the first of them


@pytest.mark.parametrize(("per_batch", "portion"), [(1e-4, 5), (2.4e-4, 2), (1e-2, 1), (5.0, 1), (1e-9, 20)])
def test_portion_takes_half_a_millisecond(gated, per_batch, portion):
    script = Scripted()
    gated(script)[1](20, per_batch)
    assert set(script.did) == {"read", portion}


def test_memory_gauge_decides_nothing(gated):
    script = Scripted(sample=0.4 * EVERY)
    made, take = gated(script, memory=True)
    assert take(7, 0.4 * EVERY)[0] == numbers(1, 7)
    reading = ["read", 1]
    assert script.did == [*reading, "read", "memory", *[1, "read"] * 3, "memory", *[1, "read"] * 3, "memory"]
    assert (made.gauges(), made.lost) == ((QUIET, 100 * BUSY, None), 0)


@pytest.mark.parametrize(("text", "seconds"), [("", quiet.PATIENCE), ("0", 0.0), ("1.5", 1.5)])
def test_patience_setting(text, seconds):
    assert patience({"KV_PATIENCE": text}) == seconds
    assert patience({}) == quiet.PATIENCE


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf", "1 s"])
def test_malformed_patience_is_refused(text):
    with pytest.raises(GateError, match=f"KV_PATIENCE: got '{text}'; wanted seconds, 0 or more"):
        patience({"KV_PATIENCE": text})


@pytest.fixture
def host(monkeypatch):
    """A host of four cores, of which the thread may use three. 1 MiB of cache of a core's own. Where the thread is."""
    allowed = [{0, 1, 2}]
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: allowed[-1])
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cores: allowed.append(cores))
    monkeypatch.setattr(reported, "neighbours", lambda: [1, 2])
    monkeypatch.setattr(reported, "private_cache", lambda: 1 << 20)
    monkeypatch.setattr(reported, "last_level_cache", lambda: 8 << 20)
    monkeypatch.setattr(quiet, "cpu_gauge", lambda: always(QUIET))
    return allowed


@pytest.mark.parametrize(
    ("environ", "held"),
    [
        ({}, True),
        ({"KV_THREADS": "1"}, True),
        ({"KV_PATIENCE": "0"}, False),
    ],
)
def test_single_thread_is_held_on_one_core(host, tmp_path, environ, held):
    with on_cpu(0, tmp_path, environ) as made:
        assert host[-1] == ({1} if held else {0, 1, 2})
        if held:
            made._cores.move()
            assert host[-1] == {2}
            made._cores.move()
            assert host[-1] == {1}
    assert host[-1] == {0, 1, 2}
    assert (made._cores is not None) is held


def test_machine_that_is_never_quiet_is_asked_now_and_then(host, tmp_path, monkeypatch):
    monkeypatch.setattr(quiet, "reference", lambda gauge, folder: QUIET)

    def gives_up(reading, patience="1e-3"):
        monkeypatch.setattr(quiet, "cpu_gauge", lambda: always(reading))
        with on_cpu(0, tmp_path, {"KV_PATIENCE": patience}) as gate:
            assert gate.is_open is (gate.gives_up or patience == "0")
            gate.take(Scripted(), None, 1, quiet.ENOUGH, SAMPLE)
            return gate.gives_up

    rounds = range(quiet.IN_VAIN + 2 * quiet.ASK_AGAIN)
    asked_again = {quiet.IN_VAIN, quiet.IN_VAIN + quiet.ASK_AGAIN}
    assert [gives_up(BUSY) for _ in rounds] == [n >= quiet.IN_VAIN and n not in asked_again for n in rounds]
    assert not gives_up(BUSY, patience="0") and quiet.rounds_in_vain(tmp_path) == len(rounds)  # who never waits
    assert not gives_up(QUIET) and quiet.rounds_in_vain(tmp_path) == 0
    assert not gives_up(BUSY)
    long_ago = time.time() - FRESH - 1
    os.utime(next(tmp_path.glob("in-vain-*.json")), (long_ago, long_ago))
    assert quiet.rounds_in_vain(tmp_path) == 0


def test_several_threads_have_no_gate(host, tmp_path):
    with on_cpu(0, tmp_path, {"KV_THREADS": "2"}) as made:
        assert made is None
        assert host == [{0, 1, 2}]


def test_thread_is_released_on_errors(host, tmp_path, monkeypatch):
    with pytest.raises(ZeroDivisionError), on_cpu(0, tmp_path, {}):
        assert host[-1] == {1}
        raise ZeroDivisionError
    assert host[-1] == {0, 1, 2}

    def no_room(size, untimed):
        assert host[-1] == {1}
        raise MemoryError

    monkeypatch.setattr(quiet, "memory_gauge", no_room)
    with pytest.raises(MemoryError), on_cpu(math.inf, tmp_path, {}):
        pass
    assert host[-1] == {0, 1, 2}


def test_unknown_cores_wait_in_place(host, tmp_path, monkeypatch):
    monkeypatch.setattr(reported, "neighbours", list)
    with on_cpu(0, tmp_path, {}) as made:
        assert made._cores is None
        assert not made.is_open
    assert host == [{0, 1, 2}]


@pytest.mark.parametrize(
    ("working_set", "untimed", "called"),
    [
        *((size, None, 10) for size in (0, 1 << 20)),  # the memory's gauge would displace what a core's caches hold
        *((size, 0, 10) for size in ((1 << 20) + 1, 8 << 20)),
        *((size, 1, 0) for size in ((8 << 20) + 1, math.inf)),  # pushes the output out first. A control takes long
    ],
)
def test_gauges_beside_a_working_set(host, tmp_path, monkeypatch, *, working_set, untimed, called):
    made_with, calls = [], []
    monkeypatch.setattr(
        quiet, "memory_gauge", lambda *args, untimed: made_with.append((*args, untimed)) or always(BUSY)
    )
    with on_cpu(working_set, tmp_path, {}, lambda: calls.append(1)) as made:
        assert (made._memory is not None, made._control is not None) == (untimed is not None, called > 0)
    assert made_with == ([] if untimed is None else [(8 << 20, untimed)])
    assert len(calls) == called  # to warm it


@pytest.mark.parametrize("unknown", ["private_cache", "last_level_cache"])
def test_unknown_caches_have_no_memory_gauge(host, tmp_path, monkeypatch, unknown):
    monkeypatch.setattr(reported, unknown, lambda: None)
    with on_cpu(math.inf, tmp_path, {}, lambda: None) as made:
        assert made._memory is made._control is None
