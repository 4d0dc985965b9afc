"""Puts what a node's tar holds where it belongs in this clone, each file in one step.

What describes a result is written before the result: after an interruption at any point the next unpack still finds the
result missing, and finishes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asv.results import get_filename

from kernel_velocity import units
from kernel_velocity.errors import ResultsError
from kernel_velocity.files import replace_text
from kernel_velocity.harness import telemetry
from kernel_velocity.harness.stopping import from_environment, method_hash
from kernel_velocity.offline.manifest import Manifest
from kernel_velocity.results import failures, merging
from kernel_velocity.results import merge as rows
from kernel_velocity.results import sessions as session_facts
from kernel_velocity.results.merge import Cell, Row
from kernel_velocity.results.merging import Decode, MergedRow, Verdict
from kernel_velocity.results.sessions import SessionFacts

_DECODERS: tuple[tuple[str, Decode], ...] = (
    (".jsonl", telemetry.decode),
    (failures.SUFFIX, failures.decode),
)
METHOD = method_hash(from_environment({}), None)  # the suite's own, as it is measured by default
_NAMED = 3  # places that a line names before it says how many there are


@dataclass(frozen=True, kw_only=True)
class Placed:
    """What became of one results file of the tar."""

    path: Path  # the results file here
    taken: int  # series
    kept: int  # series that are as good here, or better
    changed: bool  # whether anything was written
    notes: tuple[str, ...]  # what a reader should know, one line each


@dataclass(frozen=True, kw_only=True)
class _Side:
    """A results file with its lines, here or in the tar."""

    results: Any  # asv's object
    rows: Mapping[str, Row]
    lines: Mapping[str, str]  # suffix -> text
    sessions: tuple[SessionFacts, ...] = ()


def results_file(theirs: Path, machine: Path, versions: Mapping[str, str]) -> Placed:
    """Merge one results file of the tar, with its telemetry, into a machine's folder.

    Args:
        theirs: the file, unpacked. machine: `results/<machine>`. versions: of each benchmark in the suite.

    Raises:
        ResultsError: it, or the one here, is not a results file, or they are of different commits.
    """
    there = _side(theirs)
    path = machine / theirs.name
    _check_name(theirs, there)
    there.results.params["machine"] = machine.name
    here = _side(path) if path.exists() else _Side(results=there.results, rows={}, lines={})
    if here.results.commit_hash != there.results.commit_hash:
        raise ResultsError(f"{path}: of commit {here.results.commit_hash}, the tar's is of {there.results.commit_hash}")
    merged = {
        name: merging.merge_rows(here.rows.get(name), row, versions.get(name), METHOD)
        for name, row in there.rows.items()
    }
    changed = not path.exists() or any(item.taken for item in merged.values())
    if changed:
        _write(path, here, there, merged)
    return _placed(path, there, merged, changed)


def _side(path: Path) -> _Side:
    results = rows.load(path)
    beside = path.parent / "telemetry"
    lines = {suffix: _text(beside / f"{path.stem}{suffix}") for suffix, _ in _DECODERS}
    rounds, failed = merging.rounds(lines[".jsonl"]), merging.told(lines[failures.SUFFIX])
    try:
        found = rows.rows(results, rounds, failed)
        return _Side(results=results, rows=found, lines=lines, sessions=session_facts.read(path, []))
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise ResultsError(f"{path}: its columns do not fit together: {type(error).__name__}: {error}") from None


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _check_name(theirs: Path, there: _Side) -> None:
    """Refuse a file whose name is not that of its commit and environment: it would be put into another's place."""
    results = there.results
    if Path(get_filename("node", str(results.commit_hash), results._env_name)).name != theirs.name:
        raise ResultsError(f"{theirs.name}: holds results of {results.commit_hash} in {results._env_name}: left out")


def _write(path: Path, here: _Side, there: _Side, merged: Mapping[str, MergedRow]) -> None:
    for name, item in merged.items():
        rows.put(here.results, name, item.row)
    taken = {rows.series(name, params) for name, item in merged.items() for params in item.taken}
    gone = {rows.series(name, params) for name, item in merged.items() for params in item.dropped}
    for suffix, decode in _DECODERS:
        before = here.lines.get(suffix, "")
        text = merging.merge_lines(before, there.lines[suffix], taken, decode, gone)
        _replace(path.parent / "telemetry" / f"{path.stem}{suffix}", text)
    _replace(session_facts.beside(path), session_facts.merged(here.sessions, there.sessions))
    replace_text(path, rows.text(here.results))


def _replace(path: Path, text: str) -> None:
    if text:
        replace_text(path, text)
    else:
        path.unlink(missing_ok=True)


