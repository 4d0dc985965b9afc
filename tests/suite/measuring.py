"""What asv tells a process that measures, the benchmark that it makes of a method, and what a round leaves behind."""

import importlib
import json
import sys
import types

import pytest

from kernel_velocity.engine.telemetry import decode
from kernel_velocity.suite.originals import Originals

COMMIT = "c" * 40


@pytest.fixture
def asv_environment(tmp_path, monkeypatch):
    """Set what asv sets for a measuring process, and a quick timing. Return the folder of asv.conf.json."""
    for name, value in {
        "ASV_CONF_DIR": str(tmp_path),
        "ASV_ENV_NAME": "env",
        "ASV_COMMIT": COMMIT,
        "KV_T_MIN": ".002",
        "KV_T_SOFT": ".004",
        "KV_T_MAX": ".004",
        "KV_PATIENCE": "0",  # a busy machine measures as long
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("ASV_ENV_DIR", raising=False)
    monkeypatch.setattr(Originals, "check", lambda _: None)  # tests replace functions of the harness
    return tmp_path


@pytest.fixture
def kernel(monkeypatch):
    """Put a fake kernels.<name> in place, whose bound call is a given function of (inputs..., out)."""

    def plant(name, function, devices=("cpu",)):
        importlib.import_module("kernels")  # else its import would import the fake
        module = types.ModuleType(f"kernels.{name}")
        module.SUPPORTS = {"devices": devices, "dtypes": ("float32",), "keywords": ("out",)}
        module.bind = lambda *inputs, out: lambda: function(*inputs, out)
        monkeypatch.setitem(sys.modules, f"kernels.{name}", module)

    return plant


def rounds(root):
    """Return the rounds that were recorded."""
    path = root / ".asv" / "spool" / "env" / f"{COMMIT}.jsonl"
    return [decode(line) for line in path.read_text().splitlines()] if path.exists() else []


def failure(root):
    """Return the one failure that was recorded."""
    path = root / ".asv" / "spool" / "env" / f"{COMMIT}.failures.jsonl"
    (line,) = path.read_text().splitlines()
    return json.loads(line)


def as_asv_runs(kind, module, method, index=0, device="Cpu"):
    """Return the benchmark that asv makes of a method of a module's class, set to a combination of its parameters."""
    asv_type = pytest.importorskip("kernel_velocity.suite.asv_type", reason="the benchmark type is asv's")
    instance = getattr(module, device)()
    name, function = f"{module.__name__.split('.')[-1]}.{device}.{method}", getattr(instance, method)
    bench = getattr(asv_type, kind)(name, function, [function, instance, module])
    bench.set_param_idx(index)
    return bench
