"""Cold caches: what empties them, and how warm ones give themselves away."""

import json

import pytest

from kernel_velocity.harness import cache
from kernel_velocity.harness.cuda_timers import CudaEventTimer
from kernel_velocity.harness.timers import HostTimer
from tests.harness.simulated_cuda import device

__all__ = ["device"]

MB = 1 << 20


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="the buffer that empties caches is a tensor")


def test_methods_are_marked(torch):
    from benchmarks.matmul import Cpu

    assert cache.is_cold(Cpu.time_cold)
    assert not cache.is_cold(Cpu.time_hot)


@pytest.mark.parametrize(("device", "least", "most"), [("cpu", 1.0001, 4), ("cuda", 2, 4)])
def test_the_buffer_is_larger_than_the_cache(monkeypatch, device, least, most):
    monkeypatch.setattr(cache, "cache_size", lambda device: 32 * MB)
    assert least * 32 * MB <= cache.flush_size(device) <= most * 32 * MB


def test_a_cache_of_unknown_size_cannot_be_made_cold(monkeypatch, torch):
    monkeypatch.setattr(cache, "cache_size", lambda device: None)
    for ask in (cache.flush_size, cache.flush):
        with pytest.raises(NotImplementedError, match="not known here, so it cannot be made cold"):
            ask("cpu")


def test_all_of_the_buffer_is_written_and_nothing_allocated(monkeypatch, torch):
    monkeypatch.setattr(cache, "cache_size", lambda device: MB)
    made = []
    zeros = torch.zeros
    monkeypatch.setattr(torch, "zeros", lambda *args, **named: made.append(zeros(*args, **named)) or made[-1])
    overwrite = cache.flush("cpu")
    (buffer,) = made
    assert buffer.numel() * buffer.element_size() == cache.flush_size("cpu")
    where = buffer.data_ptr()
    for times in (1, 2, 3):
        overwrite()
        assert bool((buffer == times).all())
    assert len(made) == 1
    assert buffer.data_ptr() == where


@pytest.mark.slow
@pytest.mark.alone
def test_what_is_cold_takes_longer(torch):
    if cache.cache_size("cpu") is None:
        pytest.skip("sysfs does not say how large the cache is")
    x = torch.randn(1 << 15)  # 256 KB with the output: a core's own cache holds it, whatever the others do
    out = torch.empty_like(x)
    call = lambda: torch.add(x, x, out=out)  # noqa: E731
    timers = (HostTimer(), HostTimer(cache.flush("cpu")))
    pairs = [tuple(timer.samples(call, 1, 3)[-1] for timer in timers) for _ in range(40)]  # in turn: both as disturbed
    hot, cold = (sorted(samples)[20] for samples in zip(*pairs, strict=True))
    assert cold > 1.2 * hot


@pytest.fixture
def memory(monkeypatch, torch):
    """A memory whose peak is measured as a list says; the list of what is left."""
    readings = [100e9]
    monkeypatch.setattr(cache, "memory_peak", lambda device, timer: readings.pop(0))
    return readings


def test_faster_than_memory_is_warm(memory, tmp_path):
    memory[:] = [100e9, 100e9]
    assert cache.is_warm(99e9, "cpu", None, tmp_path) is False
    assert cache.is_warm(cache.WARM * 100e9, "cpu", None, tmp_path) is False
    assert len(memory) == 1  # measured once, then kept
    assert cache.is_warm(cache.WARM * 100e9 * 1.01, "cpu", None, tmp_path) is True
    assert memory == []  # but again before it speaks against a call


@pytest.mark.parametrize("empties", [True, False])
def test_a_flush_that_empties_nothing_gives_itself_away(memory, tmp_path, device, empties):
    memory[:] = [2.4e12] * 2
    flush = device.flush if empties else lambda: device.work(70e-6)
    timer = CudaEventTimer(device, flush)
    samples = timer.samples(lambda: device.kernel(3e-6, missing=3e-6), 1, 50)  # 12 MB: 4 TB/s from L2, 2 from memory
    assert cache.is_warm(12e6 / samples[25], "cpu", None, tmp_path) is not empties


