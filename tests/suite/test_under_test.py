"""Figures of compiled code: read from the package under test, without a device."""

import json
import math
import sys

import pytest

from benchmarks import matmul
from kernel_velocity.counts import compiled
from kernel_velocity.names import TARGETS
from kernel_velocity.suite import under_test
from tests.suite.measuring import as_asv_runs, asv_environment, failure

__all__ = ["asv_environment"]

PTXAS = [
    {"architecture": "sm_90", "registers": 40, "shared_bytes": 0, "spill_store_bytes": 4, "spill_load_bytes": 8},
    {"architecture": "sm_90", "registers": 168, "shared_bytes": 512, "spill_store_bytes": 0, "spill_load_bytes": 16},
    {"architecture": "sm_80", "registers": 255, "shared_bytes": 0, "spill_store_bytes": 0, "spill_load_bytes": 0},
]
INFO = {"kernels": {"matmul": {"code_bytes": {"sse2": 1000, "avx2": 900}, "ptxas": PTXAS}}}


@pytest.mark.parametrize(
    ("name", "target", "value"),
    [
        ("code_bytes", "avx2", 900),
        ("registers", "sm_90", 168),
        ("registers", "sm_80", 255),
        ("shared_bytes", "sm_90", 512),
        ("spill_bytes", "sm_90", 28),
        ("spill_bytes", "sm_80", 0),
    ],
)
def test_figure_is_the_maximum_or_the_sum_of_spills(name, target, value):
    assert compiled.figure(INFO, "matmul", name, target) == value


@pytest.mark.parametrize(
    ("info", "kernel", "name", "target"),
    [
        (INFO, "matmul", "code_bytes", "avx512"),
        (INFO, "matmul", "registers", "sm_100"),
        (INFO, "other", "registers", "sm_90"),
        ({"kernels": {"matmul": {"ptxas": []}}}, "matmul", "spill_bytes", "sm_90"),
        ({}, "matmul", "code_bytes", "sse2"),
    ],
)
def test_missing_figure_is_na(info, kernel, name, target):
    with pytest.raises(NotImplementedError, match="the build of this commit has no such code"):
        compiled.figure(info, kernel, name, target)


@pytest.fixture
def built(asv_environment, monkeypatch):
    """Make a build with a build-info.json. None: without one."""

    def put(info):
        folder = asv_environment / "build" / "_native"
        folder.mkdir(parents=True)
        if info is not None:
            (folder / "build-info.json").write_text(json.dumps(info))
        monkeypatch.setenv("KV_ARTEFACTS", str(folder.parent))
        return asv_environment

    return put


def figure_of_asv(name, target):
    """Return the figure of matmul's CUDA code that asv tracks, set to a target."""
    return as_asv_runs("TrackBenchmark", matmul, f"track_{name}", TARGETS["cuda"].index(target), "Cuda")


def test_figure_needs_no_device(built):
    built(INFO)
    bench = figure_of_asv("registers", "sm_90")
    assert (bench.type, bench.unit, bench.params) == (
        "track",
        "registers of a thread",
        [["'native'"], ["'sm_80'", "'sm_90'"]],
    )
    assert bench.do_setup() is False  # the class's own setup asks for a GPU
    assert bench.do_run() == 168
    bench.do_teardown()


@pytest.mark.parametrize(
    ("info", "text"), [({}, "the build of this commit has no such code"), (None, "no build-info.json")]
)
def test_missing_figure_is_recorded(built, info, text):
    root = built(info)
    assert math.isnan(figure_of_asv("spill_bytes", "sm_90").do_run())
    assert text in failure(root)["error"] and failure(root)["skipped"] is True


def test_build_has_figures_of_its_targets():
    kernels = pytest.importorskip("kernels", reason="the native library is not built")
    info = json.loads((kernels._native.library.FOLDER / "build-info.json").read_text())
    for isa in info["isas"]:
        assert compiled.figure(info, "matmul", "code_bytes", isa) > 1000
    for architecture in info["cuda_architectures"]:
        assert 16 <= compiled.figure(info, "matmul", "registers", architecture) <= 255
        assert compiled.figure(info, "matmul", "spill_bytes", architecture) == 0


def test_process_that_imported_the_package_of_a_build_is_known(tmp_path, monkeypatch):
    (tmp_path / "mine_under_test.py").touch()
    environ = {"KV_ARTEFACTS": str(tmp_path)}
    assert not under_test.is_imported(environ) and under_test.is_imported({})
    monkeypatch.setitem(sys.modules, "mine_under_test", None)
    assert under_test.is_imported(environ)


def test_build_info_of_a_working_tree_is_the_one_of_its_package(tmp_path):
    for name in ("build", ".asv/env/kernels", "kernels/_native"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "build-info.json").touch()
    assert under_test.find_info(tmp_path).parent == tmp_path / "build"
    for name in (".asv/env/kernels", "kernels/_native"):
        (tmp_path / name / "__init__.py").touch()
    assert under_test.find_info(tmp_path).parent == tmp_path / "kernels" / "_native"
    assert under_test.find_info(tmp_path / "kernels" / "absent") is None
