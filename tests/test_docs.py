"""README, CONTRIBUTING and docs/ against what they describe: links, commands, settings, exit codes, files, keys.

`make docs` builds the pages and is strict about their links, too.
"""

import argparse
import ast
import importlib.util
import re
import shlex
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from kernel_velocity import __main__ as command_line
from kernel_velocity import statuses
from kernel_velocity.compare import table
from kernel_velocity.engine import telemetry
from kernel_velocity.engine.stopping import RULES, Reason
from kernel_velocity.fields import KEY
from kernel_velocity.statuses import OF_GATES, OF_NIGHTS, Status
from kernel_velocity.suite.config import OfKernel, Project
from tests.compare.live_comparisons import case, comparison, timed
from tests.conftest import SLOW_FILES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md")))
}
README, SETTINGS = PAGES["README.md"], PAGES["docs/reference/settings.md"]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
# Folders whose files a page may name as code, and names of examples
NAMED = re.compile(r"`((?:kernels|benchmarks|tools|tests|results|docs|\.github|\.ci)/[\w./-]+)`")
EXAMPLE = re.compile(r"my_op|row_sums|rms_norm|example|kernels(?:-comment)?\.yml|results/(?:findings|MACHINE)")
VARIABLE = re.compile(r"\bKV_[A-Z_]*[A-Z]\b")


def prose(text):
    """Return a page without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text):
    """Return the anchors of a page's headings, as GitHub and mkdocs make them."""
    heads = re.findall(r"^#+ (.+)$", prose(text), re.MULTILINE)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", head.lower()).strip()) for head in heads}


def dead_links(pages):
    """Yield every relative link of pages (name below ROOT -> text) to a file or a heading that does not exist."""
    for name, text in pages.items():
        for target in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
            path, _, anchor = target.partition("#")
            file = (ROOT / name).parent / path if path else ROOT / name
            if re.match(r"[a-z]+:", target):
                continue
            is_there = file.exists() and (not name.startswith("docs/") or file.resolve().is_relative_to(DOCS))
            if not is_there or (anchor and anchor not in anchors(pages[str(file.resolve().relative_to(ROOT))])):
                yield f"{name}: {target}"


def test_links_lead_somewhere():
    assert list(dead_links(PAGES)) == []


@pytest.mark.parametrize("target", ["nothing.md", "settings.md#nothing", "../../README.md"])
def test_dead_link_is_named(target):
    pages = {**PAGES, "docs/reference/a.md": f"see [it]({target})"}
    assert list(dead_links(pages)) == [f"docs/reference/a.md: {target}"]


def test_named_files_exist():
    named = [(name, path) for name, text in PAGES.items() for path in NAMED.findall(text) if not EXAMPLE.search(path)]
    assert len(named) > 15
    assert [(name, path) for name, path in named if not (ROOT / path).exists()] == []


def test_readme_is_short():
    lines = README.splitlines()
    assert len(lines) <= 150
    assert [line for line in lines if len(line) >= 100] == []


# ---- commands ------------------------------------------------------------------------------------------------------