def _placed(path: Path, there: _Side, merged: Mapping[str, MergedRow], changed: bool) -> Placed:
    verdicts = [
        verdict
        for name, item in merged.items()
        for params, verdict in item.verdicts.items()
        if _says_something(there.rows[name].cells[params])
    ]
    taken = verdicts.count(Verdict.TAKEN)
    notes = [f"{path.name}: {text}" for name, item in merged.items() for text in _notes(name, there.rows[name], item)]
    return Placed(path=path, taken=taken, kept=len(verdicts) - taken, changed=changed, notes=tuple(notes))


def _says_something(cell: Cell) -> bool:
    """Whether a series was tried: asv stores "does not apply" for those that were not asked for."""
    return cell.rank > (0, 0)


def _notes(name: str, there: Row, item: MergedRow) -> list[str]:
    lines = []
    for verdict, text in (
        (Verdict.FAILED, "failed on the node; the values here stay"),
        (Verdict.EQUAL, "as many rounds here and in the tar; what is here stays"),
        (Verdict.BETTER, "fewer rounds in the tar; what is here stays"),
        (Verdict.METHOD, "timed by another method; what is here stays"),
        (Verdict.VERSION, f"version {there.version} in the tar, {item.row.version} here; what is here stays"),
    ):
        found = [key for key, given in item.verdicts.items() if given is verdict and _says_something(there.cells[key])]
        if found:
            named = "; ".join(", ".join(rows.series(name, key)[1]) for key in found[:_NAMED])
            more = f" and {len(found) - _NAMED} more" if found[_NAMED:] else ""
            lines.append(f"{name}: {text} ({named}{more})")
    if item.replaced:
        lost = units.count(item.replaced, "value")
        lines.append(f"{name}: version {item.row.version} is the suite's: {lost} of another went with their row")
    return lines


def benchmarks(here: Mapping[str, object], theirs: Mapping[str, object], path: Path, *, tar_is_current: bool) -> int:
    """Write the benchmarks of both to benchmarks.json; return how many entries are new or another version's."""
    merged = merging.merge_benchmarks(here, theirs, tar_is_current=tar_is_current)
    changed = sum(here.get(name) != entry for name, entry in merged.items() if name != "version")
    if changed:
        replace_text(path, json.dumps(merged, indent=4, sort_keys=True) + "\n")
    return changed


def load_object(path: Path) -> dict[str, object]:
    """Return the object in a JSON file.

    Raises:
        ResultsError: it holds none.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # ValueError: not JSON, or not UTF-8
        raise ResultsError(f"{path}: an object in JSON is wanted: {error}") from None
    if not isinstance(data, dict):
        raise ResultsError(f"{path}: an object in JSON is wanted, got {str(data)[:60]!r}")
    return data


def run_folder(unpacked: Path, manifest: Manifest, machine: Path) -> tuple[Path, bool]:
    """Put the manifest and run/ beside the results; return their folder, and whether anything was written.

    asv takes every .json below a machine's folder for a result: these become .jsonl, of one line.
    """
    text = manifest.to_json()
    folder = _free(machine / "runs" / manifest.stamp, text)
    texts = {"manifest.jsonl": text}
    for path in sorted((unpacked / "run").rglob("*")):
        if path.is_file():
            name, said = _renamed(path, unpacked / "run")
            texts.setdefault(name, said)
    written = [name for name, said in texts.items() if _text(folder / name) != said or not (folder / name).exists()]
    for name in written:
        replace_text(folder / name, texts[name])
    return folder, bool(written)


def _free(folder: Path, manifest: str) -> Path:
    """Return the folder, or one beside it where another run of the same second is there."""
    number, found = 1, folder
    while (found / "manifest.jsonl").exists() and _text(found / "manifest.jsonl") != manifest:
        number += 1
        found = folder.with_name(f"{folder.name}-{number}")
    return found


def _renamed(path: Path, folder: Path) -> tuple[str, str]:
    """Return the name and the text under which a file of run/ is kept."""
    name, text = path.relative_to(folder).as_posix(), path.read_text(encoding="utf-8", errors="replace")
    if not name.endswith(".json"):
        return name, text
    try:
        line = json.dumps(json.loads(text)) + "\n"
    except ValueError:  # cut off on the node: kept as it is
        return f"{name}.txt", text
    return (f"{name}.txt", text) if path.with_suffix(".jsonl").exists() else (f"{name}l", line)


def local_files(source: Path, target: Path) -> int:
    """Move the files below a folder (on the same disk) below another; return how many."""
    found = [path for path in sorted(source.rglob("*")) if path.is_file()]
    for path in found:
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        path.replace(place)
    return len(found)
