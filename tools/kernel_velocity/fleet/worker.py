"""Measure a job on a machine of a fleet.

Dask's worker runs `measure`, which starts this module as a process: `kv track` needs a process that Ctrl-C reaches and
a current folder, and must end with the worker. The machine's folder, KV_FLEET_FOLDER or ~/.cache/kernel-velocity/fleet,
holds a clone for each repository and machine, where builds stay. What a job measured goes back as the tar of `kv
offline` (archive.py), so it is checked and merged like a node's.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kernel_velocity import documents, fields, lock
from kernel_velocity.engine.telemetry import GAUGES, Round
from kernel_velocity.errors import BenchmarkFailed, BuildFailed, KernelVelocityError, NothingMeasured
from kernel_velocity.files import replace_text
from kernel_velocity.fleet import archive
from kernel_velocity.fleet.plan import FleetJob
from kernel_velocity.processes import contained
from kernel_velocity.results import asv_file, blocks, git, ingest, lines
from kernel_velocity.runner import doctor, fingerprint, host, track
from kernel_velocity.stats import link
from kernel_velocity.suite import config

FOLDER_VARIABLE = "KV_FLEET_FOLDER"  # variable: where a machine keeps its clones
NAME_VARIABLE = "KV_MACHINE"  # variable: the machine's name in results/, as `kv track` has it
# Exit statuses of `track` after which there is nothing to try again. Others are the machine's fault
FINAL = (0, BenchmarkFailed.exit_code, BuildFailed.exit_code, NothingMeasured.exit_code)
CLEAN, BUNDLE, ORDER, LOG = "fleet-job", "repository.bundle", "order.json", "log.txt"
_running: dict[str, subprocess.Popen[bytes]] = {}  # of this worker: key of a job -> its process


@dataclass(frozen=True, kw_only=True)
class Order:
    """A job with all that its worker must know."""

    job: FleetJob
    root: str  # SHA of the repository's first commit
    head: str  # SHA of the commit whose suite measures
    bench: str  # regular expression of the lanes' series
    tier: str
    ceilings: bool  # whether to measure those of the machine, too
    kind: str  # what is measured, such as "NVIDIA H100 80GB HBM3"
    device: str  # "cpu" or "cuda"
    number: int | None  # of the device, where the machine's others get other jobs
    began: float  # Unix time by the clock that orders all blocks, s
    settings: Mapping[str, str]  # KV_* of the run


@dataclass(frozen=True, kw_only=True)
class Result:
    """What came of a job on one machine."""

    key: str  # of the job
    machine: str
    status: int  # of `kv track`
    seconds: float
    tar: bytes = b""  # of what was recorded, if anything was
    reason: str = ""  # why the job failed


def describe() -> dict[str, Any]:
    """Return what this worker's machine is."""
    gpus: list[str] = doctor.probe()["gpus"] if host.has_driver() else []
    part = os.environ.get("SLURM_JOB_GPUS")  # of a shared node: another job has its other GPUs
    host_name = socket.gethostname()
    node = os.environ.get("SLURMD_NODENAME") or host_name
    if node == host_name.partition(".")[0]:
        node = host_name  # a node of Slurm has another name where several are one host
    name = "-gpu".join(filter(None, (node, part)))
    return {
        "name": os.environ.get(NAME_VARIABLE) or re.sub(r"[^A-Za-z0-9._-]", "-", name),
        "gpus": gpus,
        "processor": fingerprint.now(os.environ).get("cpu", "unknown processor"),
        "time": time.time(),
    }


def measure(order: Order, bundle: bytes) -> Result:
    """Measure a job in a process. It ends with this one, or by `stop`.

    Raises:
        OSError: the disk is full.
    """
    began = time.monotonic()
    with _process(order, bundle) as (status, folder):
        printed = (folder / LOG).read_text(encoding="utf-8", errors="replace").strip().splitlines()
        path = folder / archive.TAR_NAME
        tar = path.read_bytes() if path.exists() and status in FINAL else b""
    return Result(
        tar=tar,
        key=order.job.key,
        machine=order.job.machine,
        status=status,
        seconds=time.monotonic() - began,
        reason="" if status in FINAL else (printed or ["it printed nothing"])[-1],
    )


@contextlib.contextmanager
def _process(order: Order, bundle: bytes) -> Iterator[tuple[int, Path]]:
    """Run `main` in a process. Yield its exit status and its folder, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="kernel-velocity-") as scratch, contained() as mark:
        folder = Path(scratch)
        (folder / BUNDLE).write_bytes(bundle)
        (folder / ORDER).write_text(json.dumps(asdict(order)), encoding="utf-8")
        own_machines = _folder(order) / ".asv" / "machines.json"  # asv's file of them, for this one alone
        with (folder / LOG).open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "kernel_velocity.fleet.worker", str(folder)],
                env={**os.environ, **mark, **order.settings, asv_file.MACHINES_FILE: str(own_machines)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            _running[order.job.key] = process
            try:
                status = process.wait()
            finally:
                del _running[order.job.key]
        yield status, folder


def stop() -> None:
    """End this worker's jobs as Ctrl-C would. What they measured stays in the machine's folder."""
    for process in list(_running.values()):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)


def _folder(order: Order) -> Path:
    """Return the path of the machine's clone."""
    base = Path(os.environ.get(FOLDER_VARIABLE) or Path.home() / ".cache" / "kernel-velocity" / "fleet")
    return (base / order.root[:12] / order.job.machine).absolute()


