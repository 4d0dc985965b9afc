"""Foreign text on a terminal: no letter of it controls one."""

import ast
import io
import json

import pytest

from kernel_velocity.progress import CLEAR, ProgressBar
from kernel_velocity.terminal import escaped, screen
from tests.package_graph import PACKAGE, modules

# Programs whose output a process of ours reads
READ_BY_US = {
    "gpu.py",
    "server.py",
    "doctor.py",
    "worker.py",
    "checks.py",
    "processes.py",
    "make_venv.py",
    "counting.py",
    "packages.py",
}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;TITLE\x07\x1b[2J<b>", r"\u001b]0;TITLE\u0007\u001b[2J<b>"),
        ("fast\rslow", r"fast\u000dslow"),
        ("\x9b31m\x00\x7f", r"\u009b31m\u0000\u007f"),
        ("a\u202eb\u2066c\u2028d", r"a\u202eb\u2066c\u2028d"),
        ("\udc80", r"\udc80"),
        ("3 µs\u00a0±1%\t| é 数 🙂\n", "3 µs\u00a0±1%\t| é 数 🙂\n"),
    ],
)
def test_letters_of_control_are_escapes(text, shown):
    assert escaped(text) == shown


def test_json_stays_the_same_document():
    document = {"error": "\x1b[2J\x9b\u202e"}
    assert json.loads(escaped(json.dumps(document, ensure_ascii=False))) == document


def test_print_and_the_bar_write_to_a_screen():
    stream = io.TextIOWrapper(io.BytesIO(), "utf-8")
    shown = screen(stream)
    assert screen(shown) is shown
    print("\x1b[2J", file=shown)
    shown.writelines(["\x1b[2J\n"])
    bar = ProgressBar(shown, shown=True)
    bar.show("case \x1b[2J", 0.5)
    bar.clear()
    shown.flush()
    before, *others = stream.buffer.getvalue().decode().split(CLEAR)
    assert before == 2 * "\\u001b[2J\n" and len(others) == 2
    assert "\\u001b[2J" in others[0] and "\x1b" not in "".join(others)


def streams_of(tree):
    """Yield the line of each way around `sys.stdout` and `sys.stderr`, which a command replaces by screens."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ("__stdout__", "__stderr__"):
            yield node.lineno
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("os.write", "os.fdopen") and node.args:
            where = ast.unparse(node.args[0])
            if where in ("1", "2") or "dup(" in where:
                yield node.lineno


def test_no_module_goes_around_the_screens():
    lines = {}
    for path in modules(PACKAGE):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        uses = "screen(" in text
        lines |= {f"{path.name}:{line}": "" for line in streams_of(tree) if not uses}
        if '__name__ == "__main__"' in text and path.name not in READ_BY_US and not uses:
            lines[path.name] = "a program without screens"
    assert not lines
    assert [*streams_of(ast.parse("os.fdopen(os.dup(1)); os.write(2, b''); sys.__stdout__"))] == [1, 1, 1]


def strict_decoders(tree):
    """Yield the line of each process whose output is decoded, without saying what becomes of malformed text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("subprocess."):
            names = {keyword.arg for keyword in node.keywords}
            if names & {"text", "encoding", "universal_newlines"} and "errors" not in names:
                yield node.lineno


def test_no_output_of_a_program_ends_a_command():
    trees = {path.name: ast.parse(path.read_text(encoding="utf-8")) for path in modules(PACKAGE)}
    assert {name: lines for name, tree in trees.items() if (lines := [*strict_decoders(tree)])} == {}
    assert [*strict_decoders(ast.parse("subprocess.run([], text=True)"))] == [1]
