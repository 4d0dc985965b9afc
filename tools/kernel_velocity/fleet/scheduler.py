"""Connect to the scheduler that --fleet names, and ask the machines behind it what they are.

Whoever reaches a scheduler of Dask runs code as its workers. So `local:` and `slurm:` ask for the certificate that each
run makes, and a scheduler without TLS is refused unless --insecure is given.

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
from kernel_velocity.fleet import slurm, worker

FORMS = "tls://HOST:PORT of a Dask scheduler, local:3, or slurm:nodes=4,partition=gpu"
INSTALL = "pip install 'kernel-velocity[fleet]'"
START = 30.0  # s that a machine may take to appear
QUEUE = 600.0  # s in a queue of Slurm. Whoever is there then begins, and the others join
CLOCK = 60.0  # s that a machine's clock may differ from ours before it is named
ENCRYPTED = ("tls", "wss")  # protocols of Dask. A tls:// peer must show a certificate of the same authority
DASHBOARD = "127.0.0.1:0"  # Dask's pages ask nobody who they are


@dataclass(frozen=True, kw_only=True)
class FleetMachine:
    """A worker of Dask: a machine, or one device of it."""

    name: str  # its folder in results/
    address: str  # of the worker
    kind: str  # what is measured, such as "NVIDIA H100 80GB HBM3"
    device: str  # "cpu" or "cuda"
    number: int | None = None  # of the device, where several workers share the machine
    clock: float = 0.0  # s that its clock is ahead of ours
    job: str = ""  # number of the job of Slurm that its worker is


@dataclass(frozen=True, kw_only=True)
class Scheduler:
    """What --fleet names."""

    kind: str  # "tls" (or another protocol of Dask), "local" or "slurm"
    text: str
    count: int = 0  # workers to start
    options: Mapping[str, str]

    @property
    def is_ours(self) -> bool:
        """Whether the workers are started, and ended, by us."""
        return self.count > 0


def parse(text: str, *, insecure: bool = False) -> Scheduler:
    """Return the scheduler of --fleet.

    Raises:
        UsageError: it has none of the known forms, or does not encrypt, and `insecure` does not allow that.
    """
    kind, _, rest = text.partition(":")
    if re.fullmatch(r"(tcp|tls|ucx|ws|wss)://[^\s/]+:\d+", text):
        if kind not in ENCRYPTED and not insecure:
            raise UsageError(
                f"--fleet {text}: {kind}:// has no encryption, and whoever reaches it can run code on every machine: "
                f"wanted tls://{rest.removeprefix('//')} (docs/how-to/cluster.md has the certificates), or --insecure"
            )
        return Scheduler(kind=kind, text=text, options={})
    if kind == "local" and rest.isascii() and rest.isdigit() and int(rest) > 0:
        return Scheduler(kind=kind, text=text, count=int(rest), options={})
    if kind == "slurm":
        options = dict(part.split("=", 1) for part in rest.split(",") if "=" in part)
        count = options.pop("nodes", "")
        unknown = set(options) - {*slurm.OPTIONS, "gpus"}
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
def connected(scheduler: Scheduler) -> Iterator[tuple[Any, slurm.Jobs | None]]:
    """Yield a client of Dask, and the jobs of Slurm whose workers it reaches. What it started ends with the body.

    Raises:
        UsageError: a package is missing, or nobody answers.
    """
    distributed, jobs = _module("distributed"), None
    with ExitStack() as stack:
        target: Any = scheduler.text
        if scheduler.is_ours:
            _module("cryptography")  # `temporary` needs it, and names no cure
            security = distributed.Security.temporary()
            if scheduler.kind == "local":
                target = stack.enter_context(_local(scheduler, security))
            else:
                cluster = _module("dask_jobqueue").SLURMCluster
                configured = _module("dask").config.get("jobqueue.slurm")  # by the user
                target, jobs = stack.enter_context(
                    slurm.started(
                        cluster,
                        count=scheduler.count,
                        options=scheduler.options,
                        configured=configured,
                        security=security,
                        dashboard=DASHBOARD,
                    )
                )
        try:
            client = distributed.Client(target, timeout=20)
        except (OSError, TypeError, RuntimeError) as error:  # TypeError: no certificates. RuntimeError: wants TLS
            raise UsageError(
                f"--fleet {scheduler.text}: cannot connect ({type(error).__name__}: {_reason(error)}): wanted a "
                "running `dask scheduler`, and for tls:// its certificates in Dask's configuration here, too "
                "(docs/how-to/cluster.md)"
            ) from None
        yield stack.enter_context(client), jobs


def _reason(error: BaseException) -> str:
    """Return the line that an error began with."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split())


