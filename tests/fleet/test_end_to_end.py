"""Three machines measure twelve commits, each with its folder, lock and home: the same values as a serial run has.

The machines are processes on this one, behind a scheduler of Dask. One is killed while it measures. Another one is
killed twice, and returns after its work went elsewhere.
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

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
pytest.importorskip("torch", reason="the references are PyTorch's")
pytest.importorskip("distributed", reason="the extra `fleet` is not installed")

ROOT = Path(__file__).parents[2]
PATIENCE = 400  # s
COMMITS = 12
KERNELS = ("twice", "thrice")  # a lane each: one of the three machines has nothing to do until another one is killed
# A case outside of tier core has no error, which would take as long as all else
SUITE = DOUBLE.replace('["float32-1k"]', '["float32-1k", "float32-2k", "float32-4k"]')
BENCH = r"hot\('(eager|ours)', 'float32-2k"  # torch.compile takes ten seconds of each process
SHORT = {"KV_T_MIN": ".01", "KV_T_SOFT": ".02", "KV_T_MAX": ".03"}
SETTINGS = """{"version": 1, "project": "doubling", "repo": ".", "dvcs": "git", "branches": ["HEAD"], "hash_length": 8,
"plugins": [".kernel_velocity.asv_plugin"], "environment_type": "host", "build_command": [], "install_command": [],
"uninstall_command": [], "build_cache_size": 4000, "benchmark_dir": "benchmarks", "env_dir": ".asv/env",
"results_dir": "measured", "html_dir": ".asv/html", "launch_method": "forkserver"}"""
FILES = {
    "kernel-velocity.toml": 'built-from = ["doubling"]\n',
    "asv.conf.json": SETTINGS,
    ".gitignore": ".asv/\n",
    "benchmarks/__init__.py": "",
    **{f"benchmarks/{name}.py": SUITE for name in KERNELS},
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
        env=environ(home, **SHORT),
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


class Workers:
    """A scheduler of Dask, and workers by name."""

    def __init__(self, folder):
        self.folder, self.file = folder, folder / "scheduler.json"
        self.options = ["--scheduler-file", str(self.file), "--no-dashboard"]
        command = [sys.executable, "-m", "dask", "scheduler", "--port", "0", *self.options]
        self.started = [start(command, environ(folder / "head"), folder / "head")]
        self.by_name = {}
        for name in ("one", "two", "three"):
            self.start(name)
        wait(self.file.exists)

    @property
    def address(self):
        return json.loads(self.file.read_text())["address"]

    def start(self, name):
        home = self.folder / name
        variables = environ(home, KV_MACHINE=name, KV_FLEET_FOLDER=str(home))
        command = [sys.executable, "-m", "dask", "worker", *self.options, "--nthreads", "1", "--no-nanny"]
        self.by_name[name] = start([*command, "--local-directory", str(home)], variables, home)
        self.started.append(self.by_name[name])

    def kill(self, name):
        """Kill a worker while it measures its second commit."""
        wait(lambda: self.commits_of(name) >= 2)
        self.by_name[name].kill()

    def commits_of(self, name):
        """Return how many commits the newest job of a machine has begun."""
        logs = sorted(self.folder.glob(f"{name}/*/{name}/.asv/logs/track-*.log"))
        return logs[-1].read_text().count("For doubling commit") if logs else 0

    def jobs_of(self, name):
        return len(list(self.folder.glob(f"{name}/*/{name}/.asv/logs/track-*.log")))


@pytest.fixture
def workers(tmp_path):
    result = Workers(tmp_path)
    yield result
    for process in result.started:
        process.kill()
        process.wait()


def wait(condition):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "it takes too long"
        time.sleep(0.1)


def test_fleet_measures_what_a_serial_run_does(tmp_path, workers):
    here, other = tmp_path / "here", tmp_path / "serial"
    repository(here, COMMITS + 1)
    git(tmp_path, "clone", "-q", str(here), str(other))
    options = ["--tier", "full", "--bench", BENCH, "--rounds", "1", "--no-site", "--no-ceilings"]
    run = kv(here, tmp_path / "head", "track", "--range", f"HEAD~{COMMITS}..HEAD", *options, "--fleet", workers.address)
    workers.kill("three")
    wait(lambda: workers.jobs_of("two"))  # has its job, which would stay with the third one if that returned at once
    workers.start("three")
    workers.kill("one")
    wait(lambda: workers.jobs_of("three") == 2)  # has that of the first one
    workers.kill("three")
    workers.start("three")
    text, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, text
    assert text.count("three: its worker ended while it measured") >= 2 and "one: lost" in text
    assert f"{2 * COMMITS} of {2 * COMMITS} measured" in text
    assert {path.parent.name for path in here.glob("measured/*/machine.json")} == {"two", "three"}
    measured = Counter(
        (name, sha) for block in blocks.read(here / "measured", []) for name in block.lanes for sha in block.commits
    )
    assert len(measured) == 2 * COMMITS and set(measured.values()) == {1}
    assert not (tmp_path / "one" / ".asv-machine.json").exists()  # asv would call a machine by it from now on
    serial = kv(other, tmp_path / "head", "track", "--range", "HEAD^!", *options, "--machine", "serial")
    text, _ = serial.communicate(timeout=PATIENCE)
    assert serial.returncode == 0, text
    of_head = {(series, rounds) for series, _, rounds in values(other / "measured")}
    assert len(of_head) == 4
    shas = {sha for _, sha in measured}
    assert values(here / "measured") == Counter((series, sha, rounds) for sha in shas for series, rounds in of_head)
