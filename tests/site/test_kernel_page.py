"""A kernel's page: its tables and data, what its chart marks and offers, the compiled code, the source."""

import dataclasses
import json
from types import SimpleNamespace

import git
import numpy as np
import pytest

from kernel_velocity.errors import HistoryError
from kernel_velocity.names import UNITS_OF_FIGURES
from kernel_velocity.past.past import Tracked
from kernel_velocity.results import git as results_git
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.roofline.model import MemoryLevel, Roofs
from kernel_velocity.roofline.roofs import Choice
from kernel_velocity.site import model, text
from kernel_velocity.site.pages import kernel as kernel_page
from kernel_velocity.site.pages import kernel_chart
from kernel_velocity.site.pages.kernel_chart import BENEFIT, EFFICIENCY, GFLOPS, TIME
from kernel_velocity.suite.config import Project
from tests import large_tree
from tests.findings.nights import identity
from tests.golden import check_golden
from tests.site import large_site
from tests.site.pages import (
    GOLDEN,
    PARTS,
    add_session,
    affected,
    as_text,
    edit,
    keep,
    kernel,
    kernel_files,
    make_na,
    rendered,
    results_file,
    words,
)

PROJECT = Project(sources=("kernels/{kernel}",))


def test_kernel_data_golden(tree, accept):
    data = kernel_files(tree)["kernel-add_mul_exp-Cpu"].value()
    check_golden(GOLDEN / "kernel_data.json", as_text(data), accept=accept)


def test_times_without_benchmarks_json(tree):
    (tree.results / "benchmarks.json").unlink()
    page = kernel(tree, "add_mul_exp-Cpu")
    cell = page.sections[0].tables[1][1].rows[-1][2]
    assert (cell.text, cell.detail) == ("3.00 ms", "3.00 ms to 3.01 ms")
    assert tuple(vars(page)["quantities"]) == ("µs", "speed-up")


# ---- tables and data --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """A site of 300 commits in two cache states."""
    more = {"states": ("hot", "cold"), "tag_names": ("v{}", "t" * 99)}
    return large_site.make(tmp_path_factory.mktemp("long"), 300, ("eager", "native"), **more)


@pytest.fixture(scope="module")
def made(long):
    """The page that the kernel adds to that site, and the data of its chart."""
    files = kernel_files(long)
    return kernel(long, "matmul-Cuda"), files["kernel-matmul-Cuda"].value()


def test_long_page_golden(long, accept):
    text = words(kernel_files(long)["kernel-matmul-Cuda.html"])
    check_golden(GOLDEN / "long-kernel.txt", text + "\n", accept=accept)


def test_marks_golden(made, accept):
    marks = {name: made[1][name] for name in ("marks", "groups")}
    marks["series"] = [{name: series[name] for name in ("name", "quantities")} for series in made[1]["series"]]
    check_golden(GOLDEN / "marks_data.json", as_text(marks), accept=accept)


def test_errors_of_the_newest_version(long):
    errors = dict(long.tracked)
    key = next(iter(errors))
    old = dataclasses.replace(key, version="0")
    errors[old] = dataclasses.replace(errors[key], key=old)
    slot = (key.machine, key.environment, key.implementation, key.case)
    past = SimpleNamespace(tracked=errors)
    assert kernel_chart.errors_of(past, key.benchmark, {slot}) == {slot: errors[key]}
    assert kernel_chart.errors_of(past, "matmul.Cpu.track_max_error", {slot}) == {}
    assert kernel_chart.errors_of(past, key.benchmark, set()) == {}


