"""What `make lint` runs on the workflows passes them as they are, works without a network, and finds planted faults."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workflows.reading import FOLDER, ROOT

BIN = Path(sys.executable).parent
GATE = (FOLDER / "pull-request.yml").read_text(encoding="utf-8")
CHECKOUT = re.search(r"actions/checkout@\w+ # \S+", GATE)[0]


def commands():
    """Return the lines of `make lint` that look at workflows."""
    (recipe,) = re.findall(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    return {Path(line.split()[0]).name: line.strip() for line in recipe.splitlines() if ".github" in line}


def lint(name, folder):
    """Run one of them on a folder that has .github; no proxy and no network may matter."""
    line = commands()[name].replace("$(VENV)/bin", shlex.quote(str(BIN)))
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy")
    nowhere = dict.fromkeys(proxies, "http://127.0.0.1:9")
    return subprocess.run(
        line, shell=True, cwd=folder, env={**os.environ, **nowhere}, capture_output=True, text=True, check=False
    )


def planted(folder, *faults):
    """Return a folder with a workflow for each fault: that of pull requests with one text replaced by another."""
    (folder / ".github" / "workflows").mkdir(parents=True)
    for number, (old, new) in enumerate(faults):
        assert old in GATE
        (folder / ".github" / "workflows" / f"fault-{number}.yml").write_text(GATE.replace(old, new))
    return folder


@pytest.mark.parametrize("name", ["check-jsonschema", "zizmor"])
def test_our_workflows_pass(name):
    done = lint(name, ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_schema_finds_planted_faults(tmp_path):
    faults = [
        ("runs-on:", "run-on:"),
        ("timeout-minutes: 60", "timeout-minutes: soon"),
        ("permissions: {}", "permissions: {content: read}"),
    ]
    done = lint("check-jsonschema", planted(tmp_path, *faults))
    assert done.returncode != 0
    assert set(re.findall(r"fault-\d", done.stdout)) == {"fault-0", "fault-1", "fault-2"}


@pytest.mark.parametrize(
    ("old", "new", "audit"),
    [
        (CHECKOUT, "actions/checkout@v6", "unpinned-uses"),
        ("          persist-credentials: false\n", "", "artipacked"),
        ("run: make venv", "run: echo ${{ github.event.pull_request.title }}", "template-injection"),
        ("  pull_request:\n", "  pull_request_target:\n", "dangerous-triggers"),
        ("permissions: {}", "permissions: write-all", "excessive-permissions"),
    ],
)
def test_the_security_linter_finds_a_planted_fault(old, new, audit, tmp_path):
    done = lint("zizmor", planted(tmp_path, (old, new)))
    assert done.returncode != 0
    assert audit in done.stdout
