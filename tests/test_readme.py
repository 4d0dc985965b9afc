"""The README against what it describes: targets, settings, commands, folders, files."""

import importlib
import re
from pathlib import Path

from kernel_velocity.__main__ import COMMANDS
from kernel_velocity.compare import table
from tests.compare.live_comparisons import case, comparison, timed

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
CODE = "".join(
    file.read_text(encoding="utf-8")
    for room in ("benchmarks", "kernels", "tools")
    for file in (ROOT / room).rglob("*")
    if file.suffix in (".py", ".cpp")
)


def test_every_target_exists():
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE))
    assert {"track", "test"} <= named <= targets


def test_every_setting_is_read():
    (known,) = re.findall(r"^KV_SETTINGS := (.+)$", MAKEFILE, re.MULTILINE)
    named = set(re.findall(r"`([A-Z_]+)=", README)) | set(re.findall(r"make track ([A-Z]+)=", README))
    in_make = {name for name in named if f"$({name})" in MAKEFILE}
    in_code = {name for name in named if name.startswith("KV_") and f'"{name}"' in CODE}
    assert {"RANGE", "BENCH", "ROUNDS"} <= named <= {*known.split(), *in_make, *in_code}


def test_every_command_exists():
    (listed,) = re.findall(r"`kv ([a-z |-]+)`, and", README)
    assert set(listed.replace(" ", "").split("|")) == {name for name, (_, text) in COMMANDS.items() if text is not None}
    for command, step in re.findall(r"\bkv (?!track \|)([a-z-]+)(?: ([a-z-]+))?", README):
        assert command in COMMANDS, command
        assert command not in ("lab", "offline") or step in importlib.import_module(f"kernel_velocity.{command}").STEPS


def test_every_folder_and_file_exists():
    folders = re.findall(r"^([a-z_]+)/ {2,}", README, re.MULTILINE)
    assert len(folders) == 6
    linked = re.findall(r"\]\(([^)h][^)]*)\)", README)
    assert linked
    for name in (*folders, *linked):
        assert (ROOT / name).exists(), name


def test_no_placeholder_is_left():
    assert not re.findall(r"@[A-Z_]+@|TODO|XXX", README)


def heads(text):
    """Return the heads of the tables of a comparison, cell by cell."""
    return [
        re.split(r"\s{2,}", line)
        for line in text.splitlines()
        if re.match(r"case |speed-up |whole function |accuracy  ", line)
    ]


def test_shown_comparison_has_todays_form():
    (shown,) = re.findall(r"```\n(add_mul_exp on cpu\n.+?)```", README, re.DOTALL)
    made = [timed("eager", 1e-3), timed("compile", 9e-4), timed("native", 1e-4, function=2e-4)]
    widths = range(100, 161)  # of a terminal; the narrower, the fewer columns
    printed = [heads(table.table(comparison(case("float32-1M", 10**6, *made)), width)) for width in widths]
    assert len(heads(shown)) == 4
    assert heads(shown) in printed
