"""What a machine can do: what may be believed, what is measured, and why not."""

import importlib.abc
import json
import math
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.engine import gpu, reported
from kernel_velocity.engine.timers import HostTimer
from kernel_velocity.machine import ceilings
from kernel_velocity.machine.ceilings import (
    Ceiling,
    from_document,
    spread_of,
    warnings,
    working_sets,
)
from kernel_velocity.machine.device_figures import figures
from kernel_velocity.machine.workloads import AROUND, MULTIPLIED, MULTIPLY_ADDS
from tests.engine import pretend_cuda

RATES = st.one_of(st.none(), st.floats(1.0, 1e15))
CEILINGS = st.lists(
    st.builds(
        Ceiling,
        what=st.sampled_from(["copy", "matmul"]),
        unit=st.sampled_from(["B/s", "FLOP/s"]),
        value=RATES,
        bytes=st.none() | st.integers(1, 1 << 40),
        dtype=st.sampled_from(["float32", "tf32"]),
        flags=st.sampled_from([(), ("underfed",)]),
    ),
    max_size=12,
)


def copy(size, value, **more):
    return Ceiling(what="copy", unit="B/s", bytes=size, value=value, **more)


@given(CEILINGS)
def test_document_round_trip(measured):
    text = json.dumps({"format": 1, "device": "cpu", "ceilings": [ceilings.asdict(ceiling) for ceiling in measured]})
    assert from_document(json.loads(text)) == tuple(measured)


@pytest.mark.parametrize(
    ("cache", "free", "largest"),
    [
        (1 << 25, 1 << 40, 1 << 30),
        (1 << 30, 1 << 40, 1 << 32),  # four times the cache
        (1 << 25, 1 << 27, 1 << 25),  # a quarter of the free memory
        (1 << 25, None, 1 << 30),
        (1 << 25, 0, 1 << 14),
    ],
)
def test_working_sets_go_beyond_the_cache_as_memory_allows(cache, free, largest):
    sizes = working_sets(1 << 14, cache, free)
    assert (sizes[0], sizes[-1]) == (1 << 14, largest)


def test_spread_ignores_outliers():
    samples = [1.0] * 50 + [1.2] * 49 + [100.0]
    assert 0 < spread_of(samples) < 0.2
    assert spread_of([1e-6 * value for value in samples]) == pytest.approx(spread_of(samples))
    assert spread_of([1.0] * 9) == 0
    assert spread_of([1.0, 2.0, 3.0]) is None


def test_doubtful_ceilings_are_warnings():
    launch = Ceiling(what="launch", unit="s", value=1e-6)
    drowned, fine = copy(1 << 10, 1e9), copy(1 << 30, 1e9, spread=0.049)
    texts = warnings([launch, drowned, fine, copy(1 << 20, 1e9, spread=0.051, flags=("underfed",))])
    assert texts == [
        "copy (1048576 bytes): underfed",
        "the samples of 1 of 4 measurements spread by more than 5%: a busy machine",
        "copies up to 1024 bytes: over 5% of the time is the call; memory can more",
    ]
    assert warnings([launch, fine]) == []


@pytest.mark.parametrize(
    ("dtype", "device", "capability", "why"),
    [
        ("tf32", "cpu", (0, 0), "TF32 is a mode of CUDA devices"),
        ("int8", "cpu", (0, 0), "measured on CUDA devices only"),
        ("bfloat16", "cpu", (0, 0), ""),
        ("bfloat16", "cuda", (7, 5), "needs compute capability 8.0, this device has 7.5"),
        ("tf32", "cuda", (8, 0), ""),
        ("int8", "cuda", (7, 0), "needs compute capability 7.5, this device has 7.0"),
        ("float16", "cuda", (6, 0), ""),
    ],
)
def test_absent_dtype_has_a_reason(dtype, device, capability, why):
    assert ceilings.absent(dtype, device, capability) == why


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="ceilings are measured through torch")


@pytest.fixture
def quick(monkeypatch):
    """Small and short: the paths are tested, not the machine."""
    for name, value in {"SECONDS": 0.002, "ENOUGH": 1 << 18, "BEYOND": 1, "FEWEST": 5}.items():
        monkeypatch.setattr(ceilings, name, value)
    monkeypatch.setattr(ceilings, "PRODUCT_SIZES", {"cpu": (32, 64), "cuda": (32, 64)})
    monkeypatch.setattr(ceilings, "PER_CALL", {"cpu": 1 << 16, "cuda": 1 << 21})
    monkeypatch.setattr(reported, "data_caches", lambda device: {"L1": 1 << 15})
    for name in ("WARM_UP", "WARM_UP_MOST"):
        monkeypatch.setattr(f"kernel_velocity.engine.sampling.{name}", 0.001)
    monkeypatch.setattr(ceilings, "cache_size", lambda device: 1 << 18)


def by_what(document, what):
    return [ceiling for ceiling in from_document(document) if ceiling.what == what]


