"""What a node's tar says of itself: which project, which commits, which machine."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kernel_velocity.errors import ResultsError

FORMAT = 1  # of the tar's layout; a reader refuses a higher one
PROJECT = "kernel-velocity"
SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_FOLDER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")  # as kernel_velocity.runner.track has it for the name of a machine


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The identity of what a node measured."""

    root: str  # SHA of the repository's first commit: what makes two clones the same project
    head: str  # SHA of the commit whose suite measured
    commits: tuple[str, ...]  # SHAs that were asked for
    machine: str  # the folder of results/ in the tar
    node: Mapping[str, object]  # facts of the machine (offline/facts.py)
    written: float  # Unix time, s

    @property
    def stamp(self) -> str:
        """When it was written, in UTC, as a folder is named after it: "20261121-180355"."""
        return datetime.fromtimestamp(self.written, UTC).strftime("%Y%m%d-%H%M%S")

    @property
    def gpus(self) -> frozenset[str]:
        """The models of its GPUs; empty where none was seen."""
        named = self.node.get("gpus")
        return frozenset(map(str, named)) if isinstance(named, list | tuple) else frozenset()

    def to_json(self) -> str:
        """Return the text of manifest.json: one line, so that it is a line of a .jsonl too."""
        data: dict[str, object] = {"format": FORMAT, "project": PROJECT, "root": self.root, "head": self.head}
        data |= {"commits": list(self.commits), "machine": self.machine, "node": dict(self.node)}
        return json.dumps(data | {"written": self.written}) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str) -> Manifest:
        """Return the manifest of a text.

        Args:
            text: manifest.json. where: the tar, for messages.

        Raises:
            ResultsError: not a manifest, another project's, or of a newer format.
        """
        try:
            data = json.loads(text)
        except ValueError as error:
            raise ResultsError(f"{where}: manifest.json: not JSON: {error}") from None
        if not isinstance(data, dict) or data.get("project") != PROJECT:
            got = data.get("project") if isinstance(data, dict) else data
            raise ResultsError(f"{where}: manifest.json: project {PROJECT!r} is wanted, got {str(got)[:60]!r}")
        _check_format(data.get("format"), where)
        for key, good in _CHECKS.items():
            if not good(data.get(key)):
                raise ResultsError(
                    f"{where}: manifest.json: {key}: {str(data.get(key, 'nothing'))[:60]!r} makes no sense"
                )
        return cls(
            root=data["root"],
            head=data["head"],
            commits=tuple(data["commits"]),
            machine=data["machine"],
            node=data["node"],
            written=float(data["written"]),
        )


def _check_format(number: Any, where: str) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ResultsError(f"{where}: manifest.json: format: a number from 1 on is wanted, got {str(number)[:60]!r}")
    if number > FORMAT:
        raise ResultsError(
            f"{where}: written in format {number} by a newer kernel-velocity, this one reads up to {FORMAT}: "
            "update this clone, then unpack again"
        )


def _is_sha(value: Any) -> bool:
    return isinstance(value, str) and SHA.fullmatch(value) is not None


def _is_time(value: Any) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 <= value < 253402300800  # no NaN either; the year 10000, where datetime ends
    )


_CHECKS = {
    "root": _is_sha,
    "head": _is_sha,
    "commits": lambda value: isinstance(value, list) and all(map(_is_sha, value)),
    "machine": lambda value: isinstance(value, str) and _FOLDER.fullmatch(value) is not None,
    "node": lambda value: isinstance(value, dict),
    "written": _is_time,
}
