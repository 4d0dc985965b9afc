"""Ceilings of sessions: reading asv's results and the documents of `kv peaks`, and how they moved."""

import json
import os

import pytest

from kernel_velocity.machine.device_figures import device_id, version
from kernel_velocity.roofline import ceilings, roofs
from kernel_velocity.roofline.roofs import CeilingSession
from tests.machine.test_device_figures import a_machine, document

KEY = "device.Cpu.track_"


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.delenv("KV_THREADS", raising=False)


def keep(root, monkeypatch, when, **changes):
    monkeypatch.setattr(ceilings.time, "time_ns", lambda: int(when * 1e9))
    return ceilings.keep(root, {**document(a_machine()), **changes})


def record(root, name, started_at, values, *, old=None, machine=None, key=KEY):
    """Write a results file of asv."""
    columns = ["result", "params", "version", "started_at", "duration"]
    device = key.split(".")[1].lower()
    rows = {
        f"{key}{figure}": [[value], [], old or version(device, figure), started_at * 1000, 0.1]
        for figure, value in values.items()
    }
    rows["matmul.Cpu.time_hot"] = [[1.0], [["'a'"], ["'b'"]], "1", 9e15, 0.1]
    path = root / "results" / (machine or os.uname().nodename) / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"result_columns": columns, "results": rows, "version": 2}))
    return path


def test_sessions_of_peaks_are_oldest_first(tmp_path, monkeypatch):
    keep(tmp_path, monkeypatch, 200.0)
    keep(tmp_path, monkeypatch, 1000.0)
    sessions = ceilings.sessions(tmp_path, "cpu")
    assert [entry.began for entry in sessions] == [200.0, 1000.0]
    assert sessions[0].figures["dram_copy_bandwidth"] == 11e9
    assert sessions[0].reported["L2"] == 1 << 20
    assert ceilings.sessions(tmp_path, "cuda") == []


def test_sessions_of_other_nodes_or_devices_are_left_out(tmp_path, monkeypatch):
    keep(tmp_path, monkeypatch, 1.0, name="the one before")
    keep(tmp_path, monkeypatch, 2.0)
    other = keep(tmp_path, monkeypatch, 3.0)
    other.write_text(json.dumps(json.loads(other.read_text()) | {"node": "elsewhere"}))
    assert [session.began for session in ceilings.sessions(tmp_path, "cpu")] == [2.0]
    monkeypatch.setenv("KV_THREADS", "2")
    assert ceilings.sessions(tmp_path, "cpu") == []


def test_sessions_of_two_gpus_under_one_machine_name(tmp_path, monkeypatch):
    monkeypatch.setattr(ceilings, "data_caches", lambda device: {})
    gpu, other = "A large GPU", "A small GPU"
    for when, name in ((1.0, gpu), (2.0, other), (3.0, gpu)):
        keep(tmp_path, monkeypatch, when, device="cuda", name=name)
    for when, name in ((4.0, gpu), (5.0, other)):
        values = {"peak_float32": when, "device_id": device_id(name)}
        record(tmp_path, f"{when}-env", when, values, key="device.Cuda.track_")
    record(tmp_path, "old-env", 6.0, {"peak_float32": 6.0}, key="device.Cuda.track_")  # without a device
    result = {
        name: [session.began for session in ceilings.sessions(tmp_path, "cuda", name=name)]
        for name in (gpu, other, "A third", None)
    }
    assert result == {gpu: [1, 3, 4, 6], other: [2, 5, 6], "A third": [6], None: [2, 5, 6]}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"node": 1}', '{"format": 9}'])
def test_malformed_document_is_skipped(tmp_path, monkeypatch, text):
    path = keep(tmp_path, monkeypatch, 1.0)
    path.with_name("2000.json").write_text(text)
    assert [session.began for session in ceilings.sessions(tmp_path, "cpu")] == [1.0]


