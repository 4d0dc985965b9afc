"""``python -m tests.planted.history FOLDER``: a small repository with real kernels whose every slow-down is known.

A nightly run is tried on it from end to end (nights.py). Two kernels for the CPU, the suite and asv's settings are
those of the working tree. The commits change matmul, and quantize_int8 stands beside it. Both build in seconds, without
CUDA. Printed is the manifest: a JSON object a commit, oldest first. `--without-changes` makes the same history with an
innocent commit, one that changes the machine code and not the speed, for each that changes the speed, does not build or
is wrong.

The same working tree always gives the same commits, hash for hash.
"""

from __future__ import annotations

import argparse
import enum
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TextIO

from tests.planted import edits

HERE = Path(__file__).parents[2]
KERNELS = ("matmul", "quantize_int8")
MATMUL = "kernels/matmul/float32_blocks_cpu.h"
QUANTIZE, QUANTIZE_PYTHON = "kernels/quantize_int8/quantize_int8.cpp", "kernels/quantize_int8/__init__.py"
README, CHANGES = "README.md", "CHANGELOG.md"
COPIED = ("benchmarks", "kernels", "CMakeLists.txt", "asv.conf.json", "pyproject.toml", ".gitignore")
BEGAN = 1_767_225_600  # s since the epoch: 2026-01-01, the first commit's date; the others follow by the hour
# Of every 256 steps, how many are done again (edits.py), in the order of the history.
START, SLOWER, MUCH_SLOWER, FASTER = 37, 47, 81, 37


class Kind(enum.StrEnum):
    """What was planted, in matmul if nothing else is said."""

    START = "start"
    DOCUMENTATION = "documentation"  # touches no kernel
    COMMENT = "comment"  # touches a kernel's source, not its machine code
    SAME_CODE = "refactoring, same machine code"
    SAME_SPEED = "refactoring, other code, same speed"  # machine code or Python: the code hash changes
    SLOWER = "slower"
    FASTER = "faster"
    UNBUILDABLE = "does not build"
    WRONG = "wrong"
    MENDED = "mended"  # what the commit before the last one had


INNOCENT = (Kind.START, Kind.DOCUMENTATION, Kind.COMMENT, Kind.SAME_CODE, Kind.SAME_SPEED)


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A commit of the history.

    `factor` is native matmul's time / its time at the last commit that has one, at 256 x 256 x 256, by the work that is
    done. None: it has no time there.
    """

    commit: str
    subject: str
    kind: Kind
    path: str
    factor: float | None


@dataclass(frozen=True, kw_only=True)
class Step:
    """A commit to be made: `edit` turns the text of `path` ("" where there is none) into the new one."""

    subject: str
    kind: Kind
    path: str = MATMUL
    edit: Callable[[str], str]
    factor: float | None = 1.0


def steps(source: str) -> tuple[Step, ...]:
    """Return the commits after the first, in order. `source` is its matmul's CPU code, with START steps done again."""
    slower = edits.with_share(edits.with_wider_blocks(edits.renamed(source)), SLOWER)
    much_slower = edits.with_share(slower, MUCH_SLOWER)
    return (
        _added("Say how to measure", README, "\n`kv track` measures the last commits.\n"),
        _added("Say what blocks of quantize_int8 are for", QUANTIZE, "// What is in doubt is divided with its block\n"),
        Step(subject="Name the tiles' sum by what it does", kind=Kind.SAME_CODE, edit=edits.renamed),
        _share("Check the panels of matmul", START, SLOWER),
        _added("Begin a changelog", CHANGES, "# Changes\n\n- matmul checks its panels.\n"),
        _wider("Take wider blocks of B"),
        Step(subject="Name the depth of a block", kind=Kind.UNBUILDABLE, edit=edits.unbuildable, factor=None),
        Step(subject="Mend the build", kind=Kind.MENDED, edit=lambda _: slower),
        _share("Check more panels of matmul", SLOWER, MUCH_SLOWER),
        Step(
            subject="Name the devices of quantize_int8",
            kind=Kind.SAME_SPEED,
            path=QUANTIZE_PYTHON,
            edit=lambda text: f'{text}\nDEVICES = SUPPORTS["devices"]\n',
        ),
        Step(subject="Save a step of every panel", kind=Kind.WRONG, edit=edits.wrong, factor=None),
        Step(subject="Take that back: the last step counts", kind=Kind.MENDED, edit=lambda _: much_slower),
        _share("Check fewer panels of matmul", MUCH_SLOWER, FASTER),
        _added("Note that in the changelog", CHANGES, "- It checks fewer.\n"),
        _added("Say what the tiles of matmul share", MATMUL, "// Tiles share no element of C.\n"),
    )


