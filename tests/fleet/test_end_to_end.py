"""Three machines measure a history, each with its folder, lock and home: the same values as a serial run has.

The machines are processes on this one, behind a scheduler of Dask. One of them is killed while it measures.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from kernel_velocity.results import blocks, lines
from kernel_velocity.results.asv_file import StoredFile
from tests.scaffold.test_any_repository import DOUBLE, PERSON

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
pytest.importorskip("torch", reason="the references are PyTorch's")
pytest.importorskip("distributed", reason="the extra `fleet` is not installed")

ROOT = Path(__file__).parents[2]
PATIENCE = 400  # s
KERNELS = ("twice", "thrice")  # a lane each: one of the three machines has nothing to do until another one is killed
SETTINGS = """{"version": 1, "project": "doubling", "repo": ".", "dvcs": "git", "branches": ["HEAD"], "hash_length": 8,
"plugins": [".kernel_velocity.asv_plugin"], "environment_type": "host", "build_command": [], "install_command": [],
"uninstall_command": [], "build_cache_size": 4000, "benchmark_dir": "benchmarks", "env_dir": ".asv/env",
"results_dir": "results", "html_dir": ".asv/html", "launch_method": "forkserver"}"""
FILES = {
    "kernel-velocity.toml": 'built-from = ["doubling"]\n',
    "asv.conf.json": SETTINGS,
    ".gitignore": ".asv/\n",
    "benchmarks/__init__.py": "",
    **{f"benchmarks/{name}.py": DOUBLE for name in KERNELS},
}
# A lost machine's work goes elsewhere after a second
COMMAND = (
    "from kernel_velocity import __main__; from kernel_velocity.fleet import run; run.LOST = 1.0; __main__.console()"
)


def environ(home, **variables):
    home.mkdir(exist_ok=True)
    ours = {name: value for name, value in os.environ.items() if not name.startswith("KV_")}
    paths = os.pathsep.join([str(ROOT / "tools"), str(ROOT)])
    ours |= {"HOME": str(home), "PYTHONPATH": paths, "KV_PATIENCE": "0", "KV_LOCK_FOLDER": str(home)}
    return {**ours, **PERSON, **variables}


def kv(folder, home, *args):
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *args],
        cwd=folder,
        env=environ(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def repository(folder, commits):
    """Make a repository whose commits change the kernels."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "-q", "-b", "main")
    (folder / "doubling").mkdir()
    for number in range(commits):
        (folder / "doubling" / "__init__.py").write_text(f"def double(x):\n    return x + x  # {number}\n")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", f"Change {number}")


def git(folder, *args):
    subprocess.run(["git", *args], cwd=folder, env=os.environ | PERSON, check=True, capture_output=True)


def values(results):
    """Return how often each series has a value of how many rounds at each commit, over all machines."""
    count = Counter()
    for path in results.glob("*/*-*.json"):
        commit = StoredFile(path).commit
        for series, rounds in lines.read_rounds(lines.beside(path, lines.ROUNDS), []).items():
            count[series, commit, len(rounds)] += 1
    return count


def start(command, variables, folder):
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(command, env=variables, cwd=folder, stdout=log, stderr=log)


@pytest.fixture
def fleet(tmp_path):
    """Start a scheduler and three workers. Yield the address, and the workers by name."""
    dask, file = [sys.executable, "-m", "dask"], tmp_path / "scheduler.json"
    options, head = ["--scheduler-file", str(file), "--no-dashboard"], environ(tmp_path / "head")
    started = [start([*dask, "scheduler", "--port", "0", *options], head, tmp_path / "head")]
    workers = {}
    try:
        for name in ("one", "two", "three"):
            home = tmp_path / name
            variables = environ(home, KV_MACHINE=name, KV_FLEET_FOLDER=str(home))
            command = [*dask, "worker", *options, "--nthreads", "1", "--no-nanny", "--local-directory", str(home)]
            workers[name] = start(command, variables, home)
            started.append(workers[name])
        wait(file.exists)
        yield json.loads(file.read_text())["address"], workers
    finally:
        for process in started:
            process.kill()
            process.wait()


def wait(condition):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "it takes too long"
        time.sleep(0.1)


def test_fleet_measures_what_a_serial_run_does(tmp_path, fleet):
    address, workers = fleet
    here, other = tmp_path / "here", tmp_path / "serial"
    repository(here, 2)
    git(tmp_path, "clone", "-q", str(here), str(other))
    bench = "'(eager|native)'"  # torch.compile takes ten seconds of each process
    options = ["track", "--range", "HEAD~1 HEAD", "--bench", bench, "--rounds", "1", "--no-site", "--no-ceilings"]
    run = kv(here, tmp_path / "head", *options, "--fleet", address)
    wait(lambda: list((tmp_path / "three").glob("*/three/.asv/logs/track-*.log")) or run.poll() is not None)
    workers["three"].kill()
    text, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, text
    assert "three: its worker ended while it measured" in text and "three: lost" in text
    assert "4 of 4 measured" in text
    assert {path.parent.name for path in here.glob("results/*/machine.json")} == {"one", "two"}
    measured = Counter(
        (name, sha) for block in blocks.read(here / "results", []) for name in block.lanes for sha in block.commits
    )
    assert len(measured) == 4 and set(measured.values()) == {1}
    assert not (tmp_path / "one" / ".asv-machine.json").exists()  # asv would call a machine by it from now on
    newest = ["track", "--range", "HEAD", *options[3:], "--machine", "serial"]
    serial = kv(other, tmp_path / "head", *newest)
    text, _ = serial.communicate(timeout=PATIENCE)
    assert serial.returncode == 0, text
    expected = values(other / "results")
    (head,) = {commit for _, commit, _ in expected}
    assert expected == Counter({key: count for key, count in values(here / "results").items() if key[1] == head})
