"""The files of evidence: `results/findings/evidence/<finding>/<machine>.json`, a line for each re-run and bisection.

There is a file for each finding and machine, so that the branches of two machines merge without a conflict. Times are
in seconds, to DIGITS digits. A file is checked when it is read.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernel_velocity import fields
from kernel_velocity.errors import ResultsError
from kernel_velocity.files import replace_text
from kernel_velocity.findings import evidence, store
from kernel_velocity.findings.evidence import Evidence
from kernel_velocity.harness.documents import with_checksum

# Of the files; raised when a key is added, or a reader of the old ones would go wrong. From 2 on they have a checksum.
FORMAT = 3
FOLDER = "evidence"  # in the folder of the findings
DIGITS = 7  # of a time: a hundredth of what the quietest series scatters by
MOST_TEXT = 400  # characters of a reason


def path_of(results: Path, finding: str, machine: str) -> Path:
    """Return the file of a machine's evidence of a finding (its id)."""
    return results / store.FOLDER / FOLDER / finding / f"{machine}.json"


def add(results: Path, finding: str, machine: str, new: Evidence) -> Path:
    """Add evidence to the recorded one of a finding, and return the file.

    Raises:
        ResultsError: the recorded evidence cannot be read. It is not replaced.
    """
    path = path_of(results, finding, machine)
    text = as_text(evidence.joined(_read_file(path) if path.exists() else Evidence(), new))
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        replace_text(path, text)
    return path


def read(results: Path, finding: str) -> tuple[dict[str, Evidence], tuple[str, ...]]:
    """Return the recorded evidence of a finding, by machine, and a line for each file that cannot be read."""
    by_machine, problems = {}, []
    folder = results / store.FOLDER / FOLDER / finding
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        try:
            by_machine[path.stem] = _read_file(path)
        except ResultsError as error:
            problems.append(str(error))
    return by_machine, tuple(problems)


def _read_file(path: Path) -> Evidence:
    try:
        return fields.read(Evidence, path.read_bytes(), path, range(1, FORMAT + 1), unchecked=1)
    except OSError as error:
        raise ResultsError(f"{path}: {error.strerror}: the finding stands without it") from None
    except ResultsError as error:
        raise ResultsError(f"{error}; restore the file, or remove it: the finding stands without it") from None


def as_text(record: Evidence) -> str:
    """Return the file of evidence."""
    data = {"format": FORMAT, **as_data(record)}
    return with_checksum("{" + ",\n".join(f'"{key}": {_lines(value)}' for key, value in data.items()) + "}") + "\n"


def as_data(record: Evidence) -> dict[str, Any]:
    """Return evidence as plain data, with as many digits as the file has."""
    data: dict[str, Any] = fields.plain(record)
    for rerun in data["reruns"]:
        for side in itertools.chain(rerun["sides"], *rerun["earlier"]):
            side["began"] = [round(time, 2) for time in side["began"]]
            side |= {name: _digits(side[name]) for name in ("seconds", "adjusted")}
    for entry in (*data["reruns"], *data["paths"], *(step for path in data["paths"] for step in path["tried"])):
        entry["reason"] = entry["reason"][:MOST_TEXT]
    return data


def _digits(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]


def _lines(value: Any) -> str:
    """Return JSON with a line for each entry of a list."""
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n" + ",\n".join(json.dumps(entry, allow_nan=False) for entry in value) + "\n]"
