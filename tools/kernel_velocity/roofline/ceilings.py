"""Read and write the ceilings of sessions, tell how they moved from session to session, print them. Base units.

They are in two places: asv's results of `device.*`, one value a commit, measured in each session of `kv track`, and
the documents of `kv peaks` in `.asv/cache/peaks/<device>/<Unix time in ms>.json`. No session is in both.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernel_velocity import bounds, documents, units
from kernel_velocity.engine.reported import data_caches, threads
from kernel_velocity.files import replace_text
from kernel_velocity.machine.device_figures import ID, PEAK, UNITS, device_id, figures, version
from kernel_velocity.names import DEVICES
from kernel_velocity.roofline.roofs import LOWER_IS_BETTER, SESSIONS, THREADS, CeilingSession, is_rate, roof
from kernel_velocity.suite import config
from kernel_velocity.tables import Table, aligned

Document = Mapping[str, Any]

CEILING_MOVED = 0.05  # relative: a ceiling repeats to about 2% on a quiet machine, and a roof may be off by as much
CONDITIONS = (THREADS, ID)  # figures that identify the measured device, and are no ceilings
WEAK = """weak: a cache's bandwidth, as nobody knows for certain which level holds a set
a time above a roof is doubted; a round fails only beyond limits that rounds measure for themselves"""


def keep(root: Path, document: Document) -> Path:
    """Write a document that `kv peaks` measured now. Return its file."""
    path = _folder(root, document["device"]) / f"{time.time_ns() // 1_000_000}.json"
    text = json.dumps({**document, "node": os.uname().nodename}, indent=1)
    replace_text(path, documents.with_checksum(text) + "\n")
    return path


def sessions(root: Path, device: str, machine: str | None = None, name: str | None = None) -> list[CeilingSession]:
    """Return the sessions of one device of this machine with KV_THREADS threads, oldest first.

    A machine may have several GPUs, get another one, or be several machines of one name. A recorded session without a
    device belongs to any device. An unreadable file is skipped, because its measurement can be repeated.

    Args:
        root: the folder of asv.conf.json, or any other that has `.asv`. device: "cpu" or "cuda".
        machine: asv's name of this machine. None: the host's.
        name: of the device (`reported.name`). None: that of the newest session.
    """
    folder = root / config.results_dir(root) / (machine or os.uname().nodename)
    paths = sorted(folder.glob("*.json")) if folder.is_dir() else []
    # a GPU's caches are known through torch, which is not imported here
    reported = data_caches("cpu") if device == "cpu" else {}
    every = sorted(
        (*measured_here(root, device), *recorded(paths, device, reported)), key=lambda session: session.began
    )
    comparable = [session for session in every if device != "cpu" or session.figures.get(THREADS) == threads()]
    ids = [number for session in comparable if (number := session.figures.get(ID)) is not None]
    wanted = device_id(name) if name is not None else ids[-1] if ids else None
    return [session for session in comparable if session.figures.get(ID) in (wanted, None)]


def of_machine(paths: Iterable[Path], root: Path, machine: str, device: str) -> tuple[CeilingSession, ...]:
    """Return every session of a machine's device, oldest first, of any number of threads.

    Sessions of `kv peaks` are included for the machine that this runs on.

    Args:
        paths: the machine's results files that may have some. root: as in `sessions`. device: "Cpu" or "Cuda".
    """
    every = [*recorded(paths, device.lower())]
    if machine == (os.environ.get("KV_MACHINE") or os.uname().nodename):
        every += measured_here(root, device.lower())
    return tuple(sorted(every, key=lambda session: session.began))


def session_of(document: Document, began: float) -> CeilingSession:
    """Return the session of a document that began at a Unix time, s."""
    return CeilingSession(
        began=began,
        figures={name: ceiling.value for name, ceiling in figures(document).items()},
        reported=document["reported"].get("caches", {}),
        warnings=tuple(document["warnings"]),
    )


def _folder(root: Path, device: str) -> Path:
    return root / ".asv" / "cache" / "peaks" / device


def measured_here(root: Path, device: str) -> Iterator[CeilingSession]:
    """Yield the sessions of `kv peaks` on this node, newest first. `root` as in `sessions`.

    Documents of other nodes are skipped: many nodes may share the disk of a checkout. So are damaged ones, and those of
    before there were checksums.
    """
    paths = sorted(_folder(root, device).glob("*.json"), key=lambda path: path.stem.zfill(20), reverse=True)
    for path in paths:
        try:
            document = documents.read_checked(path)
            is_here = document["node"] == os.uname().nodename
            session = session_of(document, int(path.stem) * 1e-3)
        except (OSError, ValueError, LookupError):
            continue
        if is_here:
            yield session


def recorded(paths: Iterable[Path], device: str, reported: Mapping[str, int] | None = None) -> Iterator[CeilingSession]:
    """Yield the sessions of a machine's results files. A malformed row is left out.

    Args:
        paths: of the results files. device: "cpu" or "cuda".
        reported: sizes of its caches by name, bytes, as its OS reports them. None: unknown.
    """
    prefix = f"device.{DEVICES[device]}.track_"
    for path in paths:
        try:
            text = documents.contents_of(path)
            if prefix.encode() not in text:  # most files; decoding them would take the longest
                continue
            data = json.loads(text.decode("utf-8"))
            rows = {
                name.removeprefix(prefix): dict(zip(data["result_columns"], row, strict=False))
                for name, row in data["results"].items()
                if name.startswith(prefix) and isinstance(row, list)
            }
            commit = str(data.get("commit_hash", ""))
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            continue
        values = {
            name: _value(row)
            for name, row in rows.items()
            if name in UNITS[device] and row.get("version") == version(device, name)
        }
        # Unix times, ms. They order sessions, so any number will do
        starts = [start for row in rows.values() if bounds.is_number(start := row.get("started_at")) and start]
        if starts and any(number is not None for number in values.values()):
            yield CeilingSession(began=max(starts) * 1e-3, figures=values, reported=reported or {}, commit=commit)


def _value(row: Mapping[str, Any]) -> float | None:
    """Return the value of a row. None for asv's null (failed), NaN (does not apply), and anything not positive."""
    values = row.get("result")
    value = values[0] if isinstance(values, list) and len(values) == 1 else None
    return float(value) if bounds.is_number(value) and value > 0 else None


