"""What a run on a node has done already: one small file, so that a slice goes on where the last one was cut off."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kernel_velocity.files import replace_text

NAME = "state.json"


@dataclass(frozen=True)
class Done:
    """Something that ended: its exit status, and what was asked for when it ran; asked otherwise, it runs again."""

    status: int
    asked: str


@dataclass(kw_only=True)
class State:
    """What was finished in all slices so far."""

    path: Path
    stages: dict[str, Done] = field(default_factory=dict)
    commits: dict[str, dict[str, Done]] = field(default_factory=dict)  # tier -> commit
    seconds: dict[str, float] = field(default_factory=dict)  # tier -> s that one commit took
    slices: int = 0  # begun
    machine: str | None = None  # whose results these are
    notes: list[str] = field(default_factory=list)  # what a reader of the results must know

    def save(self) -> None:
        """Write the file."""
        data = {key: value for key, value in asdict(self).items() if key != "path"}
        replace_text(self.path, json.dumps(data, indent=1) + "\n")

    def finish(self, stage: str, done: Done) -> None:
        """Note that a stage need not be run again."""
        self.stages[stage] = done
        self.save()

    def finish_commits(self, tier: str, commits: Iterable[str], done: Done, seconds: float) -> None:
        """Note that these commits are measured, and what each of them cost."""
        self.commits.setdefault(tier, {}).update(dict.fromkeys(commits, done))
        self.seconds[tier] = seconds
        self.save()

    def has(self, stage: str, asked: str) -> bool:
        """Return whether a stage has ended, as it is asked for now."""
        return stage in self.stages and self.stages[stage].asked == asked

    def has_commit(self, tier: str, commit: str, asked: str) -> bool:
        """Return whether a commit is measured, as it is asked for now."""
        done = self.commits.get(tier, {}).get(commit)
        return done is not None and done.asked == asked


def load(folder: Path) -> State:
    """Return the state in a folder; a fresh one where there is none, or none that can be read: stages run again."""
    path = folder / NAME
    try:
        return _from(path, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return State(path=path)


def _from(path: Path, data: dict[str, Any]) -> State:
    return State(
        path=path,
        stages={name: Done(**done) for name, done in data["stages"].items()},
        commits={
            tier: {sha: Done(**done) for sha, done in commits.items()} for tier, commits in data["commits"].items()
        },
        seconds=data["seconds"],
        slices=data["slices"],
        machine=data["machine"],
        notes=data["notes"],
    )
