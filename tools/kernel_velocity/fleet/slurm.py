"""Jobs of Slurm, a worker of Dask each: submit them, say what Slurm says of them, replace those that end.

dask-jobqueue writes their script, by the user's own configuration of it. It would submit them, too. But it tries no
second time where Slurm refuses a job, does not see that one ended before its worker was there, and says of no job why
it waits or ended.
"""

from __future__ import annotations

import contextlib
import math
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernel_velocity import units
from kernel_velocity.errors import UsageError

OPTIONS = {  # key of `slurm:` -> argument of dask_jobqueue.SLURMCluster
    "partition": "queue",
    "account": "account",
    "time": "walltime",
    "memory": "memory",
    "cpus": "job_cpu",
}
SHARED = Path(".asv")  # jobs start in the current folder, so they see it
MEMORY, CPUS = "8GB", 4  # of a job, where neither --fleet nor the user's configuration says it
EVERY = 5.0  # s between two questions to Slurm
AGAIN = 60.0  # s from a refused job to the next one
ANSWER = 30.0  # s that Slurm may take to answer: sbatch waits for minutes where Slurm has as many jobs as it may
USELESS = 3  # jobs in a row that ended before their worker was there. There is no fourth
SETTLES = 3.0  # s in which Slurm says what became of a job whose worker is gone
USABLE = 0.9  # of a job's time: it begins before its worker does, and Slurm ends it half a minute early or late
FIELDS = "%A|%T|%l|%L|%r"  # of squeue: number, state, time limit, time left, reason
ENDED = (
    *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"),
    *("PREEMPTED", "REVOKED", "TIMEOUT"),
)
OF_THE_JOB = ("--name", '"$SLURM_JOB_ID"')  # arguments of a worker: of two names, Dask takes the last
TIMEOUT, GONE = "TIMEOUT", "unknown to Slurm"
COMES_FREE = ("Priority", "Resources")  # reasons to wait that end by themselves


@dataclass(frozen=True, kw_only=True)
class Job:
    """What Slurm says of a job."""

    number: str
    state: str  # such as "PENDING"
    reason: str  # such as "Resources", or "None"
    limit: float  # s that it may take
    left: float  # s of it

    @property
    def has_ended(self) -> bool:
        """Whether it is not coming back, as one that was requeued does."""
        return self.state in ENDED or self.state == GONE

    @property
    def waits(self) -> bool:
        """Whether it is in the queue."""
        return self.state == "PENDING"

    def __str__(self) -> str:
        return f"job {self.number} of Slurm: {self.state}{f' ({self.reason})' if self.reason != 'None' else ''}"


