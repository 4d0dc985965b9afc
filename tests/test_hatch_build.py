"""The build hook that fetches the chart library: its pins, its address, and what it says when it fails."""

import importlib.util
import io
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest

TOOLS = Path(__file__).parents[1] / "tools"
INTERFACE = "hatchling.builders.hooks.plugin.interface"


@pytest.fixture
def hook(monkeypatch):
    # hatchling is in the environments of builds only
    monkeypatch.setitem(sys.modules, INTERFACE, SimpleNamespace(BuildHookInterface=object))
    for end in (1, 2, 3, 4):
        monkeypatch.setitem(sys.modules, ".".join(INTERFACE.split(".")[:end]), SimpleNamespace())
    spec = importlib.util.spec_from_file_location("hatch_build", TOOLS / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_installed_files_are_the_pinned_ones(hook):
    hook.add(TOOLS / hook.FOLDER, {"npm_config_registry": "http://127.0.0.1:9"})  # asks no registry


@pytest.mark.parametrize(
    ("variables", "settings", "address"),
    [
        ({"NPM_CONFIG_REGISTRY": "https://a.example/npm/"}, "registry=https://b.example", "https://a.example/npm"),
        ({}, "# registry=x\nfund=false\nregistry = 'https://b.example/'\n", "https://b.example"),
        ({}, "@scope:registry=https://c.example\n", "https://registry.npmjs.org"),
        ({}, None, "https://registry.npmjs.org"),
    ],
)
def test_registry_is_that_of_npm(hook, tmp_path, variables, settings, address):
    if settings is not None:
        (tmp_path / ".npmrc").write_text(settings)
    assert hook.registry({"HOME": str(tmp_path), **variables}) == address


def test_other_files_are_refused(hook, tmp_path):
    (tmp_path / "registry/uplot/-").mkdir(parents=True)
    with tarfile.open(tmp_path / f"registry/uplot/-/uplot-{hook.VERSION}.tgz", "w:gz") as archive:
        member = tarfile.TarInfo("package/dist/uPlot.iife.min.js")
        member.size = 3
        archive.addfile(member, io.BytesIO(b"bad"))
    environment = {"npm_config_registry": (tmp_path / "registry").as_uri()}
    with pytest.raises(SystemExit) as refusal:
        hook.add(tmp_path / "folder", environment)
    assert f"is not uPlot {hook.VERSION}'s: got SHA-256 " in str(refusal.value)
    with pytest.raises(SystemExit) as refusal:
        hook.add(tmp_path / "folder", {"npm_config_registry": (tmp_path / "gone").as_uri()})
    assert "cannot be fetched" in str(refusal.value) and str(refusal.value).count("\n") == 0
    assert not (tmp_path / "folder").exists()