def _added(subject: str, path: str, text: str) -> Step:
    kind = Kind.COMMENT if path.startswith("kernels/") else Kind.DOCUMENTATION
    return Step(subject=subject, kind=kind, path=path, edit=lambda before: before + text)


def _wider(subject: str) -> Step:
    return Step(subject=subject, kind=Kind.SAME_SPEED, edit=edits.with_wider_blocks)


def _share(subject: str, before: int, after: int) -> Step:
    kind, edit = Kind.SLOWER if after > before else Kind.FASTER, partial(edits.with_share, share=after)
    return Step(subject=subject, kind=kind, edit=edit, factor=edits.factor(before, after))


def make(folder: Path, *, changes: bool = True) -> tuple[Planted, ...]:
    """Make the repository in a folder that does not exist or is empty. Return its manifest, oldest commit first.

    Args:
        changes: False: without the commits that change the speed, do not build or are wrong.

    Raises:
        FileExistsError: something is in the folder.
        edits.AnchorError: the kernel's source has changed, and the edits do not fit any more.
    """
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not empty: name a folder that is, or that does not exist")
    _copy(folder)
    source = edits.planted((folder / MATMUL).read_text(encoding="utf-8"), START)
    (folder / MATMUL).write_text(source, encoding="utf-8")
    _git(folder, 0, "init", "-q", "-b", "main")
    planned = [Step(subject="Start with matmul and quantize_int8", kind=Kind.START, path=".", edit=str)]
    planned += [step if changes or step.kind in INNOCENT else _wider(step.subject) for step in steps(source)]
    for number, step in enumerate(planned):
        path = folder / step.path
        if number:
            before = path.read_text(encoding="utf-8") if path.exists() else ""
            path.write_text(step.edit(before), encoding="utf-8")
        _git(folder, number, "add", step.path)
        _git(folder, number, "commit", "-q", "-m", step.subject)
    commits = _git(folder, 0, "rev-list", "--reverse", "HEAD").split()
    return tuple(
        Planted(commit=commit, subject=step.subject, kind=step.kind, path=step.path, factor=step.factor)
        for commit, step in zip(commits, planned, strict=True)
    )


def _git(folder: Path, number: int, *args: str) -> str:
    """Run git as nobody in particular, at the time of a commit. Return what it printed."""
    parts = {"NAME": "Planter", "EMAIL": "planter@example.org", "DATE": f"{BEGAN + 3600 * number} +0000"}
    who = {f"GIT_{role}_{part}": text for role in ("AUTHOR", "COMMITTER") for part, text in parts.items()}
    others = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment = others | who | {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(["git", *args], cwd=folder, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _copy(folder: Path) -> None:
    """Copy the files that git tracks or would add, without the other kernels and CUDA."""
    listed = _git(HERE, 0, "ls-files", "-co", "--exclude-standard", "--", *COPIED)
    for name in filter(_is_wanted, listed.splitlines()):
        if (HERE / name).is_file():  # not, where it was removed and that is not committed yet
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(HERE / name, folder / name)
    (folder / README).write_text("# Planted\n\nTwo kernels, and a history in which every change of speed is known.\n")
    build = folder / "CMakeLists.txt"  # with nvcc on PATH, CMake would look at it for seconds at every commit
    build.write_text(edits.replaced(build.read_text(), 'kv_setting(KV_CUDA "AUTO"', 'kv_setting(KV_CUDA "OFF"'))


def _is_wanted(name: str) -> bool:
    """Return whether a file of the working tree is one of the small repository's."""
    top, *rest = Path(name).parts
    if top == "kernels" and rest[1:]:
        return rest[0] in (*KERNELS, "_native") and Path(name).suffix != ".cu"
    if top == "benchmarks" and not rest[1:]:
        return Path(name).stem in (*KERNELS, "__init__", "device")
    return True


def main(argv: Sequence[str], out: TextIO) -> int:
    """Make a repository and print its manifest. Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted.history", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the repository is made")
    parser.add_argument("--without-changes", action="store_true", help="an innocent commit for every guilty one")
    args = parser.parse_args(argv)
    try:
        manifest = make(args.folder, changes=not args.without_changes)
    except (OSError, edits.AnchorError) as error:
        parser.exit(2, f"error: {error}\n")
    for planted in manifest:
        print(json.dumps(asdict(planted)), file=out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout))
