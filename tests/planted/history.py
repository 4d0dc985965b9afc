"""``python -m tests.planted.history FOLDER``: a small repository with real kernels whose every slow-down is known.

It is what a nightly run is tried on from end to end. Two kernels for the CPU, the suite and asv's settings are
those of the working tree; matmul is what the commits change, quantize_int8 stands beside it. Both build in
seconds, without CUDA. Printed is the manifest: a JSON object a commit, oldest first. `--without-changes` makes the
same history with an innocent commit, one that changes the machine code and not the speed, in the place of each that
changes the speed, does not build or is wrong.

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
COPIED = ("benchmarks", "kernels")
COPIED_FILES = ("CMakeLists.txt", "asv.conf.json", "pyproject.toml", ".gitignore")
BEGAN = 1_767_225_600  # s since the epoch: 2026-01-01, the first commit's date; the others follow by the hour
# Of every 256 steps, how many are done again (edits.py), in the order of the history.
START, SLOWER, MUCH_SLOWER, FASTER = 37, 47, 81, 37


class Verdict(enum.StrEnum):
    """What a nightly run should say of a commit."""

    CLEAN = "clean"
    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    BUILD_FAILED = "build failed"
    BENCHMARK_FAILED = "benchmark failed"


class Kind(enum.StrEnum):
    """What was planted."""

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
    """A commit of the history, and what is to be found of it.

    `factor` is native matmul's time / its time at the last commit that has one, at 256 x 256 x 256, by the work that is
    done; None: it has no time there. `verdict` is of matmul: quantize_int8 never changes its speed, but has no time
    either at a commit that does not build.
    """

    commit: str
    subject: str
    kind: Kind
    path: str
    factor: float | None
    verdict: Verdict


@dataclass(frozen=True, kw_only=True)
class Step:
    """A commit to be made: `edit` turns the text of `path` ("" where there is none) into the new one."""

    subject: str
    kind: Kind
    path: str
    edit: Callable[[str], str]
    factor: float | None = 1.0
    verdict: Verdict = Verdict.CLEAN


def steps(source: str) -> tuple[Step, ...]:
    """Return the commits after the first, in order; `source` is its matmul's CPU code, with START steps done again."""
    slower = edits.with_share(edits.with_wider_blocks(edits.renamed(source)), SLOWER)
    much_slower = edits.with_share(slower, MUCH_SLOWER)
    return (
        _added("Say how to measure", README, "\n`kv track` measures the last commits.\n"),
        _added("Say what blocks of quantize_int8 are for", QUANTIZE, "// What is in doubt is divided with its block\n"),
        Step(subject="Name the tiles' sum by what it does", kind=Kind.SAME_CODE, path=MATMUL, edit=edits.renamed),
        _share("Check the panels of matmul", START, SLOWER),
        _added("Begin a changelog", CHANGES, "# Changes\n\n- matmul checks its panels.\n"),
        _wider("Take wider blocks of B"),
        _broken("Name the depth of a block", edits.unbuildable, Kind.UNBUILDABLE, Verdict.BUILD_FAILED),
        _mended("Mend the build", slower),
        _share("Check more panels of matmul", SLOWER, MUCH_SLOWER),
        Step(
            subject="Name the devices of quantize_int8",
            kind=Kind.SAME_SPEED,
            path=QUANTIZE_PYTHON,
            edit=lambda text: f'{text}\nDEVICES = SUPPORTS["devices"]\n',
        ),
        _broken("Save a step of every panel", edits.wrong, Kind.WRONG, Verdict.BENCHMARK_FAILED),
        _mended("Take that back: the last step counts", much_slower),
        _share("Check fewer panels of matmul", MUCH_SLOWER, FASTER),
        _added("Note that in the changelog", CHANGES, "- It checks fewer.\n"),
        _added("Say what the tiles of matmul share", MATMUL, "// Tiles share no element of C.\n"),
    )


def without_changes(planned: Sequence[Step]) -> tuple[Step, ...]:
    """Return the same commits, with one that changes the code and not the speed in the place of each guilty one."""
    return tuple(step if step.kind in INNOCENT else _wider(step.subject) for step in planned)


