"""The README against what it describes: targets, settings, commands, folders, files."""

import re
from pathlib import Path

from tools.__main__ import COMMANDS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def test_every_target_exists():
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE))
    assert {"track", "test"} <= named <= targets


def test_every_setting_is_read():
    (known,) = re.findall(r"^KV_SETTINGS := (.+)$", MAKEFILE, re.MULTILINE)
    named = set(re.findall(r"`([A-Z_]+)=", README)) | set(re.findall(r"make track ([A-Z]+)=", README))
    assert {"RANGE", "BENCH", "ROUNDS"} <= named <= {*known.split(), "TORCH", "TORCH_INDEX"}


def test_every_command_exists():
    (listed,) = re.findall(r"`python -m tools ([a-z |-]+)`, and", README)
    assert set(listed.replace(" ", "").split("|")) == set(COMMANDS)


def test_every_folder_and_file_exists():
    folders = re.findall(r"^([a-z_]+)/ {2,}", README, re.MULTILINE)
    assert len(folders) == 6
    linked = re.findall(r"\]\(([^)h][^)]*)\)", README)
    assert linked
    for name in (*folders, *linked):
        assert (ROOT / name).exists(), name


def test_no_placeholder_is_left():
    assert not re.findall(r"@[A-Z_]+@|TODO|XXX", README)
