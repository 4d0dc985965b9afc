"""Brings a cache up to date with a results directory: only files that changed since they were read are read again."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kernel_velocity.results import failures
from kernel_velocity.results import reader as asv_results
from kernel_velocity.results import sessions as session_facts
from kernel_velocity.results.records import Benchmark, Machine
from kernel_velocity.series import parallel as reading_apart
from kernel_velocity.series.cache import Cache, Kept

_BESIDE = (".jsonl", failures.SUFFIX, session_facts.SUFFIX)  # in the folder `telemetry`, of the same stem


@dataclass(frozen=True, kw_only=True)
class Found:
    """A results directory, but for its values."""

    benchmarks: Mapping[str, Benchmark] | None  # None: benchmarks.json cannot be read
    machines: tuple[Machine, ...]
    commits: Mapping[str, str]  # path of a results file that could be read -> full SHA, in the order of reading
    notes: tuple[str, ...]
    hardware: Mapping[str, Mapping[str, str]]  # path -> what asv says that it ran on, of `commits`
    signatures: Mapping[str, str]  # path -> what changes with the file and with what lies beside it, of `commits`
    read: tuple[str, ...]  # paths of the results files that were read; the others were known

    def hardware_of(self, machine: str) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Yield (full SHA, hardware) of the results files of a machine."""
        for path, facts in self.hardware.items():
            if path.rpartition("/")[0] == machine:
                yield self.commits[path], facts


def update(cache: Cache, results: Path) -> Found:
    """Read what changed, forget what is gone; `cache.save` makes it last.

    Raises:
        ResultsError: `results` is no directory.
    """
    known = cache.files()
    notes: dict[str, tuple[str, ...]] = {}  # of machines, by folder, and of files, by path: in the order of reading
    commits: dict[str, str] = {}
    hardware: dict[str, Mapping[str, str]] = {}
    machines: list[Machine] = []
    signatures: dict[str, str] = {}
    changed: list[Path] = []
    for folder, paths in asv_results.folders(results):
        own: list[str] = []
        machines.append(asv_results.read_machine(folder, own))
        notes[folder.name] = tuple(own)
        looks, beside = _looks(folder), _looks(folder / "telemetry")
        for path in paths:
            signature, kept = _signature(path, looks, beside), known.pop(_name(path), None)
            notes[_name(path)] = () if kept is None else kept.notes
            commits[_name(path)] = "" if kept is None else kept.commit
            hardware[_name(path)] = {} if kept is None else kept.hardware
            signatures[_name(path)] = signature
            if kept is None or kept.signature != signature:
                changed.append(path)
    for name in known:
        cache.remove(name)
    for read in reading_apart.read(tuple(changed), cache.names):
        name = _name(read.path)
        kept = Kept(signature=signatures[name], commit=read.commit, notes=read.notes, hardware=dict(read.hardware))
        cache.put(name, kept, read.packed)
        notes[name], commits[name], hardware[name] = kept.notes, kept.commit, kept.hardware
    last: list[str] = []
    readable = {name: sha for name, sha in commits.items() if sha}
    benchmarks = asv_results.read_benchmarks(results / "benchmarks.json", last) if readable else {}
    return Found(
        benchmarks=benchmarks,
        machines=tuple(machines),
        commits=readable,
        notes=(*(note for several in notes.values() for note in several), *last),
        hardware={name: hardware[name] for name in readable},
        signatures={name: signatures[name] for name in readable},
        read=tuple(_name(path) for path in changed),
    )


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _looks(folder: Path) -> dict[str, str]:
    """Return what says that a file is still the one that was read, by name; ctime changes whatever else is kept."""
    if not folder.is_dir():
        return {}
    with os.scandir(folder) as listed:
        found = {}
        for entry in listed:
            about = entry.stat()
            found[entry.name] = f"{about.st_size} {about.st_mtime_ns} {about.st_ctime_ns} {about.st_ino}"
    return found


def _signature(path: Path, looks: Mapping[str, str], beside: Mapping[str, str]) -> str:
    return "|".join([looks.get(path.name, ""), *(beside.get(f"{path.stem}{suffix}", "") for suffix in _BESIDE)])
