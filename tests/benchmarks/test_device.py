"""The machine as series of asv: one for each figure, measured once, null where it cannot be, n/a without the device."""

import json

import pytest

from benchmarks import device
from kernel_velocity.machine import ceilings
from kernel_velocity.machine.device_figures import UNITS, version


def tracks(cls):
    return {name.removeprefix("track_"): getattr(cls, name) for name in dir(cls) if name.startswith("track_")}


@pytest.mark.parametrize(("cls", "where"), [(device.Cpu, "cpu"), (device.Cuda, "cuda")])
def test_series_for_each_figure(cls, where):
    assert {name: method.unit for name, method in tracks(cls).items()} == UNITS[where]
    document = {"figures": {name: float(index) for index, name in enumerate(UNITS[where])}}
    for name, method in tracks(cls).items():
        assert method(cls(), document) == document["figures"][name]


def test_figure_versions():
    base = pytest.importorskip("asv_runner.benchmarks._base", reason="asv's own look-up is what is tested")
    for cls, where in ((device.Cpu, "cpu"), (device.Cuda, "cuda")):
        for name, method in tracks(cls).items():
            assert base._get_first_attr([method, cls], "version", None) == version(where, name), name
    assert (version("cpu", "dram_copy_bandwidth"), version("cuda", "dram_copy_bandwidth")) == ("2", "1")
    assert version("cpu", "dram_read_bandwidth") == "1"


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


@pytest.mark.parametrize("cls", [device.Cpu, device.Cuda])
def test_figures_are_kept_by_name(monkeypatch, cls):
    document = {"format": 1, "name": "Some device", "ceilings": [], "reported": {"threads": 3}, "warnings": []}
    monkeypatch.setattr(
        ceilings, "measure", lambda which, *, caches, loops: document | {"device": which} if caches else None
    )
    result = json.loads(json.dumps(cls().setup_cache()))
    assert set(result["figures"]) == set(UNITS[cls.device])
    assert result["figures"]["threads"] == 3