@dataclass(kw_only=True)
class Jobs:
    """The jobs of a run: so many at a time. The name of a worker is the number of its job."""

    name: str  # of all of them, and of no other job
    script: Path
    count: int
    logs: Path  # folder
    by_number: dict[str, Job] = field(default_factory=dict)
    joined: set[str] = field(default_factory=set)  # numbers of jobs whose worker was there
    cancelled: set[str] = field(default_factory=set)  # numbers, by us
    printed: dict[str, str] = field(default_factory=dict)  # what was printed last, by number, or of no job
    useless: int = 0  # jobs in a row that ended before their worker was there
    last_query: float = -math.inf  # when Slurm was asked, by the monotonic clock
    again: float = -math.inf  # when a job may be submitted, after one that was refused

    @property
    def limit(self) -> float:
        """The shortest time that Slurm gives a job, s."""
        return min((job.limit for job in self.by_number.values() if not job.has_ended), default=math.inf)

    @property
    def comes_free(self) -> bool:
        """Whether a job waits for what other jobs have."""
        return any(job.waits and job.reason in COMES_FREE for job in self.by_number.values())

    def tend(self, workers: Collection[str], say: Callable[[str], None]) -> None:
        """Ask Slurm what became of the jobs, say what is new, and submit what is missing. Does nothing most times.

        Args:
            workers: the names of those that are there.

        Raises:
            UsageError: Slurm takes no job, or jobs end before their workers are there.
        """
        if not self.joined.issuperset(workers):
            self.joined.update(workers)
            self.useless = 0
        now = time.monotonic()
        if now - self.last_query < EVERY:
            return
        self.last_query = now
        if not self.ask(say):
            return
        for job in self.by_number.values():
            self._tell(job, say)
        live = sum(not job.has_ended for job in self.by_number.values())
        if self.useless >= USELESS:
            self._stop(live, say)
            return
        for _ in range(self.count - live if now >= self.again else 0):
            if refusal := self._submit():
                self.again = now + AGAIN
                if not self.by_number:
                    raise UsageError(f"--fleet: Slurm refuses a job: {refusal}")
                self._once("", f"note: Slurm refuses a job: {refusal}; tried again every {AGAIN:.0f} s", say)
                return
            self.printed.pop("", None)

    def ask(self, say: Callable[[str], None]) -> bool:
        """Note what Slurm says of the jobs. Return whether it answered."""
        status, text, complaint = _run("squeue", "--noheader", "--states=all", f"--name={self.name}", f"-o{FIELDS}")
        if status != 0:
            self._once("squeue", f"note: {complaint}", say)
            return False
        self.printed.pop("squeue", None)
        answers = {job.number: job for job in map(_job, text.splitlines())}
        for number, job in self.by_number.items():
            if number not in answers:  # it ended some minutes ago
                answers[number] = job if job.has_ended else Job(**{**vars(job), "state": GONE, "reason": "None"})
        for number, job in answers.items():
            before = self.by_number.get(number)
            if job.has_ended and (before is None or not before.has_ended):
                self.useless += number not in self.joined | self.cancelled
        self.by_number = answers
        return True

    def fate(self, number: str, say: Callable[[str], None]) -> Job | None:
        """Return what became of a job whose worker is gone. None: there was no such job, or Slurm does not answer."""
        until = time.monotonic() + SETTLES
        while self.ask(say):
            job = self.by_number.get(number)
            if job is None or job.has_ended or job.waits or time.monotonic() > until:
                return job
            time.sleep(0.2)
        return None

    def is_short(self, number: str, seconds: float) -> bool:
        """Return whether a job's time is too short for so many seconds, and a new one's would be longer."""
        job = self.by_number.get(number)
        return job is not None and job.left < min(seconds / USABLE, USABLE * job.limit)

    def renew(self, number: str) -> bool:
        """Cancel a job, so that another one is submitted. Return whether it was not cancelled before."""
        if number in self.cancelled:
            return False
        self.cancelled.add(number)
        _run("scancel", number)
        return True

    def end(self) -> None:
        """Cancel all jobs, those that we do not know of included."""
        _run("scancel", f"--name={self.name}")

    def _submit(self) -> str:
        """Submit a job. Return why Slurm refuses it, or ""."""
        status, text, complaint = _run("sbatch", "--parsable", str(self.script))
        if status != 0:
            return complaint
        number = text.strip().partition(";")[0]
        self.by_number[number] = Job(number=number, state="PENDING", reason="None", limit=math.inf, left=math.inf)
        return ""

    def _stop(self, live: int, say: Callable[[str], None]) -> None:
        """Say that no job is submitted any more.

        Raises:
            UsageError: there is none left.
        """
        last = max((job for job in self.by_number.values() if job.has_ended), key=lambda job: int(job.number))
        line = f"{units.count(USELESS, 'job')} ended before a worker was there, the last one: {last}"
        if printed := self._last_line(last):
            line += f": {printed}"
        if not live:
            raise UsageError(f"--fleet: {line}: see {self.logs}")
        self._once("", f"note: {line}; no more are submitted", say)

    def _last_line(self, job: Job) -> str:
        """Return the last line that a job printed. "" where it printed none, or in a folder of its own machine."""
        paths = sorted(self.logs.glob(f"{self.name}-{job.number}.*"), key=lambda path: path.suffix == ".err")
        printed = (line.strip() for path in paths for line in path.read_text("utf-8", "replace").splitlines())
        return ([""] + [line for line in printed if line])[-1]

    def _tell(self, job: Job, say: Callable[[str], None]) -> None:
        """Say why a job waits, and how one ended whose worker was never there."""
        is_useless = job.has_ended and job.number not in self.joined | self.cancelled
        if is_useless or (job.waits and job.reason != "None"):
            self._once(job.number, str(job), say)

    def _once(self, about: str, line: str, say: Callable[[str], None]) -> None:
        if self.printed.get(about) != line:
            self.printed[about] = line
            say(line)


