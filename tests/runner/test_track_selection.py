"""Which commits and which series `make track` measures."""

import dataclasses
import itertools
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.errors import HistoryError, UsageError
from kernel_velocity.harness import cases
from kernel_velocity.results import git as results_clone
from kernel_velocity.results.join import StoredSeries
from kernel_velocity.runner import select
from kernel_velocity.runner.select import Selection
from tests.suite import SUITE


def git(folder, *args):
    who = ["-c", "user.name=A", "-c", "user.email=a@b"]
    return subprocess.run(["git", *who, *args], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def clone(tmp_path):
    """Six commits: kernels, docs, kernels, kernels (on a merged branch), merge, CMake."""
    git(tmp_path, "init", "-q", "-b", "main")
    shas = {}

    def commit(name, path):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(name)
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-q", "-m", name)
        shas[name] = git(tmp_path, "rev-parse", "HEAD")

    commit("one", "kernels/a")
    commit("docs", "README")
    commit("two", "kernels/a")
    git(tmp_path, "checkout", "-q", "-b", "topic")
    commit("branch", "kernels/b")
    git(tmp_path, "checkout", "-q", "main")
    commit("more docs", "README")
    git(tmp_path, "merge", "-q", "--no-edit", "topic")
    shas["merge"] = git(tmp_path, "rev-parse", "HEAD")
    commit("cmake", "CMakeLists.txt")
    return tmp_path, shas


def test_by_default_the_last_three_that_changed_the_kernels(clone):
    folder, shas = clone
    # the merge brought a change of the kernels to the line; the commit of its branch is not on it
    assert results_clone.commits(folder, None) == (shas["cmake"], shas["merge"], shas["two"])


def test_without_a_change_of_kernels_the_last_commit(tmp_path):
    git(tmp_path, "init", "-q")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "x")
    assert results_clone.commits(tmp_path, None) == (git(tmp_path, "rev-parse", "HEAD"),)


def test_a_range_and_a_single_revision(clone):
    folder, shas = clone
    assert results_clone.commits(folder, "HEAD~2..HEAD") == (shas["cmake"], shas["merge"])
    assert results_clone.commits(folder, "HEAD") == (shas["cmake"],)
    assert results_clone.commits(folder, "topic") == (shas["branch"],)
    assert results_clone.commits(folder, "HEAD^!") == (shas["cmake"],)
    assert results_clone.commits(folder, f"{shas['docs']} ^{shas['one']}") == (shas["docs"],)


def test_several_revisions_are_these_commits_alone(clone):
    folder, shas = clone
    assert set(results_clone.commits(folder, f"{shas['one']} {shas['cmake']}")) == {shas["one"], shas["cmake"]}


@pytest.mark.parametrize("unknown", ["nope", "nope..HEAD", "HEAD..HEAD", "--all", "HEAD~99", "README", "kernels"])
def test_unknown_ranges_say_what_is_wanted(clone, unknown):
    with pytest.raises(UsageError, match=r"RANGE=HEAD~3\.\.HEAD") as caught:
        results_clone.commits(clone[0], unknown)
    assert repr(unknown) in str(caught.value) and "\n" not in str(caught.value)


def test_no_repository(tmp_path):
    with pytest.raises(HistoryError, match="no git repository"):
        results_clone.check_clone(tmp_path)
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    with pytest.raises(HistoryError, match="no commit yet"):
        results_clone.check_clone(tmp_path)


def test_what_git_says_of_a_clone_of_somebody_else_is_quoted():
    said = (
        "fatal: detected dubious ownership in repository at '/x'\n"
        "To add an exception for this directory, call:\n\n\tgit config --global --add safe.directory /x\n"
    )
    line = results_clone._refusal(Path("/x"), said)
    assert line == (
        "/x: git says: fatal: detected dubious ownership in repository at '/x'; "
        "run `git config --global --add safe.directory /x`"
    )


