"""Sessions' ceilings, where they are kept: asv's results of `device.*`, and what `kv peaks` measured.

The first are the history (one value a commit, measured in each session of `make track`); the second are there without
one, in `.asv/cache/peaks/<device>/<Unix time in ms>.json`. No session is in both.

How the ceilings of a device moved from session to session. Pure; base units.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernel_velocity import bounds
from kernel_velocity.files import replace_text
from kernel_velocity.harness.cases import DEVICES
from kernel_velocity.harness.device_figures import ID, UNITS, device_id, doubts, figures, version
from kernel_velocity.harness.reported import data_caches, threads
from kernel_velocity.roofline.roofs import LOWER_IS_BETTER, SESSIONS, CeilingSession, is_rate, of_newest, roof

Document = Mapping[str, Any]

MOVED = 0.05  # relative: a ceiling repeats to about 2% on a quiet machine, and a roof's error is allowed as much
COUNTED = ("threads", ID)  # figures that say what was measured, and are no ceilings


def keep(root: Path, document: Document) -> Path:
    """Write what `peaks` measured now; return the file."""
    path = _folder(root, document["device"]) / f"{time.time_ns() // 1_000_000}.json"
    replace_text(path, json.dumps({**document, "node": os.uname().nodename}, indent=1) + "\n")
    return path


def newest_document(root: Path, device: str) -> tuple[float, dict[str, Any]] | None:
    """Return the newest document that `peaks` kept of this node, and its Unix time, s; None: there is none."""
    return next(_documents(root, device), None)


def sessions(
    root: Path, device: str, results: Path | None = None, machine: str | None = None, name: str | None = None
) -> list[CeilingSession]:
    """Return the sessions of one device of this machine, with as many threads as KV_THREADS says, oldest first.

    A machine may have several GPUs, get another one, or be several machines of one name. Sessions that were recorded
    before it was stored which device they are of count as of any.

    A file that cannot be read is passed over: it is a measurement that can be made again.

    Args:
        root: the folder of asv.conf.json, or any other that has `.asv`. device: "cpu" or "cuda".
        results: asv's results directory; None: `root/results`. machine: asv's name of this machine; None: the host's.
        name: of the device, as `reported.name` says it; None: that of the newest session.
    """
    folder = (root / "results" if results is None else results) / (machine or os.uname().nodename)
    kept = measured_here(root, device)
    # of a GPU's caches its driver is asked through torch, which is not here
    reported = data_caches("cpu") if device == "cpu" else {}
    found = [each for each in (*kept, *recorded(folder, device, reported)) if _has_our_threads(each, device)]
    found.sort(key=lambda each: each.began)
    known = [number for each in found if (number := each.figures.get(ID)) is not None]
    ours = device_id(name) if name is not None else known[-1] if known else None
    return [each for each in found if each.figures.get(ID) in (ours, None)]


def known(results: Path, root: Path, machine: str, device: str) -> tuple[CeilingSession, ...]:
    """Return every session of a machine's device that is known, oldest first, whatever its threads.

    Those that asv recorded and, of the machine that this runs on, those of `kv peaks`.

    Args:
        results: asv's results directory. root: as `sessions` takes it. device: "Cpu" or "Cuda".
    """
    found = [*recorded(results / machine, device.lower())]
    if machine == (os.environ.get("KV_MACHINE") or os.uname().nodename):
        found += measured_here(root, device.lower())
    return tuple(sorted(found, key=lambda session: session.began))


def measured_here(root: Path, device: str) -> Iterator[CeilingSession]:
    """Yield the sessions that `peaks` kept of this node, newest first; `root` as `sessions` takes it."""
    for began, document in _documents(root, device):
        yield session_of(document, began)


def session_of(document: Document, began: float) -> CeilingSession:
    """Return the session of a whole document, which began at that Unix time, s."""
    return CeilingSession(
        began=began,
        figures={figure.name: figure.value for figure in figures(document)},
        reported=document["reported"].get("caches", {}),
        warnings=doubts(document),
    )


def _has_our_threads(session: CeilingSession, device: str) -> bool:
    return device != "cpu" or session.figures.get("threads") == threads()


def _folder(root: Path, device: str) -> Path:
    return root / ".asv" / "cache" / "peaks" / device


def _documents(root: Path, device: str) -> Iterator[tuple[float, dict[str, Any]]]:
    """Yield the times, s, and documents that `peaks` kept of this node, newest first.

    A checkout may be on a disk that many nodes share.
    """
    paths = sorted(_folder(root, device).glob("*.json"), key=lambda path: path.stem.zfill(20), reverse=True)
    for path in paths:
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            figures(document)
            ours = document["node"] == os.uname().nodename
            began = int(path.stem) * 1e-3
        except (OSError, ValueError, LookupError, TypeError):
            continue
        if ours:
            yield began, document


def recorded(folder: Path, device: str, reported: Mapping[str, int] | None = None) -> Iterator[CeilingSession]:
    """Yield the sessions of a machine's results files.

    A row that says nothing is left out; `asv_results.read_file` has a note of it.

    Args:
        folder: of the machine, in asv's results directory. device: "cpu" or "cuda".
        reported: sizes of its caches as its OS says, bytes; None: it is another machine, or nobody knows.
    """
    prefix = f"device.{DEVICES[device]}.track_"
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        try:
            text = path.read_bytes()  # few say anything of it: the others are not even decoded
            is_told = prefix.encode() in text
            data = json.loads(text.decode("utf-8")) if is_told else {"results": {}, "result_columns": []}
            rows = {
                name.removeprefix(prefix): dict(zip(data["result_columns"], row, strict=False))
                for name, row in data["results"].items()
                if name.startswith(prefix) and isinstance(row, list)
            }
            commit = str(data.get("commit_hash", ""))
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            continue
        found = {name: _value(row) for name, row in rows.items() if row.get("version") == version(device, name)}
        known = {name: value for name, value in found.items() if name in UNITS[device]}
        began = max((when for row in rows.values() if (when := _began(row)) is not None), default=None)
        if began is not None and any(value is not None for value in known.values()):
            yield CeilingSession(began=began, figures=known, reported=reported or {}, commit=commit)


def _value(row: Mapping[str, Any]) -> float | None:
    """Return the one value of a row; None for asv's null (could not be measured), NaN (does not apply), and no rate."""
    values = row.get("result")
    value = values[0] if isinstance(values, list) and len(values) == 1 else None
    return float(value) if bounds.is_number(value) and value > 0 else None