def dashboard(client: Any, scheduler: Scheduler) -> str:
    """Return the address of Dask's dashboard, or "". Dask takes the scheduler's host for that of the dashboard."""
    if not scheduler.is_ours:
        return str(client.dashboard_link or "")
    return f"http://127.0.0.1:{client.scheduler_info(n_workers=0)['services']['dashboard']}/status"


def _module(name: str) -> Any:
    """Import a package of the extra. Ctrl-C stays an interrupt: importing dask-jobqueue makes it a silent exit."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise UsageError(f"--fleet needs {error.name}, which is not installed: {INSTALL}") from None
    finally:
        signal.signal(signal.SIGINT, handler)


def _local(scheduler: Scheduler, security: Any) -> Any:
    """Start workers on this machine."""
    return _module("distributed").LocalCluster(
        n_workers=scheduler.count,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address=DASHBOARD,
        security=security,
        silence_logs=logging.ERROR,
    )


def wait(
    client: Any,
    scheduler: Scheduler,
    say: Callable[[str], None],
    wanted: int | None = None,
    jobs: slurm.Jobs | None = None,
) -> None:
    """Wait for so many machines (None: those that were asked for), a while at most, and at least for one.

    Args:
        jobs: of Slurm. While there is no machine, and one of them waits for what other jobs have, so do we.

    Raises:
        UsageError: there is none.
    """
    patience = QUEUE if scheduler.kind == "slurm" else START
    until, wanted = time.monotonic() + patience, wanted or max(scheduler.count, 1)
    if len(addresses(client)) < wanted:
        say(f"waiting for {units.count(wanted, 'machine')}, {patience:.0f} s at most")
    while (count := len(workers := addresses(client))) < wanted:
        if jobs is not None:
            jobs.tend(workers.values(), say)
        if time.monotonic() > until and (count or jobs is None or not jobs.comes_free):
            break
        time.sleep(0.2)
    if not count:
        cure = "start `dask worker ADDRESS --nthreads 1` on each"
        if jobs is not None:
            cure = units.listed([str(job) for job in jobs.by_number.values()], most=3) or "Slurm does not answer"
        raise UsageError(f"--fleet {scheduler.text}: no machine in {patience:.0f} s: {cure}")


def addresses(client: Any) -> dict[str, str]:
    """Return the addresses of the workers that are there, and the name of each.

    Not by `scheduler_info`: the client refreshes what that returns in the background, and leaves workers out.

    Raises:
        UsageError: the scheduler is gone.
    """
    try:
        workers = client.sync(client.scheduler.identity, n_workers=-1)["workers"]
    except (OSError, AttributeError) as error:  # AttributeError: the client has given up
        raise UsageError(
            f"--fleet: the scheduler is gone ({type(error).__name__}): start it again; the same command goes on with "
            "what no machine has finished"
        ) from None
    return {address: str(worker["name"]) for address, worker in workers.items()}


def machines(client: Any, scheduler: Scheduler, fresh: set[str], say: Callable[[str], None]) -> list[FleetMachine]:
    """Ask workers what they are. One whose answer is an error is named, and left out.

    Raises:
        UsageError: a worker lacks this package.
    """
    replies = client.run(worker.describe, workers=sorted(fresh), on_error="return")
    labels = addresses(client)
    described = []
    for address, reply in replies.items():
        if isinstance(reply, ModuleNotFoundError):
            raise UsageError(f"{address}: has no {reply.name}: {INSTALL} there, in the environment of its worker")
        if isinstance(reply, BaseException):
            say(f"note: {address}: gets no job, as it cannot say what it is: {type(reply).__name__}: {reply}")
        elif address in labels:
            described.append(_machine(address, reply, labels[address], scheduler))
    return described


def _machine(address: str, reply: Mapping[str, Any], label: str, scheduler: Scheduler) -> FleetMachine:
    """Return a machine by what its worker says of itself.

    Workers of `local:N` share this machine. Each gets a device of its own, if there are as many. Else they take turns
    under the machine's lock.
    """
    gpus, name, number = reply["gpus"], reply["name"], None
    if scheduler.kind == "local" and scheduler.count > 1:
        number = int(label)
        name = f"{name}-{f'cuda{number}' if number < len(gpus) else number + 1}"
    return FleetMachine(
        name=name,
        address=address,
        kind=gpus[min(number or 0, len(gpus) - 1)] if gpus else reply["processor"],
        device="cuda" if gpus else "cpu",
        number=number if number is not None and number < len(gpus) else None,
        clock=reply["time"] - time.time(),
        job=label if scheduler.kind == "slurm" else "",
    )