def test_no_git(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(HistoryError, match="git is not installed"):
        results_clone.check_clone(tmp_path)


def test_a_clean_full_clone_needs_no_note(clone):
    folder, _ = clone
    assert results_clone.check_clone(folder) == []
    (folder / "README").write_text("changed")  # not what kernels are built from
    assert results_clone.check_clone(folder) == []
    (folder / "kernels" / "a").write_text("changed")
    (note,) = results_clone.check_clone(folder)
    assert note == "uncommitted changes are not measured, commits are: kernels/a"


def test_core_has_every_kernel_and_implementation_and_two_cases():
    for device, name in (("cpu", "Cpu"), ("cuda", "Cuda")):
        series = select.select(SUITE, device, "core", None).series
        kernels = {benchmark for benchmark, _ in series}
        assert {f"{kernel}.{name}.time_hot" for kernel in ("add_mul_exp", "quantize_int8", "matmul")} <= kernels
        for kernel in kernels:
            params = [item for benchmark, item in series if benchmark == kernel]
            assert len({case for _, case in params}) == 2
            assert {"eager", "compile", "native"} <= {implementation for implementation, _ in params}


def test_what_can_only_exist_on_the_other_device_is_not_asked_for():
    asked = {
        device: {params[0] for _, params in select.select(SUITE, device, "full", None).series}
        for device in ("cpu", "cuda")
    }
    assert asked["cuda"] - asked["cpu"] == {"triton"} and asked["cpu"] < asked["cuda"]
    errors = select.select(SUITE, "cpu", "core", None).errors
    assert errors and "triton" not in {params[0] for _, params in errors}


def test_full_has_more_and_bench_selects_from_the_tier():
    core, full = select.select(SUITE, "cpu", "core", None), select.select(SUITE, "cpu", "full", None)
    assert set(core.series) < set(full.series)
    (only,) = select.select(SUITE, "cpu", "full", r"^matmul\..*hot.*'native', 'float32-128x").series
    assert only == ("matmul.Cpu.time_hot", ("native", "float32-128x128x128"))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_cold_caches_are_timed_in_tier_full_alone_where_caches_hold_something(device):
    core, full = select.select(SUITE, device, "core", None), select.select(SUITE, device, "full", None)
    assert not any(name.endswith("time_cold") for name, _ in core.series)
    hot, cold = (
        {(name.rpartition(".")[0], *params) for name, params in full.series if name.endswith(method)}
        for method in (".time_hot", ".time_cold")
    )
    assert cold < hot
    assert len(cold) <= 0.6 * len(hot)  # a fifth of the time of tier full on two cores
    for problem in SUITE.problems(device):
        found = {case for kernel, _, case in cold if kernel.startswith(f"{problem.name}.")}
        assert found == set(problem.cold[device]) < set(problem.cases[device])
        assert {implementation for kernel, implementation, _ in cold if kernel.startswith(f"{problem.name}.")} == set(
            cases.implementations_on(device)
        )
    assert set(full.versions) == {name for name, _ in (*full.series, *full.tracked)}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_errors_are_tracked_of_the_core_cases_that_are_timed_hot(device):
    for tier in ("core", "full"):
        found = select.select(SUITE, device, tier, None)
        hot = {(name, params) for name, params in select.select(SUITE, device, "core", None).series}
        assert {(name.replace("track_max_error", "time_hot"), params) for name, params in found.errors} == hot
        assert not {name for name, _ in found.series if "track" in name}
    native = select.select(SUITE, device, "full", r"^matmul\..*native")
    assert {params for _, params in native.errors} == {("native", case) for case in SUITE.core(device)["matmul"]}
    assert select.select(SUITE, device, "full", "time_cold").errors == ()
    expressions = native.tracked_expressions()
    for name, params in native.errors + native.figures:
        assert sum(bool(re.search(each, f"{name}({', '.join(map(repr, params))})")) for each in expressions) == 1


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_figures_of_all_code_of_the_kernels_whose_own_is_timed_are_tracked_on_any_device(device):
    names = {
        f"matmul.{class_name}.track_{figure}": {("native", target) for target in cases.TARGETS[each]}
        for each, class_name in cases.DEVICES.items()
        for figure in cases.FIGURES[each]
    }
    found = select.select(SUITE, device, "core", r"^matmul\.").figures
    assert {name: {params for known, params in found if known == name} for name, _ in found} == names
    everything = {name for name, _ in select.select(SUITE, device, "core", None).figures}
    for problem in SUITE.problems("cuda"):
        assert f"{problem.kernel}.Cuda.track_spill_bytes" in everything
    assert {name.partition(".")[0] for name in everything if ".Cpu." in name} == set(SUITE.core("cpu"))
    assert select.select(SUITE, device, "core", r"^matmul\..*eager").figures == ()


def test_a_figure_is_tracked_once_it_has_a_value_or_said_why_not():
    name = "matmul.Cuda.track_registers"
    here, absent = (name, ("native", "sm_90")), (name, ("native", "sm_80"))
    stored = {here: dataclasses.replace(NOTHING, value=168.0), absent: NOTHING}
    assert select.is_tracked(stored, [here])
    assert not select.is_tracked({}, [here])
    assert not select.is_tracked(stored, [here, absent])
    assert select.is_tracked(stored, [here, absent], told={absent: 1})


@pytest.mark.parametrize(("tier", "bench"), [("best", None), ("core", "("), ("core", "no-such")])
def test_selections_that_make_no_sense(tier, bench):
    with pytest.raises(UsageError):
        select.select(SUITE, "cpu", tier, bench)


def test_expressions_select_in_asv_exactly_what_was_chosen():
    full = select.select(SUITE, "cpu", "full", None)
    chosen = select.select(SUITE, "cpu", "core", "native")
    names = {f"{name}({', '.join(map(repr, params))})": (name, params) for name, params in full.series}
    expressions = chosen.expressions()
    found = {series for text, series in names.items() if any(re.search(item, text) for item in expressions)}
    assert found == set(chosen.series)


parts = st.text("ab.('", min_size=1, max_size=4)


@given(st.lists(st.tuples(parts, parts), min_size=1, max_size=4, unique=True))
def test_expressions_take_names_literally(params):
    chosen = Selection(series=tuple(("k.Cpu.time_hot", item) for item in params), versions={})
    (expression,) = chosen.expressions()
    for item in itertools.product(*zip(*params, strict=True)):
        text = f"k.Cpu.time_hot({', '.join(map(repr, item))})"
        assert (re.search(expression, text) is not None) == (item in params)


NOTHING = StoredSeries(value=None, failed=False, samples=None, count=None, started_at=None, duration=None)
VALUE = dataclasses.replace(NOTHING, value=1.0, count=8)
FAILED = dataclasses.replace(NOTHING, failed=True)
A, B, OTHER_CASE = ("k", ("eager", "c")), ("k", ("native", "c")), ("k", ("eager", "d"))


@pytest.mark.parametrize(
    ("stored", "told", "measured"),
    [
        ([], {}, False),
        ([(A, VALUE), (B, VALUE)], {}, True),
        ([(A, VALUE), (B, NOTHING)], {B: 1}, True),  # native does not apply
        ([(A, VALUE), (B, NOTHING)], {}, False),  # native was not asked for
        ([(A, VALUE), (B, FAILED)], {}, True),
        ([(A, NOTHING), (B, FAILED)], {A: 1}, True),  # not tried again by itself
        ([(A, FAILED), (B, FAILED)], {B: 8}, False),  # a build that failed in plain `asv run`, or a broken machine
        ([(A, NOTHING), (B, NOTHING)], {A: 1, B: 1}, True),  # the commit is older than the kernel
        ([(A, NOTHING), (B, NOTHING), (OTHER_CASE, VALUE)], {}, False),  # only another case was asked for
        ([(A, dataclasses.replace(VALUE, count=3)), (B, NOTHING)], {B: 1}, False),  # a first look
        ([(A, VALUE), (B, dataclasses.replace(VALUE, count=7))], {B: 1}, True),  # one round crashed
        ([(A, VALUE), (B, dataclasses.replace(VALUE, count=3))], {B: 1}, False),  # in a first look
        ([(("other", ("eager", "c")), VALUE)], {}, False),
    ],
)
def test_what_counts_as_measured(stored, told, measured):
    assert select.is_measured(dict(stored), [A, B], 8, told=told, other_method=()) is measured


def test_what_another_method_timed_is_not_measured():
    assert not select.is_measured({A: VALUE, B: VALUE}, [A, B], 8, told={}, other_method={B})


HOT, ERROR = ("k.Cpu.time_hot", ("native", "c")), ("k.Cpu.track_max_error", ("native", "c"))


@pytest.mark.parametrize(
    ("stored", "tracked", "wrong"),
    [
        ([], False, []),
        ([(HOT, VALUE)], False, []),  # recorded before errors were tracked
        ([(HOT, VALUE), (ERROR, NOTHING)], False, []),  # another case was asked for
        ([(HOT, VALUE), (ERROR, VALUE)], True, []),
        ([(HOT, VALUE), (ERROR, FAILED)], True, [ERROR]),  # not tried again by itself
        ([(HOT, FAILED), (ERROR, FAILED)], True, []),  # its time says so already
        ([(HOT, NOTHING), (ERROR, NOTHING)], True, []),  # does not apply
        ([(ERROR, NOTHING)], False, []),
    ],
)
def test_what_counts_as_tracked(stored, tracked, wrong):
    assert select.is_tracked(dict(stored), [ERROR]) is tracked
    assert select.wrong_errors(dict(stored), [ERROR]) == wrong


def test_an_error_that_the_problem_does_not_give_is_not_asked_for_again():
    stored = {HOT: VALUE, ERROR: NOTHING}
    assert select.is_tracked(stored, [ERROR], told={ERROR})
    assert not select.is_tracked(stored, [ERROR], told={HOT})
    assert not select.is_tracked({HOT: VALUE}, [ERROR], told={ERROR})  # said of a file that is no more