def _began(row: Mapping[str, Any]) -> float | None:
    """Return when asv began a row, Unix time, s, as it says in ms; a time that no calendar has tells the order."""
    began = row.get("started_at")
    return began * 1e-3 if bounds.is_number(began) and began else None


def names(device: str) -> tuple[str, ...]:
    """Return the ceilings of "cpu" or "cuda" in the order in which they are shown."""
    return tuple(name for name in UNITS[device] if name not in COUNTED)


def ratios(sessions: Sequence[CeilingSession], name: str) -> list[float | None]:
    """Return each session's figure over the median of those of up to SESSIONS sessions before it (oldest first).

    None where it, or all before it, could not be measured.
    """
    found: list[float | None] = []
    before: list[float] = []
    for session in sessions:
        value = session.figures.get(name)
        usual = statistics.median(before[-SESSIONS:]) if before else None
        found.append(None if value is None or not usual else value / usual)
        before += [] if value is None else [value]
    return found


def has_moved(ratio: float | None) -> bool:
    """Return whether a ceiling is away from where it was by more than MOVED, up or down."""
    return ratio is not None and not 1 / (1 + MOVED) <= ratio <= 1 + MOVED


def why(name: str, count: int) -> str:
    """Return how a roof is made of so many sessions that could measure it."""
    if not count:
        return ""
    if count == 1:
        return "the only session"
    of_rates = "upper quartile" if is_rate(name) else "median"
    kind = "lower quartile" if name in LOWER_IS_BETTER else of_rates
    return f"{kind} of {'the last ' if count == SESSIONS else ''}{count} sessions"


def columns(sessions: Sequence[CeilingSession], device: str) -> dict[str, Any]:
    """Return sessions of "cpu" or "cuda", oldest first, as columns in base units, with the roofs; {} for none."""
    if not sessions:
        return {}
    used = of_newest(sessions)
    return {
        "units": dict(UNITS[device]),
        "began": [session.began for session in sessions],
        "commit": [session.commit or None for session in sessions],
        "figures": {name: [session.figures.get(name) for session in sessions] for name in UNITS[device]},
        "roof": {name: roof(used, name) for name in names(device)},
    }