def _added(subject: str, path: str, text: str) -> Step:
    kind = Kind.COMMENT if path.startswith("kernels/") else Kind.DOCUMENTATION
    return Step(subject=subject, kind=kind, path=path, edit=lambda before: before + text)


def _wider(subject: str) -> Step:
    return Step(subject=subject, kind=Kind.SAME_SPEED, path=MATMUL, edit=edits.with_wider_blocks)


def _share(subject: str, before: int, after: int) -> Step:
    return Step(
        subject=subject,
        kind=Kind.SLOWER if after > before else Kind.FASTER,
        path=MATMUL,
        edit=partial(edits.with_share, share=after),
        factor=edits.factor(before, after),
        verdict=Verdict.REGRESSION if after > before else Verdict.IMPROVEMENT,
    )


def _broken(subject: str, edit: Callable[[str], str], kind: Kind, verdict: Verdict) -> Step:
    return Step(subject=subject, kind=kind, path=MATMUL, edit=edit, factor=None, verdict=verdict)


def _mended(subject: str, text: str) -> Step:
    return Step(subject=subject, kind=Kind.MENDED, path=MATMUL, edit=lambda _: text)


def make(folder: Path, *, changes: bool = True) -> tuple[Planted, ...]:
    """Make the repository in a folder that does not exist or is empty; return its manifest, oldest commit first.

    Args:
        folder: where. changes: False: without what changes the speed, does not build or is wrong.

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
    first = Step(subject="Start with matmul and quantize_int8", kind=Kind.START, path=".", edit=str)
    planned = steps(source) if changes else without_changes(steps(source))
    _commit(folder, 0, first)
    for number, step in enumerate(planned, start=1):
        path = folder / step.path
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        path.write_text(step.edit(before), encoding="utf-8")
        _commit(folder, number, step)
    commits = _git(folder, 0, "rev-list", "--reverse", "HEAD").split()
    return tuple(_planted(*pair) for pair in zip(commits, (first, *planned), strict=True))


def _commit(folder: Path, number: int, step: Step) -> None:
    _git(folder, number, "add", step.path)
    _git(folder, number, "commit", "-q", "-m", step.subject)


def _planted(commit: str, step: Step) -> Planted:
    return Planted(
        commit=commit,
        subject=step.subject,
        kind=step.kind,
        path=step.path,
        factor=step.factor,
        verdict=step.verdict,
    )


def _git(folder: Path, number: int, *args: str) -> str:
    """Run git as nobody in particular, at the time of a commit; return what it printed."""
    said = {"NAME": "Planter", "EMAIL": "planter@example.org", "DATE": f"{BEGAN + 3600 * number} +0000"}
    own = {f"GIT_{role}_{what}": text for role in ("AUTHOR", "COMMITTER") for what, text in said.items()}
    own |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *args],
        cwd=folder,
        env={**kept, **own},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def _copy(folder: Path) -> None:
    """Copy what git knows of the working tree, without the other kernels and all that is CUDA's."""
    listed = _git(HERE, 0, "ls-files", "-co", "--exclude-standard", "--", *COPIED, *COPIED_FILES)
    for name in filter(_is_wanted, listed.splitlines()):
        if (HERE / name).is_file():  # not, where it was removed and that is not committed yet
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(HERE / name, folder / name)
    (folder / README).write_text("# Planted\n\nTwo kernels, and a history in which every change of speed is known.\n")
    build = folder / "CMakeLists.txt"  # with nvcc on PATH, CMake would look at it for seconds at every commit
    without_cuda = edits.replaced(build.read_text(), 'kv_setting(KV_CUDA "AUTO"', 'kv_setting(KV_CUDA "OFF"')
    build.write_text(without_cuda)


def _is_wanted(name: str) -> bool:
    """Return whether a file of the working tree is one of the small repository's."""
    top, *rest = Path(name).parts
    if top == "kernels" and rest[1:]:
        return rest[0] in (*KERNELS, "_native") and Path(name).suffix != ".cu"
    if top == "benchmarks" and not rest[1:]:
        return Path(name).stem in (*KERNELS, "__init__", "device")
    return True


def main(argv: Sequence[str], out: TextIO) -> int:
    """Make a repository and print its manifest; return the exit status."""
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
