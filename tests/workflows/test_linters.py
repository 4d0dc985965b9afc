"""What `make lint` runs on workflows and words works without a network, and finds planted faults."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.workflows.reading import ACTIONS, FOLDER, ROOT

BIN = Path(sys.executable).parent
GATE = (FOLDER / "pull-request.yml").read_text(encoding="utf-8")
CHECKOUT = re.search(r"actions/checkout@\w+ # \S+", GATE)[0]


def commands():
    """Return the lines of `make lint` that look at workflows and actions, by program and files."""
    (recipe,) = re.findall(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    lines = [line.strip() for line in recipe.splitlines() if ".github" in line]
    return {(Path(line.split()[0]).name, line.split()[-1]): line for line in lines}


def lint(name, files, folder):
    """Run one of them on a folder that has .github. No proxy and no network may matter."""
    line = commands()[name, files].replace("$(VENV)/bin", shlex.quote(str(BIN)))
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


def test_schema_finds_planted_faults(tmp_path):
    faults = [
        ("runs-on:", "run-on:"),
        ("timeout-minutes: 60", "timeout-minutes: soon"),
        ("permissions: {}", "permissions: {content: read}"),
    ]
    done = lint("check-jsonschema", ".github/workflows/*", planted(tmp_path, *faults))
    assert done.returncode != 0
    assert set(re.findall(r"fault-\d", done.stdout)) == {"fault-0", "fault-1", "fault-2"}


def test_schema_of_actions_finds_a_planted_fault(tmp_path):
    folder = tmp_path / ".github" / "actions" / "fault"
    folder.mkdir(parents=True)
    (folder / "action.yml").write_text((ACTIONS / "gate" / "action.yml").read_text().replace("shell: bash", "shel: b"))
    assert lint("check-jsonschema", ".github/actions/*/action.yml", tmp_path).returncode != 0


def test_security_linter_finds_planted_faults(tmp_path):
    faults = {
        "unpinned-uses": (CHECKOUT, "actions/checkout@v6"),
        "artipacked": ("          persist-credentials: false\n", ""),
        "template-injection": ("- uses: $/", "- run: echo ${{ github.event.pull_request.title }}\n      - uses: $/"),
        "dangerous-triggers": ("  pull_request:\n", "  pull_request_target:\n"),
        "excessive-permissions": ("permissions: {}", "permissions: write-all"),
    }
    done = lint("zizmor", ".github", planted(tmp_path, *faults.values()))
    assert done.returncode != 0
    for number, audit in enumerate(faults):
        assert re.search(rf"\[{audit}\].*\n.*fault-{number}\.yml", done.stdout), audit


def test_words_finds_planted_faults(tmp_path):
    text = '"""A module; in two halves."""\n\nfound = 1\nkept = 2  # words: a reason\n\n\ndef test_{}(item): ...\n'
    (tmp_path / "module.py").write_text(text.format("x" * 60))
    (tmp_path / "page.md").write_text(f"{'x' * 121}\n| {'x' * 121}\n```\n{'x' * 121}\n```\n[x]({'x' * 121})\n")
    for command in (["git", "init", "-q"], ["git", "add", "."]):
        subprocess.run(command, cwd=tmp_path, check=True)
    command = [sys.executable, ROOT / ".ci" / "words.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    faults = re.findall(r"^(\w+\.\w+:\d+: \w+)", done.stdout, re.MULTILINE)
    assert done.returncode == 1
    assert sorted(faults) == [
        *(f"module.py:{what}" for what in ("1: semicolon", "3: name", "7: name", "7: test")),
        "page.md:1: line",
    ]