def lines_of_shells():
    """Yield (page, line) of every block of shell code."""
    for name, text in PAGES.items():
        for body in re.findall(r"^ *```sh\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL):
            yield from ((name, line.strip()) for line in body.splitlines())


SHELL = list(lines_of_shells())
KV = [(name, words) for name, line in SHELL if "kv" in line and (words := shlex.split(line, comments=True))]
KV = [(name, words[1:]) for name, words in KV if words and words[0].split("/")[-1] == "kv"]


@pytest.mark.parametrize(("page", "words"), KV, ids=lambda value: value if isinstance(value, str) else " ".join(value))
def test_command_of_a_page_is_understood(page, words):
    assert command_line.parse(words).run


def test_pages_have_commands():
    assert {words[0] for _, words in KV} >= {"track", "gate", "bisect", "compare", "findings", "offline", "init"}


def test_targets_and_their_settings_exist():
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    lists = dict(re.findall(r"^(READ|KV_SETTINGS|VENV_SETTINGS) := (.+)$", MAKEFILE, re.MULTILINE))
    settings = set(" ".join(lists.values()).split())
    called = [words for _, line in SHELL if (words := shlex.split(line, comments=True))[:1] == ["make"]]
    called += [shlex.split(code) for text in PAGES.values() for code in re.findall(r"`(make [a-z][^`]*)`", text)]
    assert {"track", "test", "venv", "build", "nightly", "docs", "lint"} <= {words[1] for words in called} <= targets
    assert {word.partition("=")[0] for words in called for word in words[2:]} <= settings


def test_make_gives_every_file_with_slow_tests(pytestconfig):
    (pattern,) = re.findall(r"^SLOW_FILES := .* '(.+)' tests\)$", MAKEFILE, re.MULTILINE)
    files = pytestconfig.stash[SLOW_FILES]
    assert [path for path in files if not re.search(pattern, path.read_text(encoding="utf-8"))] == []


def options(words):
    """Return the options of a command, or of a subcommand."""
    parser = argparse.ArgumentParser(prog="kv")
    command_line._declare(parser, command_line.COMMANDS, words, "command")
    for word in words:
        (subcommands,) = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        if word not in subcommands.choices:
            break
        parser = subcommands.choices[word]
        if not any(isinstance(action, argparse._SubParsersAction) for action in parser._actions):
            break
    return set(parser._option_string_actions)


def test_commands_in_sentences_exist_with_their_options():
    codes = {code for text in PAGES.values() for code in re.findall(r"`kv ([a-z][^`]*)`", prose(text))}
    assert len(codes) > 25
    for code in sorted(codes):
        words = code.split()
        assert words[0] in command_line.COMMANDS, code
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= options(words), code


def test_page_of_commands_is_made_of_every_help(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")  # which the hooks set: put back for other tests
    pytest.importorskip("mkdocs", reason="the documentation is built with it")
    hooks = load_hooks()
    text = hooks.commands()
    listed = {name for name, (_, help_text) in command_line.COMMANDS.items() if help_text is not None}
    heads = re.findall(r"^## kv ?(.*)$", text, re.MULTILINE)
    assert {head.partition(" ")[0] for head in heads} == {"", *listed}
    assert {"false-alarms", "offline pack", "findings acknowledge"} <= set(heads)
    assert "--bench BENCH" in text and hooks.MARKER in PAGES["docs/reference/commands.md"]


def load_hooks():
    """Import the hooks of mkdocs."""
    specification = importlib.util.spec_from_file_location("docs_hooks", ROOT / ".ci" / "docs_hooks.py")
    hooks = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(hooks)
    return hooks


@pytest.mark.parametrize(
    "html",
    [
        '<link rel="stylesheet" href="https://fonts.googleapis.com/css">',
        "<script src=//cdn.example/x.js></script>",
        '<img alt="a" src="https://example.org/a.png">',
        '<pre class="mermaid"><code>',
    ],
)
def test_page_that_asks_a_network_is_refused(html):
    mkdocs = pytest.importorskip("mkdocs.exceptions", reason="the documentation is built with it")
    page = argparse.Namespace(file=argparse.Namespace(src_uri="a.md"))
    hooks = load_hooks()
    assert hooks.on_post_page('<a href="https://example.org">', page) == '<a href="https://example.org">'
    with pytest.raises(mkdocs.PluginError, match=r"a\.md: .*network"):
        hooks.on_post_page(html, page)


# ---- settings, statuses, keys --------------------------------------------------------------------------------------


def variables_that_are_read():
    """Return every variable KV_... that the code, the build or the workflows read."""
    (of_make,) = re.findall(r"^KV_SETTINGS := (.+)$", MAKEFILE, re.MULTILINE)
    parameters = {name.upper() for rule in RULES.values() for name in rule().parameters()}
    names = {f"KV_{name}" for name in {*of_make.split()} - parameters}
    for room in ("tools", "kernels", "benchmarks"):
        for path in (ROOT / room).rglob("*.py"):
            constants = (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
            names |= {text for text in constants if isinstance(text, str) and VARIABLE.fullmatch(text)}
        for path in (ROOT / room).rglob("*.cpp"):
            names |= set(re.findall(r'getenv\("(KV_[A-Z_]+)"\)', path.read_text()))
    names |= set(re.findall(r"^kv_setting\((KV_[A-Z_]+) ", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE))
    for path in (ROOT / ".github").rglob("*"):
        if path.is_file():
            names |= set(re.findall(r"(?:vars\.|\$\{)(KV_[A-Z_]+)", path.read_text()))
    return names - {f"KV_{name}" for name in parameters}


def test_settings_page_names_the_variables_that_are_read():
    parameters = {f"KV_{name.upper()}" for rule in RULES.values() for name in rule().parameters()}
    rows = re.findall(r"^\| ([^|]+) \|", SETTINGS, re.MULTILINE)
    documented = {name for row in rows for name in VARIABLE.findall(row)} - {*parameters}
    assert documented == variables_that_are_read()
    others = {name for text in PAGES.values() for name in VARIABLE.findall(text)}
    assert others - documented - parameters <= {"KV_NAME", "KV_NOTE_TOKEN"}


def test_settings_page_names_what_make_reads():
    (of_venv,) = re.findall(r"^VENV_SETTINGS := (.+)$", MAKEFILE, re.MULTILINE)
    documented = set(re.findall(r"`([A-Z_]+)`", SETTINGS))
    assert {*of_venv.split(), "VENV", "JOBS", "BUDGET"} <= documented


def test_settings_page_names_the_keys_of_a_repository():
    section = SETTINGS.partition("## Of a repository")[2].partition("\n## ")[0]
    keys = {field.metadata.get(KEY, field.name) for kind in (Project, OfKernel) for field in fields(kind)}
    assert keys - {"kernels"} <= set(re.findall(r"`([a-z-]+)`", section))


def test_page_of_exit_codes_is_the_table_of_statuses():
    rows = re.findall(r"^\| (\d+) \| ([^|]*)", PAGES["docs/reference/exit-codes.md"], re.MULTILINE)
    documented = {int(status): meaning.strip() for status, meaning in rows}
    assert set(documented) == set(Status)
    assert [status for status in Status if not documented[status].startswith(status.words)] == []
    order = ", ".join(str(status) for status in Status if status in OF_NIGHTS and status is not Status.CLEAN)
    assert f"the first of {order}." in PAGES["docs/reference/exit-codes.md"]


@pytest.mark.parametrize(("command", "returned"), [("gate", OF_GATES), ("nightly", OF_NIGHTS)])
def test_help_has_the_exit_statuses(command, returned, capsys):
    assert command_line.main([command, "--help"], sys.stdout, sys.stderr) == 0
    assert statuses.in_help(returned) in " ".join(capsys.readouterr().out.split())


def test_stopping_rules_and_reasons_are_documented():
    page = PAGES["docs/explanation/stopping-rules.md"]
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (.*? `\w+` .*)$", page, re.MULTILINE))
    for name, rule in RULES.items():
        if name in rows:
            values = {key: float(value) for key, value in re.findall(r"`(\w+)` ([\d.]+)", rows[name])}
            assert values == rule().parameters(), name
        else:
            assert f"`.{name.partition('.')[2]}`" in rows[name.partition(".")[0]]
    assert set(rows) <= set(RULES)
    assert all(f"`{reason.value}`" in page for reason in Reason)


def test_telemetry_keys_and_flags_are_documented():
    page = PAGES["docs/reference/telemetry.md"]
    keys, flags = page.partition("## Flags")[::2]
    assert dict(re.findall(r"^\| `(\w)` \| (\w+) \|", keys, re.MULTILINE)) == {
        key: name for name, key in telemetry.KEYS.items()
    }
    assert dict(re.findall(r"^\| (\w+) \| `(\w)` \|", flags, re.MULTILINE)) == telemetry.FLAGS


# ---- examples ------------------------------------------------------------------------------------------------------


def heads(text):
    """Return the heads of the tables of a comparison, cell by cell."""
    return [
        re.split(r"\s{2,}", line)
        for line in text.splitlines()
        if re.match(r"case |speed-up |whole function |accuracy  ", line)
    ]


def test_shown_comparison_has_todays_form():
    page = PAGES["docs/how-to/compare.md"]
    (shown,) = re.findall(r"```\n(add_mul_exp on cpu\n.+?)```", page, re.DOTALL)
    made = [timed("eager", 1e-3), timed("compile", 9e-4), timed("native", 1e-4, function=2e-4)]
    widths = range(100, 161)  # of a terminal; the narrower, the fewer columns
    printed = [heads(table.table(comparison(case("float32-1M", 10**6, *made)), width)) for width in widths]
    assert len(heads(shown)) == 4
    assert heads(shown) in printed


def test_private_parts_of_dependencies_are_those_listed():
    section = PAGES["docs/reference/versions.md"].partition("## Private parts of others")[2].partition("\n## ")[0]
    listed = {name for row in re.findall(r"^\| .*", section, re.MULTILINE) for name in re.findall(r"`([\w.]+)`", row)}
    folders = ("tools/kernel_velocity", "benchmarks")
    source = "\n".join(path.read_text() for folder in folders for path in (ROOT / folder).rglob("*.py"))
    assert {name for name in listed if name not in source} == set()
    imported = re.findall(r"from (?:torch|asv|asv_runner|distributed)\b[\w.]* import (_\w+)", source)
    reached = re.findall(r"\b(?:torch|asv)(?:\.\w+)*?\.(_[a-z]\w+)", source)
    assert len(imported) >= 1 and len(reached) >= 6
    assert {*imported, *reached} - listed == set()


def test_versions_that_are_installed_for_tests_are_listed():
    listed = (DOCS / "reference" / "versions.md").read_text(encoding="utf-8")
    files = [ROOT / ".ci/run", ROOT / "tests/results/test_foreign_programs.py", ROOT / "tests/kernels/test_triton.py"]
    pins = {pin for path in files for pin in re.findall(r"([a-z-]+)==([0-9.]+)", path.read_text(encoding="utf-8"))}
    assert len(pins) >= 6
    missing = [f"{name} {version}" for name, version in pins if version not in listed]
    assert not missing
