"""What the tests of unpacking share: running it, looking at what it left, and tars that no node packed so."""

import argparse
import io
import json
import math
import shutil
import subprocess

from kernel_velocity import files
from kernel_velocity.offline import unpack
from kernel_velocity.results.asv_file import StoredFile
from tests import synthetic
from tests.offline import node

NAME = "matmul.Cpu.time_hot"
SERIES = (NAME, ("native", "float32-256x256x256"))


def run(home, tar, machine="h200", root=None):
    out, err = io.StringIO(), io.StringIO()
    parser = argparse.ArgumentParser()
    unpack.add_arguments(parser)
    args = parser.parse_args([str(tar), f"--machine={machine}", "--root", str(home.root if root is None else root)])
    status = unpack.run(args, out, err)
    return status, out.getvalue(), err.getvalue()


def results_path(home, index, machine="h200"):
    return home.results / machine / f"{home.commits[index][:8]}-{synthetic.ENVIRONMENT}.json"


def lines(home, index, suffix=".jsonl", machine="h200"):
    path = results_path(home, index, machine)
    beside = path.parent / "telemetry" / f"{path.stem}{suffix}"
    return beside.read_text().splitlines() if beside.exists() else []


def state(folder):
    """Return every file below a folder, but for the scratch that the system may leave."""
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def series(path):
    return dict(StoredFile(path).series())


def change(path, name=NAME, *, field, to):
    """Change a column of a row in a results file."""
    data = json.loads(path.read_text())
    row = data["results"][name]
    index = data["result_columns"].index(field)
    row[index] = to(row[index])
    path.write_text(json.dumps(data))


def add_column(path, name, of):
    """Add a column to every row of a results file, computed from its values."""
    data = json.loads(path.read_text())
    data["result_columns"].append(name)
    for row in data["results"].values():
        row.append([None if value is None or math.isnan(value) else of(value) for value in row[0]])
    path.write_text(json.dumps(data))


def packed_after(tmp_path, home, edit, name="edited.tar.xz", **changes):
    """Return a node's tar whose folder was changed before it was packed."""
    folder = node.lay_out(tmp_path / "edited", home.commits, **changes)
    edit(folder)
    node.archive.write(tmp_path / name, folder)
    shutil.rmtree(folder)
    return tmp_path / name


def named_rows(path):
    """Return the rows with their columns by name, sorted, and their bounds with the digits that asv stores."""
    data = json.loads(path.read_text())
    found = {}
    for name, row in data["results"].items():
        named = dict(zip(data["result_columns"], row, strict=False))
        for key in ("stats_ci_99_a", "stats_ci_99_b"):
            named[key] = [item and float(f"{item:.5g}") for item in named[key]]
        found[name] = {key: value for key, value in sorted(named.items()) if value is not None}
    return found


def edit_version(folder, version):
    path = folder / "results" / "benchmarks.json"
    data = json.loads(path.read_text())
    data[NAME]["version"] = version
    path.write_text(json.dumps(data))
    for stored in (folder / "results/node").glob("*-*.json"):
        change(stored, field="version", to=lambda _old: version)


def commit(home, name="benchmarks/matmul.py"):
    """Commit a file; return the commit, which is HEAD now."""
    (home.root / name).parent.mkdir(exist_ok=True)
    (home.root / name).write_text("version = '2'")
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for args in (["add", name], [*identity, "commit", "-qm", "Change something"]):
        subprocess.run(["git", *args], cwd=home.root, check=True)
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=home.root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


class Killed(BaseException):
    """What ends a process at once."""


def killed_after(writes, monkeypatch):
    """Let the process die when it has written so many files; return the number of files that were written."""
    written = []

    def write(path, text):
        if len(written) == writes:
            raise Killed
        files.replace_text(path, text)
        written.append(path)

    for module in (unpack, unpack):
        monkeypatch.setattr(module, "replace_text", write)
    return written
