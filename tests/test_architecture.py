"""The import directions, read from the sources: the rooms of house, and kernels, benchmarks and tools."""

import ast
import re
import subprocess
import sys

import pytest

from tests import package_graph
from tests.package_graph import FACES, PACKAGE, RANKS, ROOT, charter, imports, module_name, modules, room

PURE_ROOMS = ("stats",)  # mathematics: no file, no clock
IMPURE = {"os", "io", "pathlib", "subprocess", "time", "datetime", "git", "tempfile", "shutil"}
# torch belongs to the measured half, and there inside functions: discovery must work without it.
TORCH = {"torch", "triton"}
MEASURING = ("engine", "problem", "machine", "counts", "suite")  # rooms of the process that measures


def against_the_layers(path, paths):
    """Yield what a module imports from a room that does not lie below its own."""
    rank = {name: number for number, names in enumerate(RANKS) for name in names}
    importer = room(module_name(path))
    for name in imports(path):
        target = name if name in paths else name.rpartition(".")[0]
        if target in paths and room(target) != importer and rank[room(target)] >= rank[importer]:
            yield f"{path} imports {name} of {paths[target]}"


def test_rooms_import_only_rooms_below_them():
    paths = {module_name(path): path for path in modules("tools/kernel_velocity")}
    assert {room(name) for name in paths} == {name for names in RANKS for name in names}
    assert not [line for path in paths.values() for line in against_the_layers(path, paths)]


@pytest.mark.parametrize("line", ["from kernel_velocity.site import b", "import_module('kernel_velocity.site.b')"])
def test_import_against_the_layers_is_named_with_both_files(tmp_path, monkeypatch, line):
    monkeypatch.setattr(package_graph, "ROOT", tmp_path)
    monkeypatch.setattr(package_graph, "PACKAGE", tmp_path / "kernel_velocity")
    for name, text in {"stats/a.py": line, "site/b.py": ""}.items():
        path = tmp_path / "kernel_velocity" / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    paths = {module_name(path): path for path in modules("kernel_velocity")}
    (error,) = against_the_layers(tmp_path / "kernel_velocity/stats/a.py", paths)
    package = tmp_path / "kernel_velocity"
    assert error == f"{package}/stats/a.py imports kernel_velocity.site.b of {package}/site/b.py"


def test_every_folder_has_a_charter_that_lists_its_modules():
    for face in PACKAGE.parent.rglob("__init__.py"):
        names = {f"{path.stem}.py" for path in face.parent.glob("*.py")} - {"__init__.py"}
        names |= {f"{path.parent.name}/" for path in face.parent.glob("*/__init__.py")}
        missing = [name for name in sorted(names) if f"\n{name}  " not in re.sub(r"\n +", "\n", charter(face))]
        assert not missing, f"{face.relative_to(ROOT)} does not list {missing}"


def test_pictures_and_table_of_the_rooms_are_current():
    cure = "the imports or the charters changed: python -m tests.package_graph"
    assert package_graph.PAGE.read_text(encoding="utf-8").count(package_graph.table()) == 1, cure
    for name, text in package_graph.drawings().items():
        assert (package_graph.PICTURES / name).read_text(encoding="utf-8") == text, cure


def test_benchmarks_import_interface_and_measuring_rooms_only():
    for path in modules("benchmarks"):
        ours = {
            name for name in imports(path) if name.split(".")[0] in ("tools", "tests", "kernels", "kernel_velocity")
        }
        others = {name for name in ours if name.split(".")[1:2] not in [["names"], *([room] for room in MEASURING)]}
        assert others <= {"kernel_velocity"}, path


def test_only_tests_import_the_lab():
    for package in ("tools/kernel_velocity", "benchmarks", "kernels"):
        for path in modules(package):
            assert "lab" not in {name.split(".")[0] for name in imports(path)}, path


def test_tools_import_neither_kernels_nor_benchmarks():
    for path in modules("tools"):
        assert not {name.split(".")[0] for name in imports(path)} & {"kernels", "benchmarks"}, path


def test_only_measuring_rooms_import_torch():
    for path in modules("tools/kernel_velocity"):
        if room(module_name(path)) not in MEASURING:
            assert not {name.split(".")[0] for name in imports(path)} & TORCH, path


def test_one_module_touches_the_results_of_asv():
    """Their attributes are private: what asv changes is mended in one place."""
    touching = [path.name for path in modules("tools") if {"asv.results.Results", "asv.results"} & imports(path)]
    assert touching == ["asv_file.py"]