def test_a_peak_measured_on_a_busy_machine_is_corrected(memory, tmp_path):
    memory[:] = [40e9, 100e9, 50e9]
    assert cache.is_warm(30e9, "cpu", None, tmp_path) is False
    assert cache.is_warm(105e9, "cpu", None, tmp_path) is False
    assert cache.is_warm(200e9, "cpu", None, tmp_path) is True
    (kept,) = tmp_path.glob("*.json")
    assert json.loads(kept.read_text())["bytes_per_second"] == 100e9  # the highest seen


def test_machines_and_threads_have_peaks_of_their_own(memory, tmp_path, monkeypatch):
    memory[:] = [100e9, 10e9]
    assert cache.is_warm(50e9, "cpu", None, tmp_path) is False
    monkeypatch.setenv("KV_THREADS", "7")
    assert cache.is_warm(50e9, "cpu", None, tmp_path) is True
    assert len(list(tmp_path.glob("*.json"))) == 2


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"bytes_per_second": "1"}', '{"bytes_per_second": Infinity}'])
def test_a_kept_peak_that_is_none_is_measured_anew(memory, tmp_path, text):
    memory[:] = [100e9, 100e9]
    cache.is_warm(1e9, "cpu", None, tmp_path)
    (kept,) = tmp_path.glob("*.json")
    kept.write_text(text)
    assert cache.is_warm(1e9, "cpu", None, tmp_path) is False
    assert json.loads(kept.read_text())["bytes_per_second"] == 100e9


def test_memory_that_cannot_be_measured_flags_nothing(memory, tmp_path):
    memory[:] = [None]
    assert cache.is_warm(1e15, "cpu", None, tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_memory_is_measured_far_beyond_the_cache(monkeypatch, torch):
    monkeypatch.setattr(cache, "SECONDS", 0.002)
    monkeypatch.setattr(cache, "cache_size", lambda device: MB)
    sizes = []
    copy = cache.STREAMS["copy"]
    monkeypatch.setattr(cache, "STREAMS", {"copy": lambda device, size: sizes.append(size) or copy(device, size)})
    around = {
        what: lambda device, size, make=make: sizes.append(size) or make(device, size)
        for what, make in cache.AROUND.items()
    }
    monkeypatch.setattr(cache, "AROUND", around)
    assert 1e8 < cache.memory_peak("cpu", HostTimer()) < 1e13
    assert sizes == [cache.BEYOND * MB] * 3


def test_memory_s_peak_is_that_of_the_fastest_stream(monkeypatch):
    monkeypatch.setattr(cache, "cache_size", lambda device: MB)
    monkeypatch.setattr(cache, "STREAMS", {"copy": lambda device, size: (None, 10.0), "read": lambda *_: (None, 12.0)})
    monkeypatch.setattr(cache, "AROUND", {"copy around the caches": lambda device, size: (None, 13.0)})
    monkeypatch.setattr(cache, "free_memory", lambda device: None)
    monkeypatch.setattr(cache, "_rate", lambda call, moved, timer: moved)
    assert (cache.memory_peak("cpu", None), cache.memory_peak("cuda", None)) == (13.0, 12.0)


@pytest.mark.parametrize(("size", "free"), [(None, 1 << 40), (MB, 15 * MB)])
def test_without_room_or_size_memory_is_not_measured(monkeypatch, size, free):
    monkeypatch.setattr(cache, "cache_size", lambda device: size)
    monkeypatch.setattr(cache, "free_memory", lambda device: free)
    assert cache.memory_peak("cpu", None) is None


class Quarters:
    """Every fourth sample is disturbed: ten times as long."""

    taken = 0

    def samples(self, call, batch, n):
        self.taken += n
        return [1e-3 if i % 4 else 1e-2 for i in range(n)]


def test_what_disturbs_is_no_part_of_the_peak(monkeypatch):
    monkeypatch.setattr(cache, "SECONDS", 0.0)
    assert cache._rate(lambda: None, 5e6, Quarters()) == pytest.approx(5e9)