@contextlib.contextmanager
def started(
    cluster: Any,
    *,
    count: int,
    options: Mapping[str, str],
    configured: Mapping[str, Any],
    security: Any,
    dashboard: str,
) -> Iterator[tuple[Any, Jobs]]:
    """Start a scheduler of Dask. Yield it with the jobs of its workers, which are cancelled with the body.

    Jobs read the key of the run from a folder of mode 0700, which is removed when the run ends.

    Args:
        cluster: dask_jobqueue.SLURMCluster. options: of `slurm:`. configured: jobqueue.slurm of Dask's configuration.
        security: in memory. dashboard: HOST:PORT of Dask's pages, of scheduler and workers.

    Raises:
        UsageError: Dask's configuration names a folder that is missing.
    """
    SHARED.mkdir(exist_ok=True)
    shared = Path(configured["shared-temp-directory"] or SHARED.absolute()).expanduser()
    if not shared.is_dir():
        raise UsageError(f"Dask's jobqueue.slurm.shared-temp-directory: {shared}: no folder: wanted one that jobs see")
    logs = Path(configured["log-directory"] or SHARED.absolute() / "logs").expanduser()
    wanted = {OPTIONS[name]: value for name, value in options.items() if name in OPTIONS}
    cpus = int(wanted.pop("job_cpu", None) or configured["job-cpu"] or CPUS)
    memory = wanted.pop("memory", None) or configured["memory"] or MEMORY
    with tempfile.TemporaryDirectory(prefix="fleet-", dir=shared) as folder:
        for name in ("tls_ca_file", "tls_worker_cert", "tls_worker_key"):
            path = Path(folder, name)
            path.write_text(getattr(security, name), encoding="ascii")
            setattr(security, name, str(path))
        gpus = [f"--gres=gpu:{options['gpus']}"] if "gpus" in options else []
        job_name = f"kv-{Path(folder).name}"
        with cluster(
            cores=1,  # threads of the worker: it measures one job at a time
            processes=1,
            memory=memory,
            job_cpu=cpus,
            job_name=job_name,
            log_directory=str(logs),
            job_extra_directives=[*configured["job-extra-directives"], *gpus],
            security=security,
            scheduler_options={**configured["scheduler-options"], "dashboard_address": dashboard},
            worker_extra_args=[*configured["worker-extra-args"], "--dashboard-address", dashboard, *OF_THE_JOB],
            **wanted,
        ) as scheduler:
            script = Path(folder, "job.sh")
            script.write_text(scheduler.job_script(), encoding="utf-8")
            jobs = Jobs(name=job_name, script=script, count=count, logs=logs)
            try:
                yield scheduler, jobs
            finally:
                jobs.end()


def _run(*command: str) -> tuple[int, str, str]:
    """Run a program of Slurm. Return its exit status (not 0 if it takes too long), output, and complaint in a line.

    Raises:
        UsageError: there is no such program.
    """
    try:
        result = subprocess.run(
            command,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER,
        )
    except FileNotFoundError:
        raise UsageError(
            f"--fleet: no {command[0]} on PATH: slurm: is for a machine that submits jobs of Slurm"
        ) from None
    except subprocess.TimeoutExpired as error:
        printed = error.stderr or b""
        return -1, "", f"{command[0]}: no answer in {ANSWER:.0f} s. {_complaint(printed.decode(errors='replace'))}"
    return result.returncode, result.stdout, f"{command[0]}: {_complaint(result.stderr)}"


def _complaint(text: str) -> str:
    """Return what a program of Slurm printed, in a line, without the words that each of its lines begins with."""
    lines = (re.sub(r"^\w+: (error: )?", "", line).strip() for line in text.splitlines())
    return "; ".join(dict.fromkeys(filter(None, lines))) or "it printed nothing"


def _job(line: str) -> Job:
    number, state, limit, left, reason = line.split("|", 4)
    return Job(number=number, state=state, reason=reason.strip(), limit=seconds(limit), left=seconds(left))


def seconds(text: str) -> float:
    """Return what Slurm writes as [DAYS-][[HOURS:]MINUTES:]SECONDS, s. Infinity for what is no time: no limit."""
    if not re.fullmatch(r"(\d+-)?(\d+:){0,2}\d+", text):
        return math.inf
    days, _, clock = text.rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    return 86400.0 * int(days or 0) + sum(part * 60.0**power for power, part in enumerate(reversed(parts)))