def is_triton(path):
    """Whether a module of `kernels` is of the Triton implementations, which nothing else there imports."""
    return path.is_relative_to(ROOT / "kernels") and path.stem.startswith("triton")


@pytest.mark.parametrize("package", ["kernels", "benchmarks", *(f"tools/kernel_velocity/{name}" for name in MEASURING)])
def test_no_torch_at_import(package):
    for path in modules(package):
        if is_triton(path):
            continue
        assert not {name.split(".")[0] for name in imports(path, top_only=True)} & TORCH, path


def test_kernels_depend_on_nothing():
    for path in modules("kernels"):
        allowed = {"kernels", "triton"} if is_triton(path) else {"kernels"}
        roots = {name.split(".")[0] for name in imports(path)}
        assert roots <= set(sys.stdlib_module_names) | allowed, (path, roots)


def test_triton_implementations_are_imported_on_demand():
    result = [path for path in modules("kernels") if is_triton(path)]
    assert len(result) >= 4
    for package in ("kernels", "benchmarks", "tools"):
        for path in modules(package):
            names = {part for name in imports(path) for part in name.split(".") if name.startswith("kernels.")}
            assert is_triton(path) or not names & {module.stem for module in result}, path
    refused = imported_without(("torch", "triton"), ["kernels"])
    assert refused.returncode == 0, refused.stderr.splitlines()[-1]
    lacking = imported_without(("triton",), ["kernels.matmul.triton"])
    assert lacking.stderr.splitlines()[-1].startswith("ImportError: a node has no triton")


@pytest.mark.parametrize("package", PURE_ROOMS)
def test_mathematics_opens_no_file_and_reads_no_clock(package):
    for path in modules(f"tools/kernel_velocity/{package}"):
        assert not {name.split(".")[0] for name in imports(path)} & IMPURE, path
        calls = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        assert "open" not in [function.id for function in calls if isinstance(function, ast.Name)], path


def test_stopping_rules_see_no_device():
    names = imports(ROOT / "tools/kernel_velocity/engine/stopping.py")
    assert {name.split(".")[0] for name in names} <= set(sys.stdlib_module_names) | {"kernel_velocity", "numpy"}
    assert not {name for name in names if "time" in name.split(".")}, "it reads a clock"


NODE = (*MEASURING, "results", "runner")  # rooms that a machine that only measures imports
NOT_ON_A_NODE = ("scipy", "jinja2", "tomli_w", "matplotlib", "playwright", "orjson")
REFUSED = """
import importlib, sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split(","):
            raise ImportError(f"a node has no {name}")

sys.meta_path.insert(0, Refused())
for name in sys.argv[2:]:
    importlib.import_module(name)
"""


def imported_without(packages, names):
    """Import modules in a fresh process as if some packages were not installed. Return it."""
    command = [sys.executable, "-c", REFUSED, ",".join(packages), *names]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_measuring_node_needs_no_analysis_package():
    pytest.importorskip("asv", reason="a node has it")
    names = [module_name(path) for name in NODE for path in modules(f"tools/kernel_velocity/{name}")]
    faces = [f"kernel_velocity.{name}" for name in (*FACES, "fleet.run", "fleet.archive")]
    done = imported_without(NOT_ON_A_NODE, [*names, *faces, "tests.conftest"])
    assert done.returncode == 0, done.stderr.splitlines()[-1]
    lacking = imported_without(NOT_ON_A_NODE, ["kernel_velocity.stats.changepoints.search"])  # which needs scipy
    assert lacking.stderr.splitlines()[-1].startswith("ImportError: a node has no scipy")


def test_asv_plugin_does_without_gitpython():  # which takes a sixth of each start of asv
    assert imported_without(("git",), ["kernel_velocity.asv_plugin"]).returncode == 0


def test_importing_the_suite_has_no_side_effect_outside_asv():
    script = (
        "import sys; import asv_runner.benchmarks as b; before = list(b.benchmark_types); import benchmarks;"
        "assert b.benchmark_types == before; assert 'torch' not in sys.modules"
    )
    pytest.importorskip("asv_runner", reason="there is no asv to have an effect on")
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True)


def test_templates_compute_nothing():
    for path in sorted((ROOT / "html_templates").glob("*.html")):
        for part in path.read_text(encoding="utf-8").split("{{")[1:]:
            expression = part.split("}}")[0]
            assert not set("+*/%") & set(expression), f"{path.name}: {{{{{expression}}}}}"
