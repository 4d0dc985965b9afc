"""The newest verdict of each machine's nights, kept for the pages: `results/findings/nights/<machine>.toml`.

Below the findings, because the branch `results` carries them from machine to machine; not JSON, because asv takes every
such file below its results for one of its own. The findings themselves are files of their own: this is what was said.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import tomli_w

from kernel_velocity.errors import ResultsError
from kernel_velocity.files import replace_text
from kernel_velocity.findings import verdict_text
from kernel_velocity.findings.store import FOLDER, SUFFIX, load
from kernel_velocity.findings.verdict import Failed, Verdict, exit_status

NIGHTS = "nights"  # in the folder of the findings
LISTED = 20  # failures that are kept by name; all are counted


@dataclass(frozen=True, kw_only=True)
class KeptVerdict:
    """What a machine's newest night said."""

    machine: str
    when: datetime  # with a time zone
    summary: str  # one line
    exit_status: int  # of contract.md
    measured: int  # series
    failures: tuple[str, ...] = ()  # benchmarks and builds that failed, at most LISTED, and why


def of(verdict: Verdict, machine: str) -> KeptVerdict:
    """Return what is kept of a night's verdict."""
    return KeptVerdict(
        machine=machine,
        when=verdict.when,
        summary=verdict_text.summary(verdict),
        exit_status=exit_status(verdict),
        measured=verdict.measured,
        failures=tuple(_line(item) for item in (*verdict.failed_builds, *verdict.failures)[:LISTED]),
    )


def _line(item: Failed) -> str:
    return f"{item.what}: {item.why}"


def write(results: Path, kept: KeptVerdict) -> Path:
    """Keep a verdict in the place of the machine's last one; the file is never seen half written."""
    path = results / FOLDER / NIGHTS / f"{kept.machine}{SUFFIX}"
    text = tomli_w.dumps(asdict(kept) | {"failures": list(kept.failures)})
    replace_text(path, text.encode("utf-8", "replace").decode("utf-8"))  # what a benchmark printed may be anything
    return path


def read(results: Path) -> tuple[tuple[KeptVerdict, ...], tuple[str, ...]]:
    """Return the kept verdicts, the newest first, and a line for each file that is none."""
    folder = results / FOLDER / NIGHTS
    found, problems = [], []
    for path in sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []:
        try:
            found.append(parse(path.read_text(encoding="utf-8"), path))
        except UnicodeDecodeError as error:
            problems.append(f"{path}: not UTF-8 at byte {error.start}")
        except ResultsError as error:
            problems.append(str(error))
    return newest_first(found), tuple(problems)


def newest_first(kept: Iterable[KeptVerdict]) -> tuple[KeptVerdict, ...]:
    """Return verdicts by when they were given, the newest first."""
    return tuple(sorted(kept, key=lambda item: (-item.when.timestamp(), item.machine)))


def parse(text: str, path: Path) -> KeptVerdict:
    """Return the verdict of a file.

    Raises:
        ResultsError: it is none; with line and column.
    """
    table = load(text, path)
    table.check({"machine", "when", "summary", "exit_status", "measured", "failures"})
    return KeptVerdict(
        machine=table.get("machine", str),
        when=table.time("when"),
        summary=table.get("summary", str),
        exit_status=table.get("exit_status", int),
        measured=table.get("measured", int),
        failures=table.texts("failures"),
    )