def test_page_follows_from_its_inputs(tree):
    """Whatever changes a page or its data changes its inputs. A results file is one of all series that it has."""

    def inputs():
        return {name: file.inputs for name, file in kernel_files(tree).items() if file.inputs is not None}

    def differing():
        before = dict(latest)
        latest.update(inputs())
        return sorted(name for name, text in latest.items() if text != before[name])

    def of(kernel):
        return [f"kernel-{kernel}-Cpu", f"kernel-{kernel}-Cpu.html"]

    latest = inputs()
    assert sorted(latest) == sorted([*of("add_mul_exp"), *of("matmul")])
    assert differing() == []
    make_na(tree, 4, "matmul.Cpu.time_hot", ["float32-512x512x512"], ("triton",))
    assert differing() == [*of("add_mul_exp"), *of("matmul")]
    keep(tree, commits=(tree.commits[2],), affected=affected(1.01, case="float32-512x512x512", **PARTS))
    assert differing() == of("matmul")
    add_session(tree, 3, facts={"driver": "550"})
    assert differing() == [*of("add_mul_exp"), *of("matmul")]
    add_session(tree, 4, facts={"driver": "560"})
    assert differing() == [*of("add_mul_exp"), *of("matmul")]
    with git.Repo(tree.repository) as repo:
        repo.create_tag("v1", ref=tree.commits[3])
    assert differing() == [*of("add_mul_exp"), *of("matmul")]


def test_traffic_of_unfused_operations_is_beside_the_kernels(tree):
    before = kernel_files(tree)["kernel-add_mul_exp-Cpu.html"].inputs
    path = tree.results / "benchmarks.json"
    data = json.loads(path.read_text())
    entry = data["add_mul_exp.Cpu.time_hot"]
    first, *others = entry["bytes"]
    entry["unfused_bytes"] = {first: entry["bytes"][first] * 7 / 3, **{case: entry["bytes"][case] for case in others}}
    path.write_text(json.dumps(data))
    (row,) = kernel(tree, "add_mul_exp-Cpu").traffic.rows
    assert (row[0], row[3]) == (first, "2.33×")
    page = kernel_files(tree)["kernel-add_mul_exp-Cpu.html"]
    assert "of the reference's operations one by one" in words(page) and page.inputs != before
    assert kernel(tree, "matmul-Cpu").traffic.rows == []


@pytest.mark.parametrize("most", [1, 2, 128])
def test_pages_are_made_in_parts(tmp_path, monkeypatch, most):
    shape = large_tree.Shape(commits=3, series=120)
    large_tree.build(tmp_path, shape)
    site = model.read(tmp_path / "results", tmp_path / "repository")
    monkeypatch.setattr(kernel_page, "PARTS", most)
    parts = [[made.name for made in part(site)] for part in kernel_page.parts(site)]
    assert len(parts) == min(most, 3) and all(parts)
    names = [name for part in parts for name in part]
    assert names == list(kernel_files(site))
    assert len([name for name in names if name.endswith(".html")]) == 3


# ---- quantities -------------------------------------------------------------------------------------------------

CACHE, DRAM = MemoryLevel(name="L2", size=1 << 20, bandwidth=100e9), MemoryLevel(name="DRAM", size=None, bandwidth=20e9)


def key(benchmark="matmul.Cpu.time_hot", implementation="native", case="float32-1M", machine="m"):
    return SeriesKey(
        machine=machine, environment="e", benchmark=benchmark, implementation=implementation, case=case, version="1"
    )


def of(flop, bytes_moved, benchmark="matmul.Cpu.time_hot"):
    """What the pages ask a series of some work."""
    return SimpleNamespace(key=key(benchmark), flop=flop, bytes_moved=bytes_moved)


def quantities(flop, bytes_moved, roofs):
    series = of(flop, bytes_moved)
    return set(kernel_chart.of_work(series, Choice(roofs=roofs), kernel_chart.roof(series, roofs)))


def test_quantities_of_what_is_known():
    assert quantities(None, None, None) == {TIME}
    assert quantities(2e9, 1e6, Roofs(levels=(), peaks={"float32": 1e11})) == {GFLOPS, EFFICIENCY, TIME}
    no_peak = Roofs(levels=(DRAM,), peaks={})
    assert quantities(None, 1e6, no_peak) == {EFFICIENCY, BENEFIT, TIME}
    assert kernel_chart.roof(of(2e9, None), no_peak) is None


def test_implementation_alone_has_no_speed_up():
    alone = key(implementation="eager")
    assert kernel_chart.ratios(alone, {alone: "series-0"}, {"hot": alone.benchmark}) == {}