def test_measure_cpu(torch, quick):
    document = json.loads(json.dumps(ceilings.measure("cpu", caches=True, loops="kernels._native")))
    sizes = [ceiling.bytes for ceiling in by_what(document, "copy")]
    assert sizes == [1 << 14, 1 << 15, 1 << 16, 1 << 17, 1 << 18]
    assert [ceiling.bytes for what in ("read", "triad") for ceiling in by_what(document, what)] == [1 << 18] * 2
    around = [ceiling for what in AROUND for ceiling in by_what(document, what)]
    assert [(ceiling.bytes, bool(ceiling.value)) for ceiling in around] == [(1 << 18, True)] * 2
    rereads = by_what(document, "reread")
    assert [ceiling.bytes for ceiling in rereads] == ceilings.sweep_sizes(1 << 13, 1 << 18, None)
    assert all(ceiling.value > 1e8 for ceiling in rereads)
    measured = {ceiling.dtype for ceiling in by_what(document, "matmul") if ceiling.value is not None}
    assert {"float64", "float32"} <= measured
    assert "int8" not in measured
    adds = {ceiling.dtype: ceiling for ceiling in by_what(document, MULTIPLY_ADDS)}
    assert adds.keys() == {*MULTIPLIED} and all(ceiling.value > 1e8 for ceiling in adds.values())
    for ceiling in from_document(document):
        assert (ceiling.value is None) == bool(ceiling.why), ceiling
        assert ceiling.value is None or (0 < ceiling.value < math.inf and ceiling.n >= 1)
    assert document["reported"]["cache"]
    assert document["name"]
    figure = {name: entry.value for name, entry in figures(document).items()}
    for name in ("peak_float32", "launch_overhead", "timer_tick", "threads"):
        assert figure[name] > 0, name


def test_measure_gpu_by_events(torch, quick, monkeypatch):
    waits = pretend_cuda.plant(monkeypatch, torch)
    monkeypatch.setattr(ceilings, "SMALLEST", {"cuda": 1 << 17})
    monkeypatch.setattr(gpu, "describe", lambda uuid: {"asked": uuid})
    tf32 = []
    multiply = torch.matmul

    def spy(*args, **named):
        tf32.append(torch.backends.cuda.matmul.allow_tf32)
        return multiply(*args, **named)

    monkeypatch.setattr(torch, "matmul", spy)
    document = json.loads(json.dumps(ceilings.measure("cuda", caches=True)))
    assert [ceiling.bytes for ceiling in by_what(document, "copy")] == [1 << 17, 1 << 18]
    assert not any(by_what(document, what) for what in (*AROUND, MULTIPLY_ADDS))
    assert all(ceiling.value for ceiling in by_what(document, "matmul")), document["ceilings"]
    assert {ceiling.dtype for ceiling in by_what(document, "matmul")} == set(ceilings.DTYPES)
    assert set(tf32) == {True, False}
    assert not torch.backends.cuda.matmul.allow_tf32
    assert by_what(document, "synchronised launch")[0].value
    assert all(ceiling.value for ceiling in by_what(document, "reread"))
    assert figures(document)["peak_tf32"].value > 0
    assert waits
    assert document["name"] == "Pretend"
    assert document["reported"]["nvml"] == document["reported"]["nvml_after"] == {"asked": "GPU-0-1-2"}
    assert document["reported"]["cache"] == 1 << 20


def test_failed_ceiling_is_null_with_a_reason(torch, quick, monkeypatch):
    def refuse(*args, **named):
        raise RuntimeError("not implemented for 'Half'\nlong explanation")

    monkeypatch.setattr(torch, "matmul", refuse)
    document = ceilings.measure("cpu")
    failed = [ceiling for ceiling in by_what(document, "matmul") if ceiling.dtype == "float32"]
    assert [(ceiling.value, ceiling.why) for ceiling in failed] == [(None, "not implemented for 'Half'")]
    assert by_what(document, "triad")[0].value


@pytest.mark.parametrize(
    ("lacking", "why"),
    [
        (ModuleNotFoundError("No module named 'kernels'"), "No module named 'kernels'"),
        (AttributeError("undefined symbol: kv_stream_copy_cpu"), "undefined symbol: kv_stream_copy_cpu"),
    ],
)
def test_without_native_library_torch_alone_is_measured(torch, quick, monkeypatch, lacking, why):
    of_the_library = ("kernels._native.streams", "kernels._native.multiply_adds")

    class Lacking(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name in of_the_library:
                raise lacking

    for name in of_the_library:
        monkeypatch.delitem(sys.modules, name, raising=False)
        monkeypatch.delattr(name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Lacking(), *sys.meta_path])
    by_quantity = {ceiling.what: ceiling for ceiling in ceilings._bandwidths("cpu", HostTimer, "kernels._native")}
    assert {by_quantity[what].value for what in AROUND} == {None}
    assert {by_quantity[what].why for what in AROUND} == {why}
    assert by_quantity["copy"].value
    assert by_quantity["triad"].value
    products = list(ceilings._products("cpu", HostTimer, "kernels._native"))
    assert {(ceiling.value, ceiling.why) for ceiling in products if ceiling.what == MULTIPLY_ADDS} == {(None, why)}
    assert next(ceiling.value for ceiling in products if (ceiling.what, ceiling.dtype) == ("matmul", "float32"))
    assert ceilings.limit_of("memory", "cpu")


def test_old_torch_has_no_cache_size(monkeypatch):
    """2.4 and older know no L2_cache_size, and older ones no uuid."""
    torch = pytest.importorskip("torch", reason="a device is asked through torch")
    pretend_cuda.plant(monkeypatch, torch)
    properties = {
        key: value for key, value in vars(pretend_cuda.PROPERTIES).items() if key not in ("L2_cache_size", "uuid")
    }
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda *_: SimpleNamespace(**properties))
    assert reported.cache_size("cuda") is None
    assert "uuid" in reported.reported("cuda")["nvml"]
