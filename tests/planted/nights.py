"""``python -m tests.planted.nights FOLDER``: the nightly run, tried on the planted history, as often as asked.

A run is two nights: one at the first commit, one when all others have come. Everything but the commits' builds is
forgotten between runs. A line of JSON a run: what was found of each planted commit, and whoever else was accused.
It takes minutes a run, and says something only on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from kernel_velocity import lock
from tests.planted import history
from tests.planted.history import Kind, Planted

SERIES = "matmul.*native.*256"  # what the changes are planted in, and the same kernel at another size
PRESERVED = ("env", "cache")  # of .asv: builds and compiled packages, the same in every run
GUILTY = {Kind.SLOWER: "regressions", Kind.FASTER: "improvements"}
NAMED = {Kind.UNBUILDABLE: "failed_builds", Kind.WRONG: "failures"}
CALM = {0, 10, 11, 20, 21, 30}  # exit statuses of a night that did its work


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a night ended."""

    status: int
    seconds: float
    verdict: Mapping[str, Any]


def night(folder: Path, commit: str, report: Path, *, minutes: float) -> Ended:
    """Do one night at a commit. Return what came of it. Its output is kept beside `report`.

    Raises:
        RuntimeError: it did not do its work.
    """
    _run(folder, "git", "checkout", "-q", commit)
    began = time.monotonic()
    command = [sys.executable, "-m", "kernel_velocity", "nightly", "--no-site", "--no-ceilings", "--json", str(report)]
    with report.with_suffix(".log").open("w") as log:
        ended = subprocess.run(
            [*command, "--budget", f"{minutes:g}"],
            cwd=folder,
            env=_settings(),
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if ended.returncode not in CALM:
        raise RuntimeError(f"the night ended with {ended.returncode}: see {log.name}")
    verdict = json.loads(report.read_text(encoding="utf-8"))
    return Ended(status=ended.returncode, seconds=time.monotonic() - began, verdict=verdict)


def outcome(planted: Sequence[Planted], nights: Sequence[Ended]) -> dict[str, Any]:
    """Return what a run found: each planted change by its subject, who was accused beside them, and the rest."""
    verdict = nights[-1].verdict
    guilty = {commit.commit for commit in planted if commit.kind in GUILTY}
    confirmed = [finding for kind in ("regressions", "improvements", "resolved") for finding in verdict[kind]]
    return {
        "status": [night.status for night in nights],
        "minutes": round(sum(night.seconds for night in nights) / 60, 1),
        "found": {
            commit.subject: _outcome_of(commit, verdict) for commit in planted if commit.kind in (*GUILTY, *NAMED)
        },
        "accused": [_summary(finding) for finding in confirmed if not set(finding["commits"]) & guilty],
        "suspects": [_summary(finding) for finding in verdict["suspects"]],
        "environment": len(verdict["environment"]),
    }


def _outcome_of(commit: Planted, verdict: Mapping[str, Any]) -> str:
    """Return "exactly", "among N", "suspected" or "no" for a change. "named" or "no" for what cannot be measured."""
    if commit.kind in NAMED:
        text = json.dumps(verdict[NAMED[commit.kind]])
        return "named" if (commit.kind is Kind.WRONG and "matmul" in text) or commit.commit in text else "no"
    for finding in (*verdict[GUILTY[commit.kind]], *verdict["resolved"]):
        if commit.commit in finding["commits"]:
            return "exactly" if finding["culprit"] else f"among {len(finding['commits'])}"
    return "suspected" if any(commit.commit in finding["commits"] for finding in verdict["suspects"]) else "no"


def _summary(finding: Mapping[str, Any]) -> str:
    ratios = [f"{series['ratio']:.3f}" for series in finding["series"]]
    return f"{finding['kind']} {finding['state']} {[sha[:8] for sha in finding['commits']]} {', '.join(ratios)}"


def _settings() -> dict[str, str]:
    environ = {
        name: text for name, text in os.environ.items() if name == lock.LOCK_FOLDER or not name.startswith("KV_")
    }
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**environ, "PATH": path, "KV_MACHINE": "planted", "KV_TIER": "core", "KV_BENCH": SERIES}


def _run(folder: Path, *command: str) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


def _prepared(reports: Path, name: str) -> list[Planted]:
    """Make the history unless an earlier call has. Return its manifest."""
    manifest = reports / f"{name}.json"
    if not manifest.exists():
        shutil.rmtree(reports / name, ignore_errors=True)
        made = history.make(reports / name, changes=name == "with")
        manifest.write_text(json.dumps([asdict(commit) for commit in made]), encoding="utf-8")
    recorded = json.loads(manifest.read_text(encoding="utf-8"))
    return [Planted(**{**commit, "kind": Kind(commit["kind"])}) for commit in recorded]


def forget(folder: Path) -> None:
    """Remove what an earlier run left in the repository, but for the commits' builds."""
    shutil.rmtree(folder / "results", ignore_errors=True)
    for path in (folder / ".asv").glob("*"):
        if path.name not in PRESERVED:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    _run(folder, "git", "checkout", "-q", "--force", "main")


def main(argv: Sequence[str], out: TextIO) -> int:
    """Do the runs and print a line for each. Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted.nights", description=__doc__)
    parser.add_argument("folder", type=Path, help="where the repository and the reports are; made where it is not")
    parser.add_argument("--runs", type=int, default=1, help="how many (1)")
    parser.add_argument("--without-changes", action="store_true", help="the history in which every commit is innocent")
    parser.add_argument("--minutes", type=float, default=100.0, help="budget of a night (100)")
    args = parser.parse_args(argv)
    name = "without" if args.without_changes else "with"
    reports = args.folder.resolve()
    reports.mkdir(parents=True, exist_ok=True)
    planted = _prepared(reports, name)
    for _ in range(args.runs):
        number = len(list(reports.glob(f"{name}-*-2.json"))) + 1
        forget(reports / name)
        nights = [
            night(reports / name, commit, reports / f"{name}-{number}-{which}.json", minutes=args.minutes)
            for which, commit in enumerate((planted[0].commit, "main"), start=1)
        ]
        print(json.dumps({"run": f"{name} {number}", **outcome(planted, nights)}), file=out, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdout))