# The process ----------------------------------------------------------------------------------------------------------


def main(scratch: Path) -> int:
    """Measure the order in a folder, and put the tar beside it. Return the status of `kv track`.

    Raises:
        KernelVelocityError: it cannot be measured here.
        OSError: the disk is full.
    """
    order = fields.parse(Order, json.loads((scratch / ORDER).read_text(encoding="utf-8")), ORDER)
    clone = _clone(order, scratch / BUNDLE)
    with lock.held(clone, wait=True), contextlib.chdir(clone):
        _check_out(order)
        began = time.time()
        status = _track(order)
        if status in FINAL:
            _pack(order, time.time() - began, scratch)
        return status


def _clone(order: Order, bundle: Path) -> Path:
    """Return the folder of the machine's clone, which has the commits of the bundle."""
    clone = _folder(order)
    clone.mkdir(parents=True, exist_ok=True)
    with lock.held(clone, measures=False, wait=True):
        if not (clone / ".git").is_dir():
            git.output(clone, "init", "-q")
        if git.run(clone, "cat-file", "-e", f"{order.head}^{{commit}}").returncode != 0:
            git.output(clone, "fetch", "-q", str(bundle), "+HEAD:refs/kernel-velocity/fleet")
    return clone


def _check_out(order: Order) -> None:
    """Have the suite of the order, and no results but those of the same job, interrupted."""
    here = Path()
    if git.run(here, "rev-parse", "HEAD").stdout.strip() != order.head:
        git.output(here, "checkout", "-q", "--force", "--detach", order.head)
    label = Path(".asv", CLEAN)
    if not label.exists() or label.read_text(encoding="utf-8", errors="replace") != order.job.key:
        label.unlink(missing_ok=True)
        for folder in (Path(config.results_dir(here), order.job.machine), Path(".asv", "spool")):
            shutil.rmtree(folder, ignore_errors=True)
        replace_text(label, order.job.key)


def _track(order: Order) -> int:
    """Run `kv track` on the commits of a job. Return its exit status."""
    parser = ArgumentParser()
    track.add_arguments(parser)
    options = {
        "--range": " ".join(order.job.measured),
        "--bench": order.bench,
        "--rounds": str(order.job.rounds),
        "--tier": order.tier,
        "--machine": order.job.machine,
    }
    args = parser.parse_args([f"{name}={value}" for name, value in options.items()] + ["--no-site"])
    args.no_ceilings = not order.ceilings
    args.device = None if order.number is None else f"cuda:{order.number}"
    return track.run(args, sys.stdout, sys.stderr)


def _pack(order: Order, seconds: float, scratch: Path) -> None:
    """Put what was measured into the tar that goes back. There is none where nothing was recorded."""
    machine, describing = order.job.machine, scratch / "run"
    for line in ingest.ingest(Path(), machine=machine).problems:
        print(line)  # noqa: T201
    block = blocks.Block(
        machine=machine,
        lanes=order.job.lanes,
        commits=order.job.commits,
        anchors=order.job.anchors,
        rounds=order.job.rounds,
        began=order.began,
        seconds=seconds,
        device=order.kind,
        times=tuple(_times(Path(config.results_dir(Path()), machine), order.job.anchors)),
    )
    replace_text(describing / blocks.NAME, blocks.encode(block))
    gpus = (order.kind,) if order.device == "cuda" else ()
    manifest = archive.Manifest(
        project=archive.PROJECT,
        root=order.root,
        head=order.head,
        commits=order.job.measured,
        machine=machine,
        node=archive.Node(device=order.device, gpus=gpus, torch=host.torch_version()),
        written=order.began,
    )
    if archive.is_recorded(machine):
        (scratch / archive.TAR_NAME).write_bytes(archive.of_machine(manifest, describing))


def _times(folder: Path, anchors: tuple[str, ...]) -> Iterator[blocks.Time]:
    """Yield what the series took at the anchors in this session."""
    for commit in anchors:
        for path in sorted(folder.glob(f"{commit[: git.SHORT]}*.json")):
            if lines.commit_in(path) != commit:
                continue
            for (name, *params), rounds in lines.read_rounds(lines.beside(path, lines.ROUNDS), []).items():
                logs = [math.log(round_.estimate) for round_ in rounds]
                yield blocks.Time(
                    commit=commit,
                    benchmark=name,
                    params=tuple(params),
                    seconds=math.exp(statistics.median(logs)),
                    error=link.median_error(logs),
                    rounds=len(logs),
                    gauges=dict(_gauges(rounds)),
                )


def _gauges(rounds: Sequence[Round]) -> Iterator[tuple[str, float]]:
    """Yield the medians of the gauges that were read in all rounds."""
    for name in GAUGES:
        readings = [getattr(round_, name) for round_ in rounds]
        if None not in readings:
            yield name, statistics.median(readings)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a worker may have been started in the background
    try:
        sys.exit(main(Path(sys.argv[1])))
    except (KernelVelocityError, OSError, documents.DamagedError) as error:
        print(f"error: {error}", flush=True)  # noqa: T201
        sys.exit(KernelVelocityError.exit_code)
