""".ci/words.py, which `make lint` runs, finds planted faults."""

import re
import subprocess
import sys

from tests.workflows.reading import ROOT


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
