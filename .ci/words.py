"""Check the words of tracked files: docstrings without a semicolon, names that say the thing, short lines of Markdown.

`python .ci/words.py` prints each fault and the counts, and exits with 1 if there is one. `--all` includes EXCEPTED.
"""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

VAGUE = re.compile(  # words for what somebody did with a value, or for any value at all
    "_*(asked|each|found|given|going_on|items?|kept|known|one|own|places?|said|seen|taken|things?|told|twice)_*", re.I
)
LETTERS, TEST_LETTERS = 120, 60  # of a line of Markdown without the addresses of links, and of the name of a test
EXCEPTED = (  # for good. One without a fault is a fault: the list can only shrink
    "kernels/",  # its Python files are part of the code hash of recorded series
    "CHANGELOG.md",
    "results/h200/",  # summaries that a run on a node wrote
)


def python_faults(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line, rule, what) of a module. `# words: <reason>` after a binding allows its name."""
    lines = text.split("\n")
    for node in ast.walk(ast.parse(text)):
        binds = not isinstance(node, ast.keyword | ast.alias) and not isinstance(getattr(node, "ctx", None), ast.Load)
        for name in [getattr(node, field, None) for field in ("id", "arg", "attr", "name", "rest") if binds]:
            if name and VAGUE.fullmatch(name) and "# words: " not in lines[node.lineno - 1]:
                yield node.lineno, "name", f"{name} does not say what it is"
            if name and name.startswith("test_") and len(name) > TEST_LETTERS:
                yield node.lineno, "test", f"{name} is a sentence: at most {TEST_LETTERS} letters"
        is_documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if is_documented and ";" in (ast.get_docstring(node) or ""):
            yield node.body[0].lineno, "semicolon", "a docstring has one: write two sentences"


def page_faults(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line, rule, what) of the lines of a Markdown page that are too long. Code and tables may be long."""
    text = re.sub(r"(?ms)^ *```.*?^ *```", lambda code: "\n" * code[0].count("\n"), text)
    for number, line in enumerate(text.split("\n"), 1):
        letters = len(re.sub(r"\]\([^)]*\)|https?://\S+", "]", line))
        if letters > LETTERS and not line.startswith(("|", "    ")):
            yield number, "line", f"{letters} letters, at most {LETTERS}"


listed = subprocess.run(["git", "ls-files", "-z", "*.py", "*.md"], capture_output=True, text=True, check=True).stdout
faults, excepted = [], {""}
for path in (name for name in listed.split("\0") if "/golden/" not in name and Path(name).is_file()):
    entry = next((entry for entry in EXCEPTED if path.startswith(entry)), "")
    for line, rule, what in (python_faults if path.endswith(".py") else page_faults)(Path(path).read_text("utf-8")):
        excepted.add(entry)
        faults += [(f"{path}:{line}", rule, what)] if not entry or "--all" in sys.argv else []
faults += [(".ci/words.py", "exception", f"{entry} has no fault") for entry in EXCEPTED if entry not in excepted]
print(*(": ".join(fault) for fault in faults), Counter(rule for _, rule, _ in faults), sep="\n")
sys.exit(bool(faults))
