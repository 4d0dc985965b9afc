"""The contract: names that can never change once a result is recorded. A failure here orphans histories."""

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_velocity.engine.sampling import REFUSED_ROUNDS, ROUNDS
from kernel_velocity.engine.spool import spool_path
from kernel_velocity.engine.telemetry import FLAGS, KEYS, LINE_LIMIT, Round
from kernel_velocity.names import dims_of
from tests.golden import check_golden
from tests.small_suite import SUITE

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"

DISCOVER = """
import sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, NoTorch())
from asv_runner.discovery import _discover
_discover(({suite!r}, {out!r}))
"""


def discover(tmp_path, name, *, blocked=(), **environ):
    """Run asv's own discovery in a fresh process. Return the bytes it writes."""
    pytest.importorskip("asv_runner", reason="asv's discovery is what is tested")
    out = tmp_path / f"{name}.json"
    script = DISCOVER.format(blocked=tuple(blocked), suite=str(ROOT / "benchmarks"), out=str(out))
    variables = {"PATH": os.environ["PATH"], "ASV_PROJECT": "kernel-velocity", **environ}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return out.read_bytes()


def test_discovery_is_the_same_on_any_machine(tmp_path):
    plain = discover(tmp_path, "plain")
    assert plain == discover(tmp_path, "bare", blocked=("torch", "kernels", "triton"), PYTHONHASHSEED="7")
    assert plain == discover(
        tmp_path, "set", KV_RULE="fixed_time", KV_THREADS="2", CUDA_VISIBLE_DEVICES="", TZ="Asia/Tokyo"
    )


def test_series_names_axes_cases_and_costs(tmp_path, request):
    result = json.loads(discover(tmp_path, "contract"))
    fields = ("name", "param_names", "params", "version", "type", "unit", "rounds", "flops", "bytes")
    accept = request.config.getoption("--accept-golden")
    kernels = {
        benchmark["name"].split(".")[0]
        for benchmark in json.loads((GOLDEN / "contract.json").read_text(encoding="utf-8"))
    }
    # A kernel that is added is written into the golden file when that is next accepted; until then nothing is lost.
    held = [benchmark for benchmark in result if accept or benchmark["name"].split(".")[0] in kernels]
    text = (
        json.dumps([{key: benchmark[key] for key in fields if key in benchmark} for benchmark in held], indent=1) + "\n"
    )
    check_golden(GOLDEN / "contract.json", text, accept=accept)


def test_every_kernel_has_the_form_of_names_and_axes(tmp_path):
    for benchmark in json.loads(discover(tmp_path, "form")):
        if benchmark["type"] == "time":
            assert re.fullmatch(r"[a-z][a-z0-9_]*\.(Cpu|Cuda)\.time_(hot|cold)", benchmark["name"])
            assert benchmark["param_names"] == ["implementation", "case"]
            assert benchmark["params"][0] == ["'eager'", "'compile'", "'native'", "'triton'"]
            assert all(dims_of(case.strip("'")) for case in benchmark["params"][1])


def test_telemetry_names(request):
    fields = [f"{field.name}: {field.type} = {KEYS[field.name]!r}" for field in dataclasses.fields(Round)]
    flags = [f"{flag} = {letter!r}" for flag, letter in FLAGS.items()]
    path = spool_path(Path(), "environment", "commit").as_posix()
    text = "\n".join([path, f"{LINE_LIMIT} bytes", *fields, *flags]) + "\n"
    check_golden(GOLDEN / "telemetry.txt", text, accept=request.config.getoption("--accept-golden"))


def test_rounds():
    assert (ROUNDS, REFUSED_ROUNDS) == (8, 6)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_tier_core_is_two_cases_of_every_kernel(device):
    core = SUITE.core(device)
    assert set(core) >= {"add_mul_exp", "matmul", "quantize_int8"}
    assert set(core) == {problem.name for problem in SUITE.problems(device)}
    for problem in SUITE.problems(device):
        assert len(core[problem.name]) == 2
        assert set(core[problem.name]) <= set(problem.cases[device])


@pytest.mark.parametrize(
    ("case", "dims"),
    [
        ("float32-500k", (500_000,)),
        ("float32-50M", (50_000_000,)),
        ("float8_e4m3fn-7", (7,)),
        ("float32-2x3x4", (2, 3, 4)),
    ],
)
def test_dims_of_a_case(case, dims):
    assert dims_of(case) == dims


@pytest.mark.parametrize("case", ["", "float32", "float32-", "float32-5G", "float32-2x", "-5M", "float32-1.5M"])
def test_malformed_case_is_refused(case):
    with pytest.raises(ValueError, match="wanted dtype-size"):
        dims_of(case)
