"""Store the verdict of each machine's newest night: `results/findings/nights/<machine>.toml`.

It lies below the findings, because the branch `results` carries them from machine to machine. It is no JSON, because
asv takes every JSON file below its results for one of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from kernel_velocity.fields import Sha
from kernel_velocity.files import replace_text
from kernel_velocity.findings import store, verdict
from kernel_velocity.findings.finding import OF_SERIES, Ratio
from kernel_velocity.findings.verdict import NightVerdict
from kernel_velocity.results.identity import Identity

NIGHTS = "nights"  # in the folder of the findings
LISTED = 20  # failures that are named; the summary counts all


@dataclass(frozen=True, kw_only=True)
class Noted:
    """A series that the next night has to know of, and a commit."""

    identity: Identity = field(metadata=OF_SERIES)
    commit: Sha
    ratio: Ratio = 1.0  # new / old, as its history has it

    @property
    def effect(self) -> float:
        """The change of the logarithm of the value."""
        return math.log(self.ratio)


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What a night has to know of the one before."""

    refuted: tuple[Noted, ...] = ()  # moved at the commit, and a re-run in turns showed nothing
    left: tuple[Noted, ...] = ()  # changed their code after the commit, and there was no time for a re-run


NOTHING = Memory()


@dataclass(frozen=True, kw_only=True)
class KeptVerdict:
    """The verdict of a machine's newest night."""

    machine: str
    when: datetime  # with a time zone
    summary: str  # one line
    exit_status: int  # of the contract
    measured: int  # series
    failures: tuple[str, ...] = ()  # benchmarks and builds that failed, at most LISTED, each with its reason
    memory: Memory = NOTHING


def of(night: NightVerdict, machine: str, memory: Memory = NOTHING) -> KeptVerdict:
    """Return the record of a night's verdict."""
    return KeptVerdict(
        machine=machine,
        when=night.when,
        summary=verdict.summary(night),
        exit_status=verdict.exit_status(night),
        measured=night.measured,
        failures=tuple(f"{failed.what}: {failed.why}" for failed in (*night.failed_builds, *night.failures)[:LISTED]),
        memory=memory,
    )


def write(results: Path, record: KeptVerdict) -> Path:
    """Write a verdict in the place of the machine's last one, and return the file."""
    path = results / store.FOLDER / NIGHTS / f"{record.machine}{store.SUFFIX}"
    replace_text(path, store.as_text(record))
    return path


def read(results: Path) -> tuple[tuple[KeptVerdict, ...], tuple[str, ...]]:
    """Return the recorded verdicts, the newest first, and a line for each file with an error."""
    records, problems = store.read_folder(results / store.FOLDER / NIGHTS, KeptVerdict)
    return tuple(sorted(records, key=lambda record: (-record.when.timestamp(), record.machine))), problems


def memory_of(results: Path, machine: str, since: float) -> tuple[Memory, tuple[str, ...]]:
    """Return what a machine's last night left to the one that began at a Unix time, s, and the lines of `read`."""
    records, problems = read(results)
    nights = (record for record in records if record.machine == machine and record.when.timestamp() < since)
    return next((record.memory for record in nights), NOTHING), problems
