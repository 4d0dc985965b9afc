"""What a node brings back, from the synthetic repository: a folder as its tar has it, and the tar."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from kernel_velocity.fleet import archive
from kernel_velocity.fleet.archive import PROJECT, Manifest, Node
from tests import synthetic

WRITTEN = 1795284235.0  # 2026-11-21 18:03:55 UTC
STAMP = "20261121-180355"
GPU = "Imaginary H200"


@dataclass(frozen=True)
class Home:
    """A clone to unpack into, and the commits that it knows, oldest first."""

    root: Path
    commits: tuple[str, ...]

    @property
    def results(self):
        return self.root / "results"

    def stored(self, index, machine="h200"):
        """The results file of a commit."""
        return self.results / machine / f"{self.commits[index][:8]}-{synthetic.ENVIRONMENT}.json"


def home(folder):
    """Make a repository with asv.conf.json and no results."""
    commits = synthetic.make_repository(folder, synthetic.MESSAGES, "Ada Lovelace")
    (folder / "asv.conf.json").write_text("{}")
    return Home(root=folder, commits=commits)


def manifest(commits, **changes):
    arguments = {
        "project": PROJECT,
        "root": commits[0],
        "head": commits[-1],
        "commits": tuple(commits),
        "machine": "node",
    }
    return Manifest(**(arguments | {"node": Node(gpus=(GPU,)), "written": WRITTEN} | changes))


def lay_out(folder, commits, measured=(0, 1), rounds=8, **changes):
    """Write what the node leaves: results of the measured commits, and a file of every kind beside them."""
    synthetic.write_json(folder / "results" / "benchmarks.json", synthetic.benchmarks_json())
    synthetic.write_json(folder / "results/node/machine.json", {**synthetic.machine_json("node"), "arch": "x86_64"})
    for index in measured:
        synthetic.count_rounds(
            synthetic.write_commit(folder / "results", commits[index], index, machine="node", rounds=rounds)
        )
    for name, text in {
        "manifest.json": manifest(commits, **changes).to_json(),
        "run/summary.md": "# What is believable\n",
        "run/node.json": json.dumps({"gpus": [GPU]}, indent=1),
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def tar(folder, commits, name=archive.TAR_NAME, edit=lambda _: None, **changes):
    """Return the tar of such a folder, edited before it is packed. The folder is gone, as the node is."""
    laid_out = lay_out(folder / "node-folder", commits, **changes)
    edit(laid_out)
    (folder / name).write_bytes(archive.of_folder(laid_out))
    shutil.rmtree(laid_out)
    return folder / name


def contents(folder):
    """Return every file below a folder, by its relative path."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
