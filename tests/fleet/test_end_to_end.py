"""Three machines measure six commits, each with its folder, lock and home: the same values as a serial run has.

The machines are processes on this one, behind a scheduler of Dask. One is killed while it measures. Another one is
killed twice, and returns after its work went elsewhere.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from kernel_velocity.results import blocks, lines
from kernel_velocity.results.asv_file import StoredFile
from tests.faults import tiny
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.slow
distributed = pytest.importorskip("distributed", reason="the extra `fleet` is not installed")

ROOT = Path(__file__).parents[2]
COMMITS = 6
# Two lanes: one of the three machines has nothing to do until another one is killed
# A round of any commit but the newest waits for the end of a file, so that its machine is killed in time
HELD = """
import os, time
def scale(x):
    while os.path.exists(os.environ.get("TINY_HELD", "")):
        time.sleep(0.1)
    return 2 * x
"""
BENCH = r"hot\('(eager|native)', 'float32-[12]k"


def environ(home, **variables):
    """Return the variables of a machine with a home of its own, and with the torch of `tiny`."""
    home.mkdir(exist_ok=True)
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("KV_", "ASV"))}
    paths = os.pathsep.join(map(str, (home.parent / "host" / "site-packages", ROOT / "tools", ROOT)))
    ours |= {"HOME": str(home), "PYTHONPATH": paths, "KV_PATIENCE": "0", "KV_LOCK_FOLDER": str(home)}
    ours |= {"TINY_HELD": str(home / "held"), "TINY_TIMEOUT": "1000"}
    return {**ours, **certificates(home.parent), **variables}


def certificates(folder):
    """Return Dask's own configuration of TLS, with a certificate in a file of the folder."""
    path = folder / "certificate.pem"
    if not path.exists():
        security = distributed.Security.temporary()
        path.write_text(security.tls_client_key + security.tls_client_cert)
    roles = [f"{role}__CERT" for role in ("CLIENT", "SCHEDULER", "WORKER")]
    return {f"DASK_DISTRIBUTED__COMM__TLS__{name}": str(path) for name in ("CA_FILE", *roles)}


def kv(folder, home, *args):
    return subprocess.Popen(
        [sys.executable, "-m", "kernel_velocity", *args],
        cwd=folder,
        env=environ(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


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
        command = [sys.executable, "-m", "dask", "scheduler", "--protocol", "tls", "--port", "0", *self.options]
        self.started = [start(command, environ(folder / "head"), folder / "head")]
        self.by_name = {}
        for name in ("one", "two", "three"):
            (folder / name).mkdir()
            (folder / name / "held").touch()
            self.start(name)
        wait_until(self.file.exists)

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
        wait_until(lambda: self.commits_of(name) >= 2)
        self.by_name[name].kill()

    def commits_of(self, name):
        """Return how many commits the newest job of a machine has begun."""
        logs = sorted(self.folder.glob(f"{name}/*/{name}/.asv/logs/track-*.log"))
        return logs[-1].read_text().count("For kernel-velocity commit") if logs else 0

    def jobs_of(self, name):
        return len(list(self.folder.glob(f"{name}/*/{name}/.asv/logs/track-*.log")))


@pytest.fixture
def workers(tmp_path):
    result = Workers(tmp_path)
    yield result
    for process in result.started:
        process.kill()
        process.wait()


def test_fleet_measures_what_a_serial_run_does(tmp_path, workers):
    made, other = tiny.make(tmp_path), tmp_path / "serial"
    here = made.root
    for number in range(COMMITS):
        kernel = HELD if number < COMMITS - 1 else tiny.GOOD
        made.commit(f"Change {number}", kernel=f"{kernel}# {number}\n")
    made.git("clone", "-q", ".", str(other))
    options = ["--tier", "full", "--bench", BENCH, "--rounds", "1", "--no-site", "--no-ceilings"]
    run = kv(here, tmp_path / "head", "track", "--range", f"HEAD~{COMMITS}..HEAD", *options, "--fleet", workers.address)
    workers.kill("three")
    # It has the job, which would stay with the third one if that returned at once
    wait_until(lambda: workers.jobs_of("two"))
    workers.start("three")
    workers.kill("one")
    wait_until(lambda: workers.jobs_of("three") == 2)  # has that of the first one
    workers.kill("three")
    (tmp_path / "three" / "held").unlink()
    workers.start("three")
    wait_until(lambda: workers.jobs_of("three") == 3)  # else the second one would do it, too
    (tmp_path / "two" / "held").unlink()
    text, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, text
    assert text.count("three: its worker ended while it measured") >= 2 and "one: lost" in text
    assert f"{2 * COMMITS} of {2 * COMMITS} measured" in text
    assert {path.parent.name for path in here.glob("results/*/machine.json")} == {"two", "three"}
    measured = Counter(
        (name, sha) for block in blocks.read(here / "results", []) for name in block.lanes for sha in block.commits
    )
    assert len(measured) == 2 * COMMITS and set(measured.values()) == {1}
    assert not (tmp_path / "one" / ".asv-machine.json").exists()  # asv would call a machine by it from now on
    serial = kv(other, tmp_path / "head", "track", "--range", "HEAD^!", *options, "--machine", "serial")
    text, _ = serial.communicate(timeout=PATIENCE)
    assert serial.returncode == 0, text
    of_head = {(series, rounds) for series, _, rounds in values(other / "results")}
    assert len(of_head) == 4
    shas = {sha for _, sha in measured}
    assert values(here / "results") == Counter((series, sha, rounds) for sha in shas for series, rounds in of_head)
