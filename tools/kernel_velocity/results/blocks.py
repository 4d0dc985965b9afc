"""The record of a block: some commits of some lanes, measured by one machine of a fleet in one session.

A lane is a test case of a kernel, with all of its implementations. Blocks of a lane share anchor commits, whose times
in each block tell how the sessions differ. The results files store one time of a commit, so the anchors' times of
every block are here: `results/<machine>/runs/<stamp>/block.jsonl`, one line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kernel_velocity import fields
from kernel_velocity.documents import lines_of
from kernel_velocity.errors import ResultsError
from kernel_velocity.fields import Count, Measured, Moment, NotNegative

if TYPE_CHECKING:
    from kernel_velocity.results.asv_file import Series  # imports asv, .1 s that no report needs

NAME = "block.json"  # in the tar of a worker
RECORD = f"{NAME}l"  # in results/, as asv takes every .json of a machine's folder for a result
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class Time:
    """What a series took at an anchor."""

    commit: str
    benchmark: str
    params: tuple[str, ...]
    seconds: Measured  # per call, the median of its rounds
    error: NotNegative  # standard error of its logarithm
    rounds: Count
    # Medians of the fixed work that was timed beside the rounds, s, by its field of a round
    gauges: Mapping[str, Measured] = field(default_factory=dict, hash=False)

    @property
    def series(self) -> Series:
        """Return the series."""
        return self.benchmark, self.params


@dataclass(frozen=True, kw_only=True)
class Block:
    """One block."""

    machine: str
    lanes: tuple[str, ...]
    commits: tuple[str, ...]  # newest first, the anchors among them
    anchors: tuple[str, ...]
    rounds: Count
    began: Moment  # Unix time by the clock of the machine that runs the fleet, s: it orders blocks of all machines
    seconds: NotNegative  # that it took
    device: str  # what was measured, such as "NVIDIA H100 80GB HBM3"
    times: tuple[Time, ...]


def lane_of(series: Series) -> str:
    """Return the name of a series' lane: its kernel and test case."""
    name, params = series
    return f"{name.partition('.')[0]} {params[-1]}"


def encode(block: Block) -> str:
    """Return a block as one line."""
    return json.dumps({"format": FORMAT} | asdict(block)) + "\n"


def decode(text: str, where: str) -> Block:
    """Return the block of a line. `where` it is from begins the message of an error.

    Raises:
        ResultsError: it is no block, or of a newer format.
    """
    return fields.read(Block, text, where, range(1, FORMAT + 1), unchecked=FORMAT)


def read(results: Path, problems: list[str]) -> list[Block]:
    """Return the recorded blocks, in the order in which they were measured. Damaged ones are named in `problems`."""
    blocks = []
    for path in sorted(results.glob(f"*/runs/*/{RECORD}")):
        try:
            blocks.append(decode(lines_of(path), str(path)))
        except (OSError, ResultsError) as error:
            problems.append(f"{error}; left out")
    return sorted(blocks, key=lambda block: (block.began, block.machine))
