"""Jobs of a real Slurm of two nodes: started, ended by every way that Slurm has, refused, and waited for.

Each test has its own machines. What Slurm says is in what the run says.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from kernel_velocity import processes
from kernel_velocity.errors import UsageError
from kernel_velocity.fleet import scheduler, slurm
from kernel_velocity.results import blocks
from tests.fleet import slurm_cluster
from tests.fleet.slurm_cluster import NODES, wait
from tests.scaffold.test_any_repository import DOUBLE, PERSON
from tests.waiting import PATIENCE

pytestmark = [
    # importorskip would import it here, and change what Ctrl-C does to the tests of all other files
    pytest.mark.skipif(find_spec("dask_jobqueue") is None, reason="the extra `fleet` is not installed"),
    pytest.mark.skipif(bool(slurm_cluster.MISSING), reason=f"no {', '.join(slurm_cluster.MISSING)} on PATH"),
]
KERNELS = ("twice", "thrice")  # a lane each
# A case outside of tier core has no error, which would take as long as all else
SUITE = DOUBLE.replace('["float32-1k"]', '["float32-1k", "float32-2k", "float32-4k"]')
HELD = """
import os, time
def double(x):
    while os.path.exists('{0}'):
        time.sleep(0.1)
    return x + x  # {1}
"""
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
ONE_NODE = "slurm:nodes=1,cpus=8,memory=2GB"
BOTH = ONE_NODE.replace("nodes=1", "nodes=2")


@pytest.fixture(scope="module")
def daemons(tmp_path_factory):
    with slurm_cluster.running(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture
def cluster(daemons, tmp_path, monkeypatch):
    """A cluster without jobs, whose nodes are idle, and a folder that jobs start in."""
    scheduler._module("dask_jobqueue")  # its settings last beyond those of a test
    monkeypatch.chdir(tmp_path)
    for name, value in daemons.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(Path(scheduler.__file__).parents[2]))
    monkeypatch.setenv("KV_FLEET_FOLDER", str(tmp_path / "machines"))
    monkeypatch.setattr(slurm, "EVERY", 0.5)
    yield daemons
    daemons.call("scancel", "--partition=gpu", check=False)
    for node, state in daemons.states().items():
        if not state.startswith(("idle", "mix", "alloc", "comp")):
            daemons.call("scontrol", "update", f"NodeName={node}", "State=RESUME", check=False)
    wait(lambda: set(daemons.states().values()) == {"idle"}, daemons)


class Run:
    """What a run does while nobody measures: its client, its jobs, and what it said."""

    def __init__(self, cluster, client, jobs):
        self.cluster, self.client, self.jobs, self.lines = cluster, client, jobs, []

    def tend(self):
        self.jobs.tend(scheduler.addresses(self.client).values(), self.lines.append)
        return scheduler.addresses(self.client)

    def has(self, count):
        """Wait for so many workers, and return the numbers of their jobs."""
        wait(lambda: len(self.tend()) == count, self.cluster)
        return sorted(self.tend().values(), key=int)

    def hears(self, pattern):
        """Wait until a line was said."""
        until = time.monotonic() + PATIENCE
        while self.tend() is not None and not re.search(pattern, "\n".join(self.lines), re.MULTILINE):
            assert time.monotonic() < until, self.lines
            time.sleep(0.1)

    def machines(self):
        return scheduler.machines(self.client, scheduler.parse(BOTH), set(self.tend()), self.lines.append)


@pytest.fixture
def start(cluster):
    """What starts jobs: a context manager that yields a Run."""
    import contextlib

    @contextlib.contextmanager
    def start(text):
        with scheduler.connected(scheduler.parse(text)) as (client, jobs):
            yield Run(cluster, client, jobs)
        wait(lambda: not cluster.jobs(), cluster)  # none is left, whatever happened

    return start


def test_two_nodes_of_a_host_are_two_machines(cluster, start):
    wanted = scheduler.parse("slurm:nodes=2,partition=gpu,gpus=1,cpus=8,memory=4GB,time=01:00:00")
    with start(wanted.text) as run:
        scheduler.wait(run.client, wanted, run.lines.append, jobs=run.jobs)
        script = run.jobs.script.read_text()
        for line in ("-p gpu", "--gres=gpu:1", "--cpus-per-task=8", "-t 01:00:00", "-n 1", "--mem=4G"):
            assert re.search(rf"^#SBATCH {line}$", script, re.MULTILINE), script
        key = Path(re.search(r"--tls-key (\S+)", script)[1])
        assert (key.parent.stat().st_mode & 0o777, key.parent.parent) == (0o700, Path(".asv").absolute())
        assert all(address.startswith("tls://") for address in run.tend())
        assert run.client.cluster.scheduler.http_server.address == "127.0.0.1"
        machines = run.machines()
        assert {machine.name for machine in machines} == {f"{node}-gpu0" for node in NODES}
        assert {machine.job for machine in machines} == cluster.jobs().keys()
        assert run.jobs.limit == 3600
        assert run.client.submit(sum, [1, 2]).result(timeout=PATIENCE) == 3
    assert not key.parent.exists()
    assert not list(Path().glob("*.out"))  # what jobs print is in .asv
    assert len(list(Path(".asv/logs").iterdir())) == 4


@pytest.mark.parametrize(
    ("options", "directives", "words"),
    [
        ("account=unpaid", [], "account unpaid has no hours left; Batch job submission failed: Unspecified error"),
        (
            "partition=none",
            [],
            "invalid partition specified: none; Batch job submission failed: Invalid partition name",
        ),
        ("gpus=3", [], "Batch job submission failed: Requested node configuration is not available"),
        (
            "cpus=9",
            ["--nodelist=kv1"],
            "CPU count per node can not be satisfied; Batch job submission failed: Requested",
        ),
        ("gpus=1", ["--array=1-9"], "Batch job submission failed: Invalid job array specification"),
    ],
)
def test_refused_job_ends_the_run_with_the_words_of_slurm(start, options, directives, words):
    import dask

    wanted = scheduler.parse(f"slurm:nodes=2,{options}")
    with (
        dask.config.set({"jobqueue.slurm.job-extra-directives": directives}),
        pytest.raises(UsageError, match=rf"^--fleet: Slurm refuses a job: sbatch: {re.escape(words)}"),
        start(wanted.text) as run,
    ):
        scheduler.wait(run.client, wanted, run.lines.append, jobs=run.jobs)


def test_machine_that_submits_no_jobs_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    jobs = slurm.Jobs(name="kv", script=tmp_path / "job.sh", count=1, logs=tmp_path)
    with pytest.raises(UsageError, match="--fleet: no squeue on PATH: slurm: is for a machine that submits"):
        jobs.tend((), print)


def test_job_whose_time_ends_before_the_work_is_short(tmp_path):
    jobs = slurm.Jobs(name="kv", script=tmp_path / "job.sh", count=1, logs=tmp_path)
    jobs.by_number["7"] = slurm.Job(number="7", state="RUNNING", reason="None", limit=600.0, left=100.0)
    usable = 100 * slurm.USABLE
    assert [jobs.is_short("7", seconds) for seconds in (usable - 1, usable + 1, 1e9)] == [False, True, True]
    jobs.by_number["7"] = slurm.Job(number="7", state="RUNNING", reason="None", limit=600.0, left=599.0)
    assert not jobs.is_short("7", 1e9)  # a new one would end as early
    assert not jobs.is_short("8", 1e9)


@pytest.mark.slow
def test_cancelled_job_is_replaced_and_a_requeued_one_awaited(cluster, start):
    with start(BOTH) as run:
        first, second = run.has(2)
        cluster.call("scancel", first)
        wait(lambda: first not in run.tend().values(), cluster)
        assert str(run.jobs.fate(first, run.lines.append)) == f"job {first} of Slurm: CANCELLED"
        assert len(set(run.has(2)) - {first, second}) == 1
        cluster.control("requeue", second)
        run.hears(rf"^job {second} of Slurm: PENDING \(BeginTime\)")
        assert len(run.tend()) == 1 and len(cluster.jobs()) == 2  # none is submitted in its place
        time.sleep(2)  # Slurm starts no job again in the second in which it ended, and calls it failed
        cluster.control("update", f"JobId={second}", "StartTime=now")
        assert second in run.has(2)
        assert not [line for line in run.lines if "CANCELLED" in line]  # of a worker, the run says it


@pytest.mark.slow
def test_job_waits_for_a_drained_node(cluster, start):
    with start(BOTH) as run:
        jobs = {machine.name: machine.job for machine in (run.has(2) and run.machines())}
        cluster.control("update", "NodeName=kv1", "State=DRAIN", "Reason=dust")
        time.sleep(1)
        assert len(run.tend()) == 2  # what runs there may end
        cluster.call("scancel", jobs["kv1"])
        run.hears(r"^job \d+ of Slurm: PENDING \((Resources|Nodes required for job are DOWN, DRAINED|ReqNodeNotAvail)")
        assert list(run.tend().values()) == [jobs["kv2"]]
        cluster.control("update", "NodeName=kv1", "State=RESUME")
        assert jobs["kv1"] not in run.has(2)


@pytest.mark.slow
def test_run_waits_while_others_have_the_partition(cluster, start, monkeypatch):
    monkeypatch.setattr(scheduler, "QUEUE", 2.0)
    others = [cluster.submit(f"--nodelist={node}", "--exclusive") for node in NODES]
    wait(lambda: {state for state, _, _ in cluster.jobs().values()} == {"RUNNING"}, cluster)
    with start(BOTH) as run:
        run.hears(r"^job \d+ of Slurm: PENDING \(Resources\)")
        freeing = subprocess.Popen(["sh", "-c", f"sleep 6; scancel {others[1]}"])
        scheduler.wait(run.client, scheduler.parse(BOTH), run.lines.append, jobs=run.jobs)  # longer than QUEUE
        assert freeing.wait() == 0
        assert [machine.name for machine in run.machines()] == ["kv2"]  # who is there begins
        cluster.call("scancel", others[0])
        run.has(2)


@pytest.mark.slow
def test_four_gpus_are_four_machines_and_a_fifth_job_waits(cluster, start):
    with start("slurm:nodes=5,gpus=1,cpus=1,memory=1GB") as run:
        run.has(4)
        assert sorted(machine.name for machine in run.machines()) == ["kv1-gpu0", "kv1-gpu1", "kv2-gpu0", "kv2-gpu1"]
        run.hears(r"^job \d+ of Slurm: PENDING \(Resources\)$")
        assert Counter(state for state, _, _ in cluster.jobs().values()) == {"RUNNING": 4, "PENDING": 1}


@pytest.mark.slow
def test_jobs_whose_worker_never_comes_are_named(cluster, start):
    import dask

    with (
        dask.config.set({"jobqueue.slurm.python": "/none/bin/python"}),
        pytest.raises(
            UsageError, match=r"3 jobs ended before a worker was there, the last one: job \d+ of Slurm: FAILED"
        ),
        start(BOTH) as run,
    ):
        scheduler.wait(run.client, scheduler.parse(BOTH), run.lines.append, jobs=run.jobs)


@pytest.mark.slow
def test_controller_that_is_away_for_a_while_costs_nothing(cluster, start):
    with start(ONE_NODE) as run:
        numbers = run.has(1)
        cluster.stop("slurmctld")
        run.hears(r"^note: squeue: .*Unable to contact slurm controller")
        assert list(run.tend().values()) == numbers
        cluster.start_controller()
        wait(lambda: cluster.jobs().get(numbers[0], ("",))[0] == "RUNNING", cluster)
        assert run.has(1) == numbers and len(cluster.jobs()) == 1


def processes_of(cluster, number):
    """The daemon of a job's node's step, and what the job started."""
    step, variable = f"slurmstepd: [{number}.batch]", f"SLURM_JOB_ID={number}"
    numbers = [process for process in processes.children() if processes.described(process).find(step) > 0]
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = path.read_text("utf-8", "replace").split("\0")
        except OSError:  # it has ended
            continue
        if variable in variables and f"SLURM_CONF={cluster.configuration}" in variables:
            numbers.append(int(path.parent.name))
    return numbers


@pytest.mark.slow
def test_node_that_dies_has_its_job_elsewhere(cluster, start):
    with start(ONE_NODE) as run:
        (number,) = run.has(1)
        (machine,) = run.machines()
        cluster.stop(machine.name, signal.SIGKILL)
        for process in processes_of(cluster, number):
            os.kill(process, signal.SIGKILL)
        try:
            wait(lambda: not run.tend(), cluster)
            wait(lambda: run.tend() is None or cluster.states()[machine.name].startswith("down"), cluster)
            cluster.control("update", "JobId=" + ",".join(cluster.jobs()), "StartTime=now")
            run.has(1)
            (other,) = run.machines()
            assert other.name != machine.name
        finally:
            cluster.start_node(machine.name)


KILLED = """
import sys, time
from kernel_velocity.fleet import scheduler
wanted = scheduler.parse(sys.argv[1])
with scheduler.connected(wanted) as (client, jobs):
    scheduler.wait(client, wanted, print, jobs=jobs)
    print("there", flush=True)
    time.sleep(1000)
