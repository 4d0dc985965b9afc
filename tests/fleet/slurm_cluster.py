"""A cluster of Slurm on this machine: real daemons, in a folder and with ports of their own, and no systemd.

`python -m tests.fleet.slurm_cluster FOLDER` starts one, prints the variable that its users need, and ends it on Ctrl-C.
Tests use `running`. Nodes are daemons beside each other, each with a NodeName and a port. All of them share the name of
the host, 127.0.0.1 and its cores. A node has two GPUs, which are device files that every machine has: Slurm counts
them, and gives each to one job. Debian's packages are enough:
`apt-get install --no-install-recommends slurmctld slurmd slurm-client munge`.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from kernel_velocity.processes import contained
from tests.waiting import PATIENCE

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "scontrol")
MISSING = [name for name in PROGRAMS if shutil.which(name) is None]
NODES = ("kv1", "kv2")
CORES, MEMORY = 8, 16000  # of a node, whatever this machine has: MB
GPUS = ("/dev/null", "/dev/zero")
# Sites refuse accounts in such a script, without a database of accounts.
SUBMISSION = """
function slurm_job_submit(job, partitions, user)
  if job.account == "unpaid" then
    slurm.log_user("account unpaid has no hours left")
    return slurm.ERROR
  end
  return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, user)
  return slurm.SUCCESS
end
return slurm.SUCCESS
"""
# Times are short: s from SIGTERM to SIGKILL, s until a silent node is down, s for which ended jobs are known.
SETTINGS = """
ClusterName=kv
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
JobSubmitPlugins=lua
GresTypes=gpu
MaxArraySize=4
KillWait=2
SlurmdTimeout=8
MinJobAge=120
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
NodeName={nodes} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]},{ports[2]} CPUs={cores} RealMemory={memory} \
Gres=gpu:2 State=UNKNOWN
PartitionName=gpu Nodes={nodes} Default=YES MaxTime=INFINITE State=UP
"""


class SlurmCluster:
    """The daemons of a cluster, by name, and what its programs answer."""

    def __init__(self, folder):
        self.folder = folder
        self.configuration = folder / "slurm.conf"
        self.daemons = {}

    @property
    def environ(self):
        """Return the variable that makes Slurm's programs ask this cluster."""
        return {"SLURM_CONF": str(self.configuration)}

    def configure(self):
        (self.folder / "state").mkdir()
        (self.folder / "munge.key").write_bytes(os.urandom(128))
        (self.folder / "munge.key").chmod(0o400)
        (self.folder / "job_submit.lua").write_text(SUBMISSION)
        (self.folder / "gres.conf").write_text("".join(f"Name=gpu File={path}\n" for path in GPUS))
        values = {"nodes": ",".join(NODES), "host": socket.gethostname(), "cores": CORES, "memory": MEMORY}
        values |= {"folder": self.folder, "ports": _free_ports(1 + len(NODES)), "user": os.environ.get("USER", "root")}
        self.configuration.write_text(SETTINGS.format(**values))

    def start(self):
        """Start all daemons, and wait until both nodes are idle.

        munged is forced, as pytest's folders are closed to other users, who need none of this.
        """
        self.configure()
        paths = {"socket": "munge.socket", "key-file": "munge.key", "log-file": "munge.log"}
        paths |= {"pid-file": "munge.pid", "seed-file": "munge.seed"}
        self._start(
            "munged",
            ["munged", "--foreground", "--force", *(f"--{key}={self.folder / path}" for key, path in paths.items())],
        )
        wait((self.folder / "munge.socket").exists, self)
        self.start_controller()
        for node in NODES:
            self.start_node(node)
        wait(lambda: set(self.states().values()) == {"idle"}, self)

    def start_controller(self):
        self._start("slurmctld", ["slurmctld", "-D"])
        wait(lambda: self.call("scontrol", "ping", check=False).returncode == 0, self)

    def start_node(self, name):
        self._start(name, ["slurmd", "-D", "-N", name])

    def _start(self, name, command):
        with (self.folder / f"{name}.out").open("ab") as out:
            # In sessions of their own: Ctrl-C is for the tests
            self.daemons[name] = subprocess.Popen(
                command,
                env=os.environ | self.environ,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def stop(self, name, how=signal.SIGTERM):
        """End a daemon. The jobs of a node go on without it."""
        process = self.daemons.pop(name)
        process.send_signal(how)
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def end(self):
        if "slurmctld" in self.daemons:
            self.call("scancel", "--partition=gpu", check=False)
            until = time.monotonic() + 15  # then it is killed
            while self.jobs() and time.monotonic() < until:
                time.sleep(0.1)
        for name in reversed(list(self.daemons)):
            self.stop(name)

    def call(self, *command, check=True):
        return subprocess.run(
            command, env=os.environ | self.environ, capture_output=True, text=True, check=check, timeout=PATIENCE
        )

    def control(self, *words):
        """Change something as an administrator does."""
        return self.call("scontrol", *words).stdout

    def states(self):
        """Return the state of each node, by name."""
        lines = self.call("sinfo", "--noheader", "--Node", "--format=%N %t", check=False).stdout.splitlines()
        return dict(line.split() for line in lines)

    def jobs(self, *options):
        """Return the state, the reason and the node of each job that has not ended, by number."""
        lines = self.call("squeue", "--noheader", "--format=%A|%T|%r|%N", *options).stdout.splitlines()
        return {line.split("|")[0]: tuple(line.split("|")[1:]) for line in lines}

    def submit(self, *options):
        """Submit a job that sleeps. Return its number."""
        script = self.folder / "sleep.sh"
        script.write_text("#!/bin/sh\nexec sleep 600\n")
        return self.call("sbatch", "--parsable", "--output=/dev/null", *options, str(script)).stdout.strip()

    def logs(self):
        return "\n".join(f"{path.name}: {path.read_text()[-600:]}" for path in self.folder.glob("*.log"))


@contextlib.contextmanager
def running(folder):
    """Yield a cluster. It ends with the body, or with this process, and so does what its jobs started.

    If this process is killed, an idle slurmstepd of each running job is left: its environment names nobody.
    """
    with contained(left=[]):  # all children, as slurmstepd's environment has no mark
        cluster = SlurmCluster(folder)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.end()


def wait(condition, cluster):
    """Return what a condition returns, once it is true. Conditions start programs of Slurm, so they have a pause."""
    until = time.monotonic() + PATIENCE
    while not (result := condition()):
        assert time.monotonic() < until, cluster.logs()
        time.sleep(0.1)
    return result


def _free_ports(count):
    """Return the numbers of ports of loopback that nobody listens at."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [free.getsockname()[1] for free in sockets]


if __name__ == "__main__":
    if MISSING:
        sys.exit(f"no {', '.join(MISSING)} on PATH: apt-get install slurmctld slurmd slurm-client munge")
    target = Path(sys.argv[1]).absolute()
    target.mkdir(parents=True)
    with running(target) as started, contextlib.suppress(KeyboardInterrupt):
        print(f"export SLURM_CONF={started.configuration}", flush=True)
        signal.pause()
