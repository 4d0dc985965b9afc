"""Measures what a site costs on a tree of tests/large_tree.py: ours, and asv's own, taking turns.

    python -m tests.large_tree /tmp/large --commits 500 --series 1000
    python -m tests.measure_report /tmp/large [--turns 3] [--without-asv]

From nothing: neither a site nor a cache. One more commit: the newest commit's results arrive after a site was made.
Seconds are of the wall clock, of the processor (all processes together), and memory is the largest process's peak.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one run took."""

    wall: float  # s
    processor: float  # s
    memory: float  # bytes


def cost(command: Sequence[str], folder: Path) -> Cost:
    """Return what a command takes in a folder. Its output goes where ours goes, on stderr.

    Raises:
        RuntimeError: it failed.
    """
    began = time.perf_counter()
    stderr = 2  # the descriptor: sys.stderr may be somebody's buffer, which has none
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # as users run it: modules are compiled once, not at every start
    process = subprocess.Popen(command, cwd=folder, stdout=stderr, env=env)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return Cost(wall=wall, processor=used.ru_utime + used.ru_stime, memory=used.ru_maxrss * 1024)


def report(tree: Path) -> Cost:
    """Write our site."""
    command = [sys.executable, "-m", "kernel_velocity", "report", "--results", "results", "--repository", "repository"]
    return cost([*command, "--out", "site"], tree)


def publish(tree: Path) -> Cost:
    """Write asv's site."""
    return cost([sys.executable, "-m", "asv", "publish", "--no-pull"], tree)


def from_nothing(tree: Path, *, with_asv: bool) -> tuple[Cost, Cost | None]:
    """Return what ours and asv's cost without anything there from before."""
    set_aside(tree)
    return report(tree), publish(tree) if with_asv else None


def set_aside(tree: Path) -> None:
    """Move what is there from before out of the way.

    It is not removed before all is measured: ext4 avoids the inodes of files removed in the last half minute, and so
    takes six times as long for every new file (seen here: 1.5 s of 2500 files' .25 s), which only the first one pays.
    """
    aside = Path(tempfile.mkdtemp(prefix="before-", dir=tree))
    for name in ("site", "html", ".asv"):
        if (tree / name).exists():
            (tree / name).rename(aside / name)


def one_more(tree: Path) -> Cost:
    """Return what ours costs when the newest commit's results arrive. There is a site of all."""
    log = subprocess.run(["git", "-C", tree / "repository", "rev-parse", "HEAD"], capture_output=True, check=True)
    newest = list((tree / "results").rglob(f"{log.stdout.decode()[:8]}-*"))
    hidden = [path.rename(path.with_name(f".{path.name}.kept")) for path in newest]
    report(tree)
    for path, name in zip(hidden, newest, strict=True):
        path.rename(name)
    return report(tree)


def row(name: str, costs: Sequence[Cost]) -> str:
    """Return a line of the table: medians, and how far the turns were apart."""
    walls = sorted(cost.wall for cost in costs)
    processor = statistics.median(cost.processor for cost in costs)
    memory = max(cost.memory for cost in costs)
    middle = statistics.median(walls)
    return (
        f"| {name} | {middle:.1f} s ({walls[0]:.1f} to {walls[-1]:.1f}) | {processor:.1f} s | {memory / 1e6:.0f} MB |"
    )


def main() -> None:
    """Measure the tree that the command line names."""
    parser = argparse.ArgumentParser(description="measure what a site of a large tree costs")
    parser.add_argument("tree", type=Path)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--without-asv", action="store_true")
    args = parser.parse_args()
    pairs = [from_nothing(args.tree, with_asv=not args.without_asv) for _ in range(args.turns)]
    theirs = [cost for _, cost in pairs if cost is not None]
    print("| | wall | processor | peak memory |", "|---|---|---|---|", sep="\n")
    print(row("`report` from nothing", [cost for cost, _ in pairs]))
    if theirs:
        print(row("`asv publish`", theirs))
        shares = sorted(our.wall / their.wall for our, their in pairs if their is not None)
        print(f"\nours / asv's, by turn: {', '.join(f'{share:.3f}' for share in shares)}")
    print(row("`report` with one more commit", [one_more(args.tree) for _ in range(args.turns)]))
    for aside in args.tree.glob("before-*"):
        shutil.rmtree(aside)


if __name__ == "__main__":
    main()