"""


@pytest.mark.slow
def test_jobs_of_a_killed_run_end_by_themselves(cluster):
    run = subprocess.Popen([sys.executable, "-c", KILLED, ONE_NODE], stdout=subprocess.PIPE, text=True)
    with run.stdout:
        while (line := run.stdout.readline()) != "there\n":
            assert line, "it ended"
        run.kill()
    assert run.wait() == -signal.SIGKILL and len(cluster.jobs()) == 1
    wait(lambda: not cluster.jobs(), cluster)  # no scheduler answers their workers


def repository(folder, commits):
    """Make a repository whose commits change the kernels, which wait for the end of a file beside it."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    git(folder, "init", "-q", "-b", "main")
    (folder / "doubling").mkdir()
    for number in range(commits):
        (folder / "doubling" / "__init__.py").write_text(HELD.format(folder.with_name("held"), number))
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", f"Change {number}")


def git(folder, *args):
    subprocess.run(["git", *args], cwd=folder, env=os.environ | PERSON, check=True, capture_output=True)


def begun(folder, machine):
    """Return how many commits each job of a machine has begun."""
    return [
        path.read_text().count("For doubling commit")
        for path in sorted(folder.glob(f"*/{machine}/.asv/logs/track-*.log"))
    ]


@pytest.mark.slow
def test_run_loses_and_doubles_nothing(cluster, tmp_path):
    """It is interrupted, and resumed. Then one job is cancelled and one ended by its time limit while they measure."""
    here, machines = tmp_path / "here", tmp_path / "machines"
    repository(here, 4)
    command = "from kernel_velocity import __main__; from kernel_velocity.fleet import run, slurm\n"
    command += "run.LOST, slurm.EVERY = 1.0, 0.5; __main__.console()"
    options = ["--tier", "full", "--bench", BENCH, "--rounds", "1", "--no-site", "--no-ceilings", "--range", "HEAD~3.."]
    # Nodes of one host would take turns under its lock. The user's own configuration of dask-jobqueue is kept to
    prologue = ['export KV_LOCK_FOLDER="$KV_FLEET_FOLDER/$SLURMD_NODENAME"', 'mkdir -p "$KV_LOCK_FOLDER"']
    ours = {**os.environ, **SHORT, "KV_PATIENCE": "0", "DASK_JOBQUEUE__SLURM__JOB_SCRIPT_PROLOGUE": str(prologue)}

    def track():
        with (tmp_path / "printed").open("w") as out:
            return subprocess.Popen(
                [sys.executable, "-c", command, "track", *options, "--fleet", BOTH],
                cwd=here,
                env=ours,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def printed():
        """Return what the run printed, once it has ended, and its exit status."""
        try:
            status = run.wait(timeout=PATIENCE)
        finally:
            run.kill()
        return (tmp_path / "printed").read_text(), status

    def measuring(jobs, commits):
        """Wait until both machines have begun so many commits of so many jobs. Return the jobs of Slurm, by node."""

        def is_far():
            return all((counts := begun(machines, node))[jobs - 1 :] and counts[-1] >= commits for node in NODES)

        wait(lambda: run.poll() is not None or is_far(), cluster)
        return {node: number for number, (state, _, node) in cluster.jobs().items() if state == "RUNNING"}

    run = track()
    assert measuring(jobs=1, commits=1).keys() == set(NODES)
    run.send_signal(signal.SIGINT)
    text, status = printed()
    assert status == 130, text
    assert "Slurm gives a job 30 min: sessions of 27 min at most" in text
    assert "interrupted: 2 jobs stopped; the same command resumes" in text
    wait(lambda: not cluster.jobs(), cluster)

    run = track()
    jobs, held = measuring(jobs=2, commits=2), here.with_name("held")
    held.touch()
    cluster.call("scancel", jobs["kv1"])
    cluster.control("update", f"JobId={jobs['kv2']}", "TimeLimit=1")
    wait(lambda: run.poll() is not None or jobs["kv2"] not in cluster.jobs(), cluster)
    held.unlink()
    text, status = printed()
    assert status == 0, text
    assert "kv1: its worker ended while it measured" in text and f", job {jobs['kv1']} of Slurm: CANCELLED" in text
    assert f", job {jobs['kv2']} of Slurm: TIMEOUT (TimeLimit)" in text, text
    assert "6 of 6 measured" in text
    measured = Counter(
        (name, sha) for block in blocks.read(here / "measured", []) for name in block.lanes for sha in block.commits
    )
    assert len(measured) == 3 * len(KERNELS) and set(measured.values()) == {1}
    assert not cluster.jobs()
