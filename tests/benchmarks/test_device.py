"""The machine as series of asv: one for each figure, measured once, null where it cannot be, n/a without the device."""

import json

import pytest

from benchmarks import device
from kernel_velocity.harness import ceilings, device_figures, gpu
from kernel_velocity.harness.device_figures import UNITS, version
from tests.harness import pretend_cuda
from tests.harness.test_ceilings import quick as quick  # noqa: PLC0414 - a fixture


def tracks(cls):
    return {name.removeprefix("track_"): getattr(cls, name) for name in dir(cls) if name.startswith("track_")}


@pytest.mark.parametrize(("cls", "where"), [(device.Cpu, "cpu"), (device.Cuda, "cuda")])
def test_series_for_each_figure(cls, where):
    assert {name: method.unit for name, method in tracks(cls).items()} == UNITS[where]
    document = {"figures": {name: float(place) for place, name in enumerate(UNITS[where])}}
    for name, method in tracks(cls).items():
        assert method(cls(), document) == document["figures"][name]


def test_figure_versions():
    base = pytest.importorskip("asv_runner.benchmarks._base", reason="asv's own look-up is what is tested")
    for cls, where in ((device.Cpu, "cpu"), (device.Cuda, "cuda")):
        for name, method in tracks(cls).items():
            assert base._get_first_attr([method, cls], "version", None) == version(where, name), name
    assert (version("cpu", "dram_copy_bandwidth"), version("cuda", "dram_copy_bandwidth")) == ("2", "1")
    assert version("cpu", "dram_read_bandwidth") == "1"


def test_unmeasured_figure_is_none():
    document = {"figures": dict.fromkeys(UNITS["cpu"])}
    assert device.Cpu().track_peak_float16(document) is None
    assert device.Cpu().setup(document) is None


def test_missing_device_is_na(monkeypatch):
    def refuse(*_, **__):
        raise NotImplementedError("PyTorch sees no CUDA device")

    monkeypatch.setattr(ceilings, "measure", refuse)
    document = device.Cuda().setup_cache()
    with pytest.raises(NotImplementedError, match="sees no CUDA device"):
        device.Cuda().setup(document)


def test_devices_have_their_own_setup_cache():
    """asv keeps what setup_cache returns by the line that it begins in."""
    base = pytest.importorskip("asv_runner.benchmarks._base", reason="asv's own key is what is tested")
    keys = {base.get_setup_cache_key(cls.setup_cache) for cls in (device.Cpu, device.Cuda)}
    assert len(keys) == 2


def test_cpu_is_measured(quick, monkeypatch):
    pytest.importorskip("torch", reason="ceilings are measured through torch")
    pytest.importorskip("torch.profiler", reason="a whole PyTorch is wanted, not a part that stands in for it")
    for name, answer in (("cache_size", 1 << 16), ("free_memory", 1 << 30)):
        monkeypatch.setattr(ceilings, name, lambda device, answer=answer: answer)
    monkeypatch.setattr("kernel_velocity.harness.reported.data_caches", lambda device: {"L1": 1 << 14, "L3": 1 << 16})
    # Of sets this small a busy machine may show a larger cache than the largest of them lies beyond.
    monkeypatch.setattr(
        device_figures, "sizes_seen", lambda points, *_: dict.fromkeys(("L1", "L2", "L3")) if points else {}
    )
    document = json.loads(json.dumps(device.Cpu().setup_cache()))
    assert set(document["figures"]) == set(UNITS["cpu"])
    for name in ("dram_triad_bandwidth", "l1_bandwidth", "peak_float32", "launch_overhead", "timer_tick", "threads"):
        assert document["figures"][name] > 0, name
    assert document["figures"]["l2_bandwidth"] is None  # nobody says that there is one


def test_gpu_is_measured_by_events(quick, monkeypatch):
    torch = pytest.importorskip("torch", reason="ceilings are measured through torch")
    pytest.importorskip("torch.profiler", reason="a whole PyTorch is wanted, not a part that stands in for it")
    pretend_cuda.plant(monkeypatch, torch)
    monkeypatch.setattr(gpu, "describe", lambda uuid: {"asked": uuid})
    monkeypatch.setattr(ceilings, "PER_CALL", {"cuda": 1 << 21})
    monkeypatch.setattr(ceilings, "BEYOND", 4)
    monkeypatch.setattr(ceilings, "cache_size", lambda device: 1 << 20)
    document = json.loads(json.dumps(device.Cuda().setup_cache()))
    assert set(document["figures"]) == set(UNITS["cuda"])
    for name in ("dram_read_bandwidth", "peak_tf32", "peak_int8", "launch_overhead"):
        assert document["figures"][name] > 0, name
