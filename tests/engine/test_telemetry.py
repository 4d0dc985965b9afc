"""Telemetry lines: at most 300 bytes, exact where they identify, strict when read."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.documents import has_checksum
from kernel_velocity.engine import telemetry
from kernel_velocity.engine.gpu import GpuActivity
from kernel_velocity.engine.telemetry import KEYS, LINE_LIMIT, Round, TelemetryError, decode, encode

FULL = Round(
    benchmark="matmul.Cpu.time_hot",
    params=("compile", "float32-512x512x512"),
    time=1_764_000_000.12,
    estimate=1.2345678901234567e-05,
    n=12345,
    batch=128,
    spent=0.25123,
    setup=1.5,
    warmup=0.0512,
    stop="budget",
    half_width=0.00123,
    cv=0.0456,
    autocorrelation=-0.123,
    drift=0.00234,
    tick=4.0e-08,
    overhead=2.91e-08,
    load=12.34,
    switches=12,
    steal=0.02,
    method="0123abcd",
    launch="1a2b3f",
    flags=("contended", "quantised", "underfed"),
)


@given(st.floats(1e-9, 1e3), st.integers(1, 10**6), st.lists(st.sampled_from(["underfed", "quantised"]), unique=True))
def test_round_trip(estimate, n, flags):
    record = dataclasses.replace(FULL, estimate=estimate, n=n, flags=tuple(flags), params=("native", "f32-1k"))
    line = encode(record)
    assert len(line.encode()) < LINE_LIMIT
    rounded = {"spent": 0.25, "warmup": 0.051, "half_width": 0.0012, "cv": 0.046, "autocorrelation": -0.12}
    assert decode(line) == dataclasses.replace(record, **rounded, drift=0.0023, overhead=2.9e-8, load=12)
    assert decode(encode(dataclasses.replace(record, steal=None))).steal is None


GPU = GpuActivity(
    sm_before=1.98e9,
    sm_after=1.755e9,
    memory_before=2.619e9,
    memory_after=None,
    power=698.7,
    temperature=71.0,
    reasons=0x44,
)
ON_GPU = dataclasses.replace(
    FULL,
    benchmark="quantize_int8.Cuda.time_hot",
    params=("compile", "float32-500k"),
    waiting=1.234e-05,
    energy=71.2345,
    gpu=GPU,
)


def test_gpu_figures_fit():
    """A drift of the clocks by 1% survives."""
    gpu = dataclasses.replace(GPU, sm_after=1.96e9, memory_after=2.592e9)
    back = decode(encode(dataclasses.replace(ON_GPU, gpu=gpu)))
    assert back.gpu == dataclasses.replace(gpu, power=699, temperature=71)
    assert (back.waiting, back.cv, back.half_width) == (1.2e-05, 0.046, 0.0012)
    assert back.energy is None  # it is the next to go
    assert decode(encode(dataclasses.replace(ON_GPU, params=("native", "float32-1M")))).energy == 71.23
    assert decode(encode(ON_GPU)).gpu.memory_after is None


GATED = dataclasses.replace(
    FULL, core_gauge=2.834561e-05, memory_gauge=0.000104567, control_gauge=0.00123456, lost=0.123456
)


def test_gauges_keep_a_tenth_of_a_percent():
    back = decode(encode(GATED))
    assert (back.core_gauge, back.memory_gauge, back.control_gauge) == (2.835e-05, 0.0001046, 0.001235)
    assert back.lost == 0.12
    assert decode(encode(dataclasses.replace(GATED, lost=0.0))).lost == 0  # 0 is said, and is not unknown
    without = decode(encode(FULL))
    assert {getattr(without, name) for name in (*telemetry.GAUGES, "lost")} == {None}


@pytest.mark.parametrize("name", [*telemetry.GAUGES, "lost"])
def test_malformed_gauge_is_refused(name):
    with pytest.raises(TelemetryError, match=rf"{name} \({KEYS[name]}\): float"):
        decode(json.dumps(telemetry.parse(encode(GATED)) | {KEYS[name]: "1e-5"}))


@pytest.mark.parametrize("length", range(10, 51))
def test_long_line_drops_what_is_least_missed(length):
    """What went first comes back where what went after it made more room than was wanted."""
    record = dataclasses.replace(GATED, waiting=1.234e-05, energy=71.2345, gpu=GPU, params=("compile", "x" * length))
    line = json.loads(encode(record))
    assert size(line) < LINE_LIMIT
    dropped = [name for name, key in KEYS.items() if key not in line and getattr(record, name) is not None]
    assert set(dropped) <= set(telemetry._LEAST_MISSED)
    for name in dropped:
        assert size(line | {KEYS[name]: telemetry._short(name, getattr(record, name))}) >= LINE_LIMIT, name


def size(line):
    return len(json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode())


@pytest.mark.parametrize("text", ["[1,2,3]", "[1,2,3,4,5,6,true]", '[1,2,3,4,5,6,"7"]', "[1,2,3,4,5.5,6,7]", "7"])
def test_malformed_gpu_is_refused(text):
    line = telemetry.parse(encode(ON_GPU)) | {"v": json.loads(text)}
    with pytest.raises(TelemetryError, match=r"gpu \(v\): 7 whole numbers or nulls"):
        decode(json.dumps(line))


def test_unknown_keys_are_ignored():
    line = telemetry.parse(encode(FULL)) | {"zz": 1}
    assert decode(json.dumps(line)) == decode(encode(FULL))


def unchecked(record):
    """Return the line of a round as earlier versions wrote it, without a checksum."""
    return json.dumps(telemetry.parse(encode(record)), separators=(",", ":"))


def test_line_without_a_checksum_is_read():
    assert decode(unchecked(FULL)) == decode(encode(FULL))


def test_checksum_is_left_out_last():
    """A series with a long name keeps its telemetry."""
    long = dataclasses.replace(GATED, waiting=1.234e-05, gpu=GPU, params=("compile", "x" * 50))
    assert not has_checksum(encode(long))
    assert has_checksum(encode(dataclasses.replace(long, params=("compile", "x" * 30))))


@given(st.integers(0, len(encode(FULL)) - 1), st.integers(0, 6))
def test_changed_line_is_refused_or_says_the_same(at, bit):
    line = encode(FULL).encode()
    changed = bytes([*line[:at], line[at] ^ (1 << bit), *line[at + 1 :]]).decode()
    try:
        record = decode(changed)
    except TelemetryError:
        return
    assert record == decode(encode(FULL))


def test_flags_have_distinct_letters():
    assert len(set(telemetry.FLAGS.values())) == len(telemetry.FLAGS)
    record = dataclasses.replace(FULL, params=("eager", "c"), flags=tuple(telemetry.FLAGS))
    assert decode(encode(record)).flags == tuple(telemetry.FLAGS)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "not JSON"),
        ("[1]", "an object is wanted"),
        ("{}", r"benchmark \(b\) is missing"),
        (unchecked(FULL).replace('"n":12345', '"n":"12345"'), r"n \(n\): int is wanted"),
        (unchecked(FULL).replace('["compile"', '[7,"compile"'), r"params \(p\): a list of strings"),
        (unchecked(FULL).replace('"c":0.046', '"c":true'), r"cv \(c\): float"),
        (unchecked(FULL).replace('"c":0.046', '"c":NaN'), r"cv \(c\): float"),
        (encode(FULL).replace('"n":12345', '"n":12346'), "changed since it was written"),
        (json.dumps(json.loads(encode(FULL)) | {"n": 12346}), "changed since it was written"),
    ],
)
def test_malformed_line_is_refused(line, says):
    with pytest.raises(TelemetryError, match=says):
        decode(line)


@pytest.mark.parametrize("estimate", [0.0, -1.0, float("nan"), float("inf")])
def test_estimate_must_be_a_time(estimate):
    with pytest.raises(TelemetryError, match="not a positive time"):
        encode(dataclasses.replace(FULL, estimate=estimate))


def test_too_long_line_is_refused():
    with pytest.raises(TelemetryError, match="at most 300"):
        encode(dataclasses.replace(GATED, waiting=1.234e-05, gpu=GPU, params=("compile", "x" * 51)))


def test_effective_sample_size():
    assert dataclasses.replace(FULL, n=3000, autocorrelation=0.5).effective_n == 1000
    assert dataclasses.replace(FULL, n=3000, autocorrelation=-0.5).effective_n == 3000
    assert dataclasses.replace(FULL, autocorrelation=None).effective_n is None