def test_sessions_include_the_recorded_history(tmp_path, monkeypatch):
    keep(tmp_path, monkeypatch, 200.0)
    record(tmp_path, "a-env", 300.0, {"peak_float32": 5.0, "threads": 1, "l3_size": None, "not_a_ceiling": 1.0})
    record(tmp_path, "b-env", 100.0, {"peak_float32": 7.0, "threads": 1, "peak_float16": float("nan")})
    (tmp_path / "results").rename(tmp_path / "recorded")
    (tmp_path / "asv.conf.json").write_text('{"results_dir": "recorded"}')
    sessions = ceilings.sessions(tmp_path, "cpu")
    assert [entry.began for entry in sessions] == [100.0, 200.0, 300.0]
    assert sessions[2].figures == {"peak_float32": 5.0, "threads": 1.0, "l3_size": None}
    assert sessions[0].figures["peak_float16"] is None


def test_figure_of_another_version_is_left_out(tmp_path):
    values = {"dram_copy_bandwidth": 10e9, "dram_read_bandwidth": 12e9, "dram_triad_bandwidth": 9e9, "threads": 1}
    record(tmp_path, "before", 1.0, values, old="1")
    record(tmp_path, "since", 2.0, values)
    before, since = ceilings.sessions(tmp_path, "cpu")
    assert before.figures == {"dram_read_bandwidth": 12e9, "threads": 1}
    assert since.figures == values


def test_recorded_sessions_of_other_conditions_are_left_out(tmp_path):
    record(tmp_path, "two-threads", 1.0, {"peak_float32": 5.0, "threads": 2})
    record(tmp_path, "other-version", 1.0, {"peak_float32": 5.0, "threads": 1}, old="0")
    record(tmp_path, "other-machine", 1.0, {"peak_float32": 5.0, "threads": 1}, machine="box")
    record(tmp_path, "failed", 1.0, {"peak_float32": None, "threads": None})
    record(tmp_path, "none", 1.0, {}).with_name("broken.json").write_text(f'{{"results": "{KEY}"}}')
    assert ceilings.sessions(tmp_path, "cpu") == []
    assert len(ceilings.sessions(tmp_path, "cpu", machine="box")) == 1


PEAK_FORMAT = version("cpu", "peak_float32")


@pytest.mark.parametrize(
    ("bad", "read"),
    [
        (7, {"threads"}),
        ([["fast"], [], PEAK_FORMAT, 5e2, 0.1], {"threads", "peak_float32"}),
        ([10**400, [], PEAK_FORMAT, 5e2, 0.1], {"threads", "peak_float32"}),
        ([[10**400], [], PEAK_FORMAT, 5e2, 0.1], {"threads", "peak_float32"}),
        *(([[5.0], [], PEAK_FORMAT, when, 0.1], {"threads", "peak_float32"}) for when in ("noon", 10**400, None)),
    ],
)
def test_malformed_row_is_left_out_alone(tmp_path, bad, read):
    path = record(tmp_path, "a-env", 1.0, {"peak_float32": 5.0, "threads": 1})
    data = json.loads(path.read_text())
    data["results"][f"{KEY}peak_float32"] = bad
    path.write_text(json.dumps(data))
    (result,) = ceilings.sessions(tmp_path, "cpu")
    assert (result.began, set(result.figures), result.figures["threads"]) == (1.0, read, 1.0)


NAME = "peak_float32"


def history(*values, name=NAME):
    return [CeilingSession(began=float(n), figures={name: value}, reported={}) for n, value in enumerate(values)]


def test_ratio_is_against_the_median_of_earlier_sessions():
    assert ceilings.ratios(history(100.0, 90.0, 102.0, 47.5), NAME) == [None, 0.9, 102 / 95, 0.475]


def test_ratio_uses_the_last_sessions_only():
    values = [1000.0] * 5 + [100.0] * roofs.SESSIONS + [100.0]
    assert ceilings.ratios(history(*values), NAME)[-1] == 1


@pytest.mark.parametrize(
    ("ratio", "moved"), [(None, False), (1.0, False), (1.05, False), (1.051, True), (1 / 1.05, False), (0.952, True)]
)
def test_moved_is_over_five_percent_either_way(ratio, moved):
    assert ceilings.has_moved(ratio) is moved


def test_why_names_the_method_of_a_roof():
    assert ceilings.why(NAME, 0) == ""
    assert ceilings.why(NAME, 1) == "the only session"
    assert ceilings.why(NAME, 3) == "upper quartile of 3 sessions"
    assert ceilings.why("timer_tick", 3) == "lower quartile of 3 sessions"
    assert ceilings.why("l2_size", roofs.SESSIONS) == f"median of the last {roofs.SESSIONS} sessions"