# ---- compiled code ----------------------------------------------------------------------------------------------

LINE = ("a", "b", "c", "d", "e")


def tracked(benchmark, values, *, case="sm_90"):
    return Tracked(
        key=key(benchmark, case=case),
        position=np.array(list(values), dtype=np.int32),
        value=np.array(list(values.values()), dtype=float),
        began=np.full(len(values), np.nan),
    )


def test_figures_where_they_changed():
    figures = [
        tracked("matmul.Cuda.track_registers", {0: 168, 1: 168, 3: 128, 4: 128}),
        tracked("matmul.Cpu.track_code_bytes", {2: 14534}, case="avx512"),
        tracked("matmul.Cuda.track_max_error", {0: 1}),
        tracked("other.Cuda.track_registers", {0: 1}),
    ]
    (code,) = kernel_chart.figures_of(figures, "matmul", "Cpu", LINE)
    (registers,) = kernel_chart.figures_of(figures, "matmul", "Cuda", LINE)
    named = {"machine": "m", "environment": "e", "benchmark": "matmul.Cuda.track_registers", "target": "sm_90"}
    assert registers == {**named, "unit": "registers of a thread", "before": [None, "b"],
                         "commit": ["a", "d"], "value": [168, 128]}  # fmt: skip
    assert (code["before"], code["commit"], code["value"]) == ([None], ["c"], [14534])


def test_figure_that_changed_has_a_line_with_its_steps(tree):
    newest = len(tree.commits) - 1
    names = {"matmul.Cpu.track_instructions": (1000.0, 1000.0, 1010.0), "matmul.Cpu.track_reads": (5.0, 5.0, 5.0)}
    for name, values in names.items():
        edit(
            tree.results / "benchmarks.json",
            lambda data, name=name: data.update({name: {"type": "track", "version": "1"}}),
        )
        for index, value in zip((0, newest - 1, newest), values, strict=True):
            row = {name: [[value], [["'native'"], ["'float32-8x8x8-avx2'"]], "1", 1767225600000, 1.0]}
            edit(results_file(tree, index), lambda data, row=row: data["results"].update(row))
    page = kernel(tree, "matmul-Cpu")
    lines = {row[0].text.split(",")[0]: row[-1] for row in page.figures.rows}
    assert lines["reads of a call"] == "" and lines["instructions of a call"].count('class="step"') == 1
    assert "<title>1 step, from 1,000 to 1,010</title>" in lines["instructions of a call"]
    assert rendered(kernel_files(tree)["kernel-matmul-Cpu.html"]).count('class="step"') == 1  # drawn, not escaped
    (head,) = page.headlines
    words = "time unchanged within 9.8%; 1.0% more instructions (float32-8x8x8-avx2)"
    assert head.counted == f"Since {tree.commits[newest - 1][:8]}: {words}"


def test_figures_have_words():
    assert set(text.FIGURES) == {f"track_{name}" for name in UNITS_OF_FIGURES}


def test_figures_and_errors_are_not_timed():
    timed = {"device.Cpu.track_dram_read_bandwidth": True, "matmul.Cpu.track_max_error": False}
    timed |= {"matmul.Cuda.track_registers": False, "matmul.Cuda.track_spill_bytes": False}
    assert {name: identity(benchmark=name).is_timed for name in timed} == timed


# ---- source -----------------------------------------------------------------------------------------------------

STEPS = (
    {"kernels/matmul/matmul.cpp": "// one\n", "kernels/matmul/__init__.py": "ONE = 1\n", "README.md": "x"},
    {"README.md": "y"},
    {"kernels/matmul/matmul.cpp": "// two\n", "kernels/other/other.cpp": "// not mine\n"},
    {
        "kernels/matmul/matmul.cu": "// </script><b>\n",
        "kernels/matmul/tiles.h": "// of matmul.cu\n",
        "kernels/matmul/notes.txt": "left out\n",
    },
    {"README.md": "z"},
)


