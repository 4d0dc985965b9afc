"""Connect to the scheduler that --fleet names, and ask the machines behind it what they are.

`distributed` and `dask-jobqueue` are of the extra `fleet`, and imported here, when they are needed.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from kernel_velocity import units
from kernel_velocity.errors import UsageError
from kernel_velocity.fleet import worker

FORMS = "tcp://HOST:PORT of a Dask scheduler, local:3, or slurm:nodes=4,partition=gpu"
INSTALL = "pip install 'kernel-velocity[fleet]'"
START = 30.0  # s that a machine may take to appear
QUEUE = 600.0  # s in a queue of Slurm. Whoever is there then begins, and the others join
CLOCK = 60.0  # s that a machine's clock may differ from ours before it is named
SLURM = {  # key of `slurm:` -> argument of dask_jobqueue.SLURMCluster
    "partition": "queue",
    "account": "account",
    "time": "walltime",
    "memory": "memory",
}


@dataclass(frozen=True, kw_only=True)
class FleetMachine:
    """A worker of Dask: a machine, or one device of it."""

    name: str  # its folder in results/
    address: str  # of the worker
    kind: str  # what is measured, such as "NVIDIA H100 80GB HBM3"
    device: str  # "cpu" or "cuda"
    number: int | None = None  # of the device, where several workers share the machine
    clock: float = 0.0  # s that its clock is ahead of ours


@dataclass(frozen=True, kw_only=True)
class Scheduler:
    """What --fleet names."""

    kind: str  # "tcp" (or another protocol of Dask), "local" or "slurm"
    text: str
    count: int = 0  # workers to start
    options: Mapping[str, str]

    @property
    def is_ours(self) -> bool:
        """Whether the workers are started, and ended, by us."""
        return self.count > 0


def parse(text: str) -> Scheduler:
    """Return the scheduler of --fleet.

    Raises:
        UsageError: it has none of the known forms.
    """
    kind, _, rest = text.partition(":")
    if re.fullmatch(r"(tcp|tls|ucx|ws|wss)://[^\s/]+:\d+", text):
        return Scheduler(kind=kind, text=text, options={})
    if kind == "local" and rest.isascii() and rest.isdigit() and int(rest) > 0:
        return Scheduler(kind=kind, text=text, count=int(rest), options={})
    if kind == "slurm":
        options = dict(part.split("=", 1) for part in rest.split(",") if "=" in part)
        count = options.pop("nodes", "")
        unknown = set(options) - {*SLURM, "cpus", "gpus"}
        if (
            len(options) + 1 != len(rest.split(","))
            or unknown
            or not (count.isascii() and count.isdigit() and int(count))
        ):
            raise UsageError(
                f"--fleet {text!r}: slurm:nodes=N is wanted, and partition=, account=, time=, memory=, cpus= or gpus= "
                "behind it, with commas between"
            )
        return Scheduler(kind=kind, text=text, count=int(count), options=options)
    raise UsageError(f"--fleet {text!r}: wanted {FORMS}")


@contextlib.contextmanager
def connected(scheduler: Scheduler) -> Iterator[Any]:
    """Yield a client of Dask. The workers that it started end with the body.

    Raises:
        UsageError: a package is missing, or nobody answers.
    """
    distributed = _module("distributed")
    with ExitStack() as stack:
        target: Any = scheduler.text
        if scheduler.kind == "local":
            target = distributed.LocalCluster(
                n_workers=scheduler.count,
                threads_per_worker=1,
                processes=True,
                dashboard_address=":0",
                silence_logs=logging.ERROR,
            )
        elif scheduler.kind == "slurm":
            target = _slurm(scheduler)
        if scheduler.is_ours:
            stack.enter_context(target)
        try:
            client = distributed.Client(target, timeout=20)
        except (OSError, TimeoutError) as error:
            raise UsageError(
                f"--fleet {scheduler.text}: no scheduler answers ({type(error).__name__}): start one with "
                "`dask scheduler`, and machines with `dask worker ADDRESS --nthreads 1`"
            ) from None
        yield stack.enter_context(client)


def _module(name: str) -> Any:
    """Import a package of the extra. Ctrl-C stays an interrupt: importing dask-jobqueue makes it a silent exit."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise UsageError(f"--fleet needs {error.name}, which is not installed: {INSTALL}") from None
    finally:
        signal.signal(signal.SIGINT, handler)