def names(device: str) -> tuple[str, ...]:
    """Return the names of the ceilings of "cpu" or "cuda", in display order."""
    return tuple(name for name in UNITS[device] if name not in CONDITIONS)


def ratios(sessions: Sequence[CeilingSession], name: str) -> list[float | None]:
    """Return each session's figure over the median of up to SESSIONS sessions before it (oldest first).

    None where the figure, or every earlier one, could not be measured.
    """
    result: list[float | None] = []
    before: list[float] = []
    for session in sessions:
        value = session.figures.get(name)
        baseline = statistics.median(before[-SESSIONS:]) if before else None
        result.append(None if value is None or not baseline else value / baseline)
        before += [] if value is None else [value]
    return result


def has_moved(ratio: float | None) -> bool:
    """Return whether a ratio of `ratios` is more than CEILING_MOVED away from 1."""
    return ratio is not None and not 1 / (1 + CEILING_MOVED) <= ratio <= 1 + CEILING_MOVED


def why(name: str, count: int) -> str:
    """Return the method by which a roof was computed from `count` sessions that measured it."""
    if not count:
        return ""
    if count == 1:
        return "the only session"
    of_rates = "upper quartile" if is_rate(name) else "median"
    kind = "lower quartile" if name in LOWER_IS_BETTER else of_rates
    return f"{kind} of {'the last ' if count == SESSIONS else ''}{count} sessions"


# The table of `kv peaks` ----------------------------------------------------------------------------------------------


def as_text(document: Mapping[str, Any], sessions: Sequence[CeilingSession]) -> str:
    """Return the printed table of a document that was measured now: columns, reasons of missing figures, warnings.

    Args:
        document: of `machine.ceilings.measure`. sessions: those that the roofs are over, this one included.
    """
    sizes = {f"{name.lower()}_size": size for name, size in document["reported"].get("caches", {}).items()}
    ceilings = {name: ceiling for name, ceiling in figures(document).items() if name != ID}
    units_of = UNITS[document["device"]]
    rows = [
        [
            figure_title(name),
            figure_text(ceiling.value, units_of[name], name),
            "-" if ceiling.spread is None else units.share(ceiling.spread),
            figure_text(roof(sessions, name), units_of[name], name),
            figure_text(sizes.get(name), units_of[name], name),
        ]
        for name, ceiling in ceilings.items()
    ]
    note = f"{document['name']}; the roof is the upper quartile of {units.count(len(sessions), 'session')}"
    notes = [
        WEAK,
        *(f"n/a: {figure_title(name)}: {ceiling.why}" for name, ceiling in ceilings.items() if ceiling.value is None),
        *(f"warning: {warning}" for warning in document["warnings"]),
    ]
    heads = ["ceiling", "measured", "spread", "roof", "reported"]
    return "\n".join([aligned(Table("Ceilings", note, heads, rows)), "", *notes])


def figure_title(name: str) -> str:
    """Return a figure's name as text: "DRAM copy bandwidth", "L2 size", "peak float32"."""
    first, *rest = name.split("_")
    return " ".join([first.upper() if first in ("dram", "l1", "l2", "l3") else first, *rest])


def figure_text(amount: float | None, unit: str, name: str) -> str:
    """Return an amount of the figure `name`, in base units of `unit`, as text with a readable unit. "-" for None."""
    if amount is None:
        return "-"
    if unit == "s":
        return units.seconds(amount)
    if unit == "B/s":
        return units.bandwidth(amount * 1e-9)
    if unit == "FLOP/s":
        return units.rate(amount * 1e-9, units.rate_unit(name.removeprefix(PEAK)))
    return size_text(amount) if unit == "B" else f"{amount:g}"


def size_text(amount: float) -> str:
    """Return a cache's size, bytes, with three digits: "32 KiB", "1 MiB" (from 999.5 KiB)."""
    prefix, scale = ("MiB", 1 << 20) if amount >= 999.5 * (1 << 10) else ("KiB", 1 << 10)
    return f"{amount / scale:.3g} {prefix}"