@pytest.fixture
def repository(tmp_path):
    """Return a folder and its commits, oldest first."""
    shas = []
    with git.Repo.init(tmp_path, initial_branch="main") as repo:
        for number, files in enumerate(STEPS):
            for name, text in files.items():
                path = tmp_path / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
                repo.index.add([name])
            shas.append(repo.index.commit(f"Step {number}").hexsha)
    return tmp_path, shas


def versions_of(repository, measured=None):
    folder, shas = repository
    order = {sha: position for position, sha in enumerate(shas)}
    changed = results_git.source_changes(folder, PROJECT, ["matmul"]).get("matmul", ())
    positions = range(len(shas)) if measured is None else measured
    return results_git.source_versions(folder, PROJECT.sources_of("matmul"), changed, positions, order)


def test_source_changes_are_gits(repository):
    """Also of a merge, of a name that git would quote, and where a user's settings leave out what the root brought."""
    folder, _ = repository
    with git.Repo(folder) as repo:
        repo.config_writer().set_value("log", "showRoot", "false").release()
        repo.git.checkout("-b", "side", "HEAD~2")
        for name in ("matmul/side.h", "n\u00e4 me/x y.cpp"):
            path = folder / "kernels" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("//\n")
        repo.git.add("kernels")
        repo.git.commit("-m", "Aside")
        repo.git.checkout("main")
        repo.git.merge("side", "-m", "Merge", "--no-ff")
        changed = results_git.source_changes(folder, PROJECT, ["matmul", "other", "n\u00e4 me", "absent"])
        assert changed.keys() == {"matmul", "other", "n\u00e4 me"}
        for kernel, commits in changed.items():
            assert list(commits) == repo.git.rev_list("HEAD", "--first-parent", "--", f"kernels/{kernel}").split()
        assert changed["n\u00e4 me"] == (repo.head.commit.hexsha,)


@pytest.mark.parametrize(
    ("measured", "most", "subjects"),
    [
        (range(5), 128, ["Step 0", "Step 2", "Step 3"]),
        ((1, 4), 128, ["Step 0", "Step 3"]),
        (range(5), 2, ["Step 2", "Step 3"]),
        ((), 128, []),
    ],
)
def test_source_versions(repository, monkeypatch, measured, most, subjects):
    monkeypatch.setattr(results_git, "MOST_VERSIONS", most)
    assert [version.commit.subject for version in versions_of(repository, measured)] == subjects


def test_source_of_a_removed_kernel(repository):
    folder, shas = repository
    with git.Repo(folder) as repo:
        repo.git.rm("-r", "kernels/matmul")
        shas.append(repo.index.commit("Remove it").hexsha)
    assert [version.commit.subject for version in versions_of(repository)][-1] == "Step 3"


def test_source_that_is_no_text(repository):
    folder, shas = repository
    (folder / "kernels/matmul/matmul.cpp").write_bytes(b"// \xff\xfe\n")
    with git.Repo(folder) as repo:
        repo.index.add(["kernels/matmul/matmul.cpp"])
        shas.append(repo.index.commit("Odd bytes").hexsha)
    files = dict(versions_of(repository)[-1].files)
    assert files["matmul.cpp"] == "// \ufffd\ufffd\n"
    assert [*files] == ["matmul.cu", "matmul.cpp", "tiles.h", "__init__.py"]  # and no notes.txt


def test_source_data_has_each_text_once(repository):
    (made,) = kernel_page.source_files("matmul", versions_of(repository))
    assert made.name == "source-matmul"
    assert len(made.value["texts"]) == len(set(made.value["texts"])) == 5
    last = made.value["versions"][-1]
    assert made.value["texts"][last["files"]["matmul.cu"]] == "// </script><b>\n"
    assert last["commit"] == repository[1][3]


def test_source_of_a_damaged_repository(repository):
    folder, shas = repository
    with git.Repo(folder) as repo:
        blob = (repo.commit(shas[3]).tree / "kernels/matmul/matmul.cu").hexsha
    lost = folder / ".git" / "objects" / blob[:2] / blob[2:]
    lost.chmod(0o600)
    lost.unlink()
    with pytest.raises(HistoryError, match=r"git cannot read kernels/matmul .*git fsck"):
        versions_of(repository)
