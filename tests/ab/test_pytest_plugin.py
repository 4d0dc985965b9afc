"""The fixture `kv` of pytest's plugin, in a run of pytest of its own. The machine alone is simulated."""

import tomllib
from pathlib import Path

import pytest

from kernel_velocity.ab import gate
from kernel_velocity.results import git as results_clone
from tests.ab.test_gate_arguments import CAUSES, clone, fake_runner, repository

__all__ = ["clone", "repository"]  # fixtures
pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
PLUGIN = "kernel_velocity.pytest_plugin"
TEST = """
def test_matmul(kv):
    kv.gate({kernel}, base="HEAD~1", budget={minutes})
"""


@pytest.fixture
def run(clone, pytester, monkeypatch):
    """Return a function that runs a test where the working tree behaves in a way, with pytest's options."""
    monkeypatch.setattr(results_clone, "check_clone", lambda root: [])

    def run(behaviour, *options, kernel="'matmul'", minutes=10):
        head = results_clone.working_tree(clone)
        monkeypatch.setattr(gate, "AsvRunner", lambda *args, **named: fake_runner(head, **behaviour))
        path = pytester.makepyfile(TEST.format(kernel=kernel, minutes=minutes))
        more = ("-p", PLUGIN, "-p", "no:cacheprovider", "--rootdir", str(clone), "-c", "/dev/null", "-W", "default")
        return pytester.runpytest_inprocess(path, *more, *options)

    return run


@pytest.mark.parametrize(
    ("cause", "outcome"),
    [
        ("clean", {"passed": 1}),
        ("slower", {"failed": 1}),
        ("the budget ends after the first look", {"passed": 1}),
        ("one of two is wrong", {"failed": 1}),
        ("it does not build", {"skipped": 1}),
    ],
)
def test_status_of_the_gate_decides(run, cause, outcome):
    _, behaviour, minutes = CAUSES[cause]
    run(behaviour, minutes=minutes).assert_outcomes(**outcome)


def test_failure_is_the_verdict_in_one_line(run):
    result = run({"speed": 1.05}, "--tb=short")
    result.stdout.fnmatch_lines(["matmul: verdict: regression confirmed (exit status 10)"])
    result.stdout.fnmatch_lines(["*matmul.Cpu.time_hot native float32-512x512x512*different*"])  # captured
    assert "Traceback" not in result.stdout.str() and "eager" not in result.stdout.str()


def test_suspect_is_a_warning_that_can_be_made_an_error(run):
    _, behaviour, minutes = CAUSES["the budget ends after the first look"]
    line = "*SuspectWarning: matmul: verdict: suspect: *(exit status 11)"
    run(behaviour, minutes=minutes).stdout.fnmatch_lines([line])
    result = run(behaviour, "-W", f"error::{PLUGIN}.SuspectWarning", minutes=minutes)
    result.assert_outcomes(failed=1)


def test_kernel_may_be_its_problem(run):
    run({"speed": 1.05}, kernel="type('Problem', (), {'kernel': 'matmul'})()").assert_outcomes(failed=1)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [("'fft'", "fft: error: *matches no series*"), ("3", "kv.gate: the name of a kernel or its problem is wanted*")],
)
def test_wrong_kernel_fails_with_the_reason(run, kernel, message):
    result = run({}, kernel=kernel)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([message])


def test_plugin_is_an_entry_point_of_the_distribution():
    project = tomllib.loads((ROOT / "tools" / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {PLUGIN: PLUGIN}
