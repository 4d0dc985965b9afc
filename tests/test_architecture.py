"""The import directions of the design, read from the sources: tools -> benchmarks -> kernels, never back."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HALVES = {"kernels": set(), "benchmarks": {"kernels"}, "tools": {"benchmarks"}}
# torch belongs to the measured half, and there inside functions: discovery must work without it.
TORCH = {"torch", "triton"}
PURE = (
    "errors",
    "bounds",
    "units",
    "measurements",
    "trends",
    "pages",
    "roofline",
    "cache_benefit",
    "roofs",
    "roof_choice",
    "vendor_peaks",
    "changes_along",
    "sparklines",
    "adjustment",
    "adjusted_series",
    "growing",
    "changepoints",
    "changepoints_drift",
    "changepoints_edivisive",
    "changepoints_elimination",
    "changepoints_noise",
    "changepoints_pelt",
    "changepoints_screen",
    "changepoints_values",
    "changepoints_visits",
    "changepoints_windows",
    "f_measure",
    "score_noise",
    "ab_test",
    "ab_rounds",
    "confirming",
    "bisecting",
    "gate_verdict",
    "gate_report",
    "night_screen",
    "night_selection",
    "series_identity",
    "histories",
    "moves",
    "attribution",
    "regressions",
    "absences",
    "perf_expected",
    "evidence",
    "night_evidence",
    "finding_axes",
    "finding_figures",
    "finding_words",
    "finding_text",
    "verdict_text",
    "verdict_markdown",
    "tracked_series",
    "series_changes",
    "changepoints_kept",
    "changepoints_along",
    "changepoints_many",
    "changepoints_packed",
    "kernel_quantities",
    "kernel_marks",
    "kernel_tables",
    "result_texts",
    "commit_values",
)  # take and return frozen values
IMPURE = {"os", "io", "pathlib", "subprocess", "time", "datetime", "git", "tempfile", "shutil", "asv"}


def modules(package):
    return sorted((ROOT / package).rglob("*.py"))


def imports(path, *, top_only=False):
    """Return the absolute names that a module imports; what only type checkers see is left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        or (top_only and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 or path.is_relative_to(ROOT / "kernels"), f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} if node.level == 0 else set()
    return found


@pytest.mark.parametrize("package", HALVES)
def test_import_directions(package):
    assert modules(package)
    for path in modules(package):
        roots = {name.split(".")[0] for name in imports(path)}
        wrong = (roots & set(HALVES)) - HALVES[package] - {package}
        assert not wrong, f"{path} imports {wrong}"


def test_the_analysis_half_never_sees_the_benchmarks_of_a_kernel_at_work():
    for path in modules("tools"):
        assert not {name.split(".")[0] for name in imports(path)} & (TORCH | {"kernels"}), path


def is_triton(path):
    """Whether a module of `kernels` is of the Triton implementations, which nothing else there imports."""
    return path.is_relative_to(ROOT / "kernels") and path.stem.startswith("triton")


@pytest.mark.parametrize("package", ["kernels", "benchmarks"])
def test_no_torch_at_import(package):
    for path in modules(package):
        if is_triton(path):
            continue
        assert not {name.split(".")[0] for name in imports(path, top_only=True)} & TORCH, path


def test_kernels_depend_on_nothing():
    for path in modules("kernels"):
        own = {"kernels", "triton"} if is_triton(path) else {"kernels"}
        roots = {name.split(".")[0] for name in imports(path)}
        assert roots <= set(sys.stdlib_module_names) | own, (path, roots)


def test_the_triton_implementations_are_imported_by_those_who_ask_for_them_alone():
    found = [path for path in modules("kernels") if is_triton(path)]
    assert len(found) >= 4
    for package in ("kernels", "benchmarks"):
        for path in modules(package):
            names = {part for name in imports(path) for part in name.split(".") if name.startswith("kernels.")}
            assert is_triton(path) or not names & {one.stem for one in found}, path
    refused = imported_without(("torch", "triton"), ["kernels"])
    assert refused.returncode == 0, refused.stderr.splitlines()[-1]
    lacking = imported_without(("triton",), ["kernels.matmul.triton"])
    assert lacking.stderr.splitlines()[-1].startswith("ImportError: a node has no triton")


@pytest.mark.parametrize("module", PURE)
def test_pure_modules_open_no_file_and_read_no_clock(module):
    path = ROOT / "tools" / f"{module}.py"
    assert not {name.split(".")[0] for name in imports(path)} & IMPURE
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert "open" not in calls


def test_stopping_rules_see_no_device():
    paths = modules("benchmarks/harness/stopping")
    assert paths
    for path in paths:
        roots = {name.split(".")[0] for name in imports(path)}
        assert roots <= set(sys.stdlib_module_names) | {"benchmarks", "numpy"}, path
        assert not {name for name in imports(path) if "time" in name.split(".")}, f"{path} reads a clock"


NODE = ("tools.__main__", "tools.track", "tools.session", "tools.record", "tools.ingest", "tools.asv_plugin")
NOT_ON_A_NODE = ("scipy", "jinja2", "bokeh", "tomli_w", "matplotlib", "playwright", "orjson")
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
    """Import modules in a fresh process as if some packages were not installed; return it."""
    command = [sys.executable, "-c", REFUSED, ",".join(packages), *names]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_node_that_only_measures_needs_no_package_of_the_analysis():
    pytest.importorskip("asv", reason="a node has it")
    offline = [f"tools.offline.{path.stem}" for path in (ROOT / "tools" / "offline").glob("*.py")]
    assert len(offline) > 10
    done = imported_without(NOT_ON_A_NODE, [*NODE, *offline])
    assert done.returncode == 0, done.stderr.splitlines()[-1]
    lacking = imported_without(NOT_ON_A_NODE, ["tools.changepoints"])  # which needs scipy
    assert lacking.stderr.splitlines()[-1].startswith("ImportError: a node has no scipy")


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
