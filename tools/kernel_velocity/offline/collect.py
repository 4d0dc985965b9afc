"""What a node gives back: gathered into one folder, summed up, and packed into the tar, after every stage."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from kernel_velocity.errors import ResultsError
from kernel_velocity.files import replace_text
from kernel_velocity.offline import archive, summary
from kernel_velocity.offline.pack import Manifest
from kernel_velocity.offline.stages import MACHINE, Node
from kernel_velocity.results import ingest
from kernel_velocity.results.measurement import Measurement
from kernel_velocity.series import past

TAR = archive.NAME
SUMMARY = "summary.md"
RESULTS = Path("results")


def folder(root: Path) -> Path:
    """Return where everything for the tar is gathered: beside the clone, so that a checkout leaves it alone."""
    return root.absolute().parent / "collected"


def resume(tar: Path, collected: Path, *, root: str) -> str | None:
    """Take over what an earlier slice measured on another node, unless this node has begun already; return a note.

    Args:
        tar: of the earlier slice. collected: this node's folder. root: the project's first commit.

    Raises:
        ResultsError: no tar of ours, or of another project.
    """
    if (collected / "run").exists():
        return "--resume-from is passed over: this node has begun already, and goes on from there"
    with tempfile.TemporaryDirectory(dir=collected.parent) as scratch:
        unpacked = Path(scratch, "tar")
        unpacked.mkdir()
        manifest = archive.read(tar, unpacked)
        if manifest.root != root:
            raise ResultsError(f"{tar}: of another project (first commit {manifest.root[:8]}, here {root[:8]})")
        if (unpacked / "results").is_dir():
            shutil.copytree(unpacked / "results", RESULTS, dirs_exist_ok=True)
        shutil.rmtree(collected, ignore_errors=True)
        unpacked.rename(collected)  # in one step, the last: an interruption before it begins again
    return None


def collect(node: Node) -> None:
    """Gather, sum up, pack.

    Raises:
        OSError: it cannot be written; the tar of the stage before is still there.
    """
    for line in ingest.ingest(Path(), machine=MACHINE).problems:
        node.note(line)
    _gather(node.collected)
    replace_text(node.collected / "run" / "node.json", node.facts.as_json() + "\n")
    try:
        text = summary.render(_report(node))
    except Exception as error:  # noqa: BLE001 - nobody watches: what cannot be summed up must still come back
        text = f"The summary could not be made: {type(error).__name__}: {error}\n"
        node.say(f"note: {text.strip()}")
    for path in (node.collected / "run" / SUMMARY, node.args.out / SUMMARY):
        replace_text(path, text)
    replace_text(node.collected / archive.MANIFEST, _manifest(node).to_json())
    for line in archive.write(node.args.out / TAR, node.collected):
        node.say(f"note: {line}")


def _report(node: Node) -> summary.Report:
    run = node.collected / "run"
    return summary.Report(
        facts=node.facts,
        device=node.device,
        head=node.pack["head"],
        commits=node.commits,
        slices=node.state.slices,
        notes=tuple(node.state.notes),
        tests=_document(run / "tests.json"),
        ceilings=_document(run / "ceilings.json"),
        timers=_document(run / "timers.json"),
        traces=len(list((node.collected / "traces").glob("*-*.json"))),  # and not the lists beside them
        measurements=measured(),
        left=tuple(name for name in node.chosen if not node.is_done(name)),
        failed=node.failed(),
    )


def _document(path: Path) -> dict[str, Any] | None:
    """Return what a stage wrote; None where it has not."""
    if not path.exists():
        return None
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _gather(collected: Path) -> None:
    """Copy asv's results, and the logs of builds."""
    if (RESULTS / MACHINE).is_dir():  # a copy of its own: what ingest removed must not stay behind
        shutil.rmtree(collected / "results" / MACHINE, ignore_errors=True)
        shutil.copytree(RESULTS / MACHINE, collected / "results" / MACHINE)
    if (RESULTS / "benchmarks.json").exists():  # asv writes it after the machine's file
        (collected / "results").mkdir(parents=True, exist_ok=True)
        shutil.copy(RESULTS / "benchmarks.json", collected / "results" / "benchmarks.json")
    for log in Path(".asv", "logs").glob("*.log"):
        (collected / "logs").mkdir(parents=True, exist_ok=True)
        shutil.copy(log, collected / "logs" / log.name)


def _manifest(node: Node) -> Manifest:
    return Manifest(
        root=node.pack["root"],
        head=node.pack["head"],
        commits=node.commits,
        machine=MACHINE,
        node={"device": node.device, "gpus": list(node.facts.gpus), "torch": node.facts.torch},
        written=time.time(),
    )


def measured() -> tuple[Measurement, ...]:
    """Return what is recorded on this node."""
    if not (RESULTS / "benchmarks.json").exists():
        return ()
    recorded = past.open(RESULTS, Path())
    return tuple(item for commit in recorded.paths for item in recorded.at(commit) if item.key.machine == MACHINE)
