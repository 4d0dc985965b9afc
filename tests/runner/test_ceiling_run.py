"""The ceilings of a session: asv is asked for these series of this commit alone, and a failure costs a line."""

import io
import re
from types import SimpleNamespace

import pytest

from kernel_velocity.harness.device_figures import UNITS
from kernel_velocity.runner import ceilings, select
from tests.suite import SUITE

COMMIT = "c0ffee00" + "0" * 32


@pytest.fixture
def asv(monkeypatch, tmp_path):
    """Put an asv into place; return what it was asked, and a way to run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "device.py").touch()
    monkeypatch.setattr(ceilings, "Config", SimpleNamespace(load=lambda: SimpleNamespace(benchmark_dir="benchmarks")))
    asked = []

    def measure(status=0, said=()):
        def run_asv(args, *, root, environment, log, on_line):
            asked.append(args)
            for line in said:
                on_line(line)
            return status

        monkeypatch.setattr(ceilings, "run_asv", run_asv)
        out = io.StringIO()
        stored = tmp_path / "results" / "box" / f"{COMMIT[:8]}-env.json"
        log = tmp_path / "log"
        return ceilings.measure(COMMIT, stored, machine="box", device="cpu", log=log, out=out), out.getvalue()

    return SimpleNamespace(asked=asked, measure=measure, root=tmp_path)


def test_asv_is_asked_for_the_ceilings_of_that_commit(asv):
    problem, said = asv.measure()
    assert problem is None
    assert "half a minute" in said
    (args,) = asv.asked
    assert args[:2] == ["run", f"HASHFILE:{asv.root / '.asv' / 'ceilings-commit.txt'}"]
    assert (asv.root / ".asv" / "ceilings-commit.txt").read_text() == f"{COMMIT}\n"
    assert args[args.index("--machine") + 1] == "box"
    assert "--interleave-rounds" not in args  # one round


def test_a_suite_without_ceilings_is_left_alone(asv):
    (asv.root / "benchmarks" / "device.py").unlink()
    assert asv.measure() == (None, "")
    assert asv.asked == []


def test_a_failure_is_a_line(asv):
    problem, _ = asv.measure(status=2, said=["[ 50%] one", "setup_cache failed", "  "])
    assert problem.startswith("the machine's ceilings were not all measured: asv run ended with status 2: setup_cache")
    assert problem.count("\n") == 0


def test_the_expression_selects_every_ceiling_of_a_device_and_nothing_else():
    for device, name, other in (("cpu", "Cpu", "Cuda"), ("cuda", "Cuda", "Cpu")):
        expression = re.compile(ceilings.expression(device))
        assert all(expression.search(f"device.{name}.track_{figure}") for figure in UNITS[device])
        assert not expression.search(f"device.{other}.track_timer_tick")
        assert not expression.search(f"my_device.{name}.track_timer_tick")


def test_ceilings_are_no_series_of_a_kernel():
    for device in ("cpu", "cuda"):
        assert not [name for name, _ in select.select(SUITE, device, "full", None).series if name.startswith("device.")]
