"""docs/explanation/threat-model.md names tests that exist, and what it says of results of others is so."""

import ast
import re

import pytest

from kernel_velocity.suite import alone, audit
from tests import synthetic
from tests.package_graph import ROOT, imports, modules
from tests.site.test_report import write

PAGE = ROOT / "docs" / "explanation" / "threat-model.md"
NAMED = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE.read_text(encoding="utf-8"))
# Modules that may unpickle: what a process of their own command wrote a moment ago. apart.py reads no class but ours.
OWN_FILES = {"forking.py", "reading.py", "isolation.py", "apart.py"}
RUNS = {"eval", "exec", "compile", "__import__"}
PROBLEM_FILES = {"problem_formats.py", "flashinfer_inputs.py"}  # a problem file is code


@pytest.mark.parametrize(("path", "name"), NAMED)
def test_named_test_exists(path, name):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_boundary_names_a_test():
    sections = PAGE.read_text(encoding="utf-8").split("\n## ")[2:]  # behind the introduction and the table
    assert len(sections) >= 8
    assert [section.partition("\n")[0] for section in sections if "::test_" not in section] == []


def test_window_is_that_of_the_audit():
    window = PAGE.read_text(encoding="utf-8").partition("**The window.**")[2].partition("\n## ")[0]
    pauses = [f"{seconds * 1e6:.0f} µs" for seconds in alone.PAUSES]
    assert "pauses of {}, {} and {} that".format(*pauses) in " ".join(window.split())
    assert f"| CPU, one thread | {audit.NEAR - 1:.0%}, {audit.NEAR_SLACK * 1e6:.0f} µs and twice what" in window
    assert alone.HONEST == 2 and "up to four times" in window and alone.APART_TURNS == 5
    for where, device in (("CPU, several threads", "cpu"), ("CUDA", "cuda")):
        assert f"| {where} | five times and {audit.ALONE_SLACK[device] * 1e6:.0f} µs" in window
    assert f"| by what its inputs hold, on CUDA | {audit.GAIN - 1:.0%} |" in window
    assert audit.ALONE == 5 and audit.UNLEARNED == 10


def test_results_are_never_executed():
    for path in modules("tools/kernel_velocity"):
        if path.name not in OWN_FILES:
            assert not {"pickle", "marshal", "shelve", "dill", "joblib"} & set(imports(path)), path
        nodes = [*ast.walk(ast.parse(path.read_text()))]
        called = {getattr(node.func, "id", "") for node in nodes if isinstance(node, ast.Call)}
        assert not called & RUNS or path.name in PROBLEM_FILES, path
        owned = (node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name))
        assert not {"yaml.load", "torch.load", "numpy.load"} & {f"{node.value.id}.{node.attr}" for node in owned}, path


@pytest.mark.parametrize("name", ["add_mul_exp", "native", "float32-5M", synthetic.MACHINE, "py3.11"])
def test_names_with_path_separators_stay_in_the_site(tmp_path, name):
    """A kernel, an implementation, a case, a machine and an environment that are called like paths."""
    tree = synthetic.build(tmp_path / "deep" / "er")
    changed = 0
    for path in (*tree.results.rglob("*.json"), *tree.results.rglob("*.jsonl")):
        text = path.read_text()
        changed += name in text
        path.write_text(text.replace(name, "x/../../../../pwned/<img src=x onerror=alert(1)>"))
    assert changed
    before = {path for path in tmp_path.rglob("*") if "site" not in path.parts and ".asv" not in path.parts}
    _, out = write(tree)
    assert (out / "index.html").is_file()
    after = {path for path in tmp_path.rglob("*") if "site" not in path.parts and ".asv" not in path.parts}
    assert after == before
    assert not [path for path in tmp_path.rglob("*") if "pwned" in path.name]
    assert not [path for path in out.glob("*.html") if "<img src=x" in path.read_text()]