def _slurm(scheduler: Scheduler) -> Any:
    """Start jobs of Slurm, a worker each. One that ends, by preemption or its time limit, is replaced."""
    options, jobqueue = dict(scheduler.options), _module("dask_jobqueue")
    gpus, cpus = options.pop("gpus", None), int(options.pop("cpus", "4"))
    options.setdefault("memory", "8GB")
    cluster = jobqueue.SLURMCluster(
        cores=1,  # threads of the worker: it measures one job at a time
        processes=1,
        job_cpu=cpus,
        job_extra_directives=[f"--gres=gpu:{gpus}"] if gpus else [],
        **{SLURM[name]: value for name, value in options.items()},
    )
    cluster.adapt(minimum=scheduler.count, maximum=scheduler.count)
    return cluster


def wait(client: Any, scheduler: Scheduler, say: Callable[[str], None], wanted: int | None = None) -> None:
    """Wait for so many machines (None: those that were asked for), a while at most, and at least for one.

    Raises:
        UsageError: there is none.
    """
    patience = QUEUE if scheduler.kind == "slurm" else START
    until, wanted = time.monotonic() + patience, wanted or max(scheduler.count, 1)
    if len(addresses(client)) < wanted:
        say(f"waiting for {units.count(wanted, 'machine')}, {patience:.0f} s at most")
    while (count := len(addresses(client))) < wanted and time.monotonic() < until:
        time.sleep(0.2)
    if not count:
        raise UsageError(
            f"--fleet {scheduler.text}: no machine in {patience:.0f} s: start `dask worker ADDRESS --nthreads 1` on "
            "each, or see what Slurm says of the jobs (squeue)"
        )


def addresses(client: Any) -> set[str]:
    """Return the addresses of the workers that are there."""
    return set(client.scheduler_info(n_workers=-1)["workers"])


def machines(client: Any, scheduler: Scheduler, fresh: set[str], say: Callable[[str], None]) -> list[FleetMachine]:
    """Ask workers what they are. One whose answer is an error is named, and left out.

    Raises:
        UsageError: a worker lacks this package.
    """
    replies = client.run(worker.describe, workers=sorted(fresh), on_error="return")
    workers = client.scheduler_info(n_workers=-1)["workers"]
    described = []
    for address, reply in replies.items():
        if isinstance(reply, ModuleNotFoundError):
            raise UsageError(f"{address}: has no {reply.name}: {INSTALL} there, in the environment of its worker")
        if isinstance(reply, BaseException):
            say(f"note: {address}: gets no job, as it cannot say what it is: {type(reply).__name__}: {reply}")
        elif address in workers:
            described.append(_machine(address, reply, workers[address]["name"], scheduler))
    return described


def _machine(address: str, reply: Mapping[str, Any], label: object, scheduler: Scheduler) -> FleetMachine:
    """Return a machine by what its worker says of itself.

    Workers of `local:N` share this machine. Each gets a device of its own, if there are as many. Else they take turns
    under the machine's lock.
    """
    gpus, name, number = reply["gpus"], reply["name"], None
    if scheduler.kind == "local" and scheduler.count > 1:
        number = int(str(label))
        name = f"{name}-{f'cuda{number}' if number < len(gpus) else number + 1}"
    return FleetMachine(
        name=name,
        address=address,
        kind=gpus[min(number or 0, len(gpus) - 1)] if gpus else reply["processor"],
        device="cuda" if gpus else "cpu",
        number=number if number is not None and number < len(gpus) else None,
        clock=reply["time"] - time.time(),
    )
