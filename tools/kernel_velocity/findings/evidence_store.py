"""Evidence as files: `results/findings/evidence/<finding>/<machine>.json`, a line for each re-run and each bisection.

One file for each finding and machine: two machines that confirm the same finding in the same night write different
files, and their branches merge without a conflict. Times are in seconds, to DIGITS digits. What is in a file is checked
when it is read; an error says where it stands, and what to do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from kernel_velocity.bounds import LEAST, MOST, is_number, is_time
from kernel_velocity.errors import ResultsError
from kernel_velocity.files import replace_text
from kernel_velocity.findings import evidence
from kernel_velocity.findings.evidence import Evidence, Look, Purpose, Rerun, Side, Tried
from kernel_velocity.findings.store import FOLDER as FINDINGS
from kernel_velocity.results.identity import Identity
from kernel_velocity.stats.sequential import Answer

FORMAT = 1  # of the files; raised when a reader of the old ones would go wrong
FOLDER = "evidence"  # in the folder of the findings
DIGITS = 7  # of a time: a hundredth of what the quietest series scatters by
_IDENTITY = tuple(field.name for field in fields(Identity))
Value = TypeVar("Value")


def path_of(results: Path, finding: str, machine: str) -> Path:
    """Return the file of what a machine has of a finding (its id)."""
    return results / FINDINGS / FOLDER / finding / f"{machine}.json"


def add(results: Path, finding: str, machine: str, new: Evidence) -> Path:
    """Add evidence to what is kept of a finding; return the file.

    Raises:
        ResultsError: what is kept cannot be read. It is not replaced.
    """
    path = path_of(results, finding, machine)
    known = _read_file(path) if path.exists() else Evidence()
    text = as_text(evidence.joined(known, new))
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        replace_text(path, text)
    return path


def read(results: Path, finding: str) -> tuple[dict[str, Evidence], tuple[str, ...]]:
    """Return what is kept of a finding, by machine, and a line for each file that cannot be read."""
    found, problems = {}, []
    folder = results / FINDINGS / FOLDER / finding
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        try:
            found[path.stem] = _read_file(path)
        except ResultsError as error:
            problems.append(str(error))
    return found, tuple(problems)


def as_text(item: Evidence) -> str:
    """Return the file of evidence."""
    parts = [f'"format": {FORMAT}', f'"left_out": {item.left_out}']
    for name, lines in (("reruns", map(_rerun, item.reruns)), ("paths", map(_path, item.paths))):
        texts = [json.dumps(line, ensure_ascii=True, allow_nan=False) for line in lines]
        parts.append(f'"{name}": [\n' + ",\n".join(texts) + "\n]" if texts else f'"{name}": []')
    return "{" + ",\n".join(parts) + "}\n"


def _digits(values: Sequence[float]) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]


def _rerun(item: Rerun) -> dict[str, Any]:
    return {
        **_series(item.identity),
        "purpose": item.purpose.value,
        "before": item.before,
        "after": item.after,
        "commits": list(item.commits),
        "answer": item.answer.value,
        "reason": item.reason,
        "floor": item.floor,
        "code": list(item.code),
        "looks": [asdict(look) | {"answer": look.answer.value} for look in item.looks],
        "sides": [
            {
                "began": [round(time, 2) for time in side.began],
                "seconds": _digits(side.seconds),
                "adjusted": _digits(side.adjusted),
                "flags": [" ".join(flags) for flags in side.flags],
            }
            for side in item.sides
        ],
    }


def _path(item: evidence.Path) -> dict[str, Any]:
    return {
        **_series(item.identity),
        "good": item.good,
        "bad": item.bad,
        "tried": [asdict(step) | {"answer": step.answer.value} for step in item.tried],
        "left": list(item.left),
        "reason": item.reason,
    }


def _series(identity: Identity) -> dict[str, str]:
    return {name: getattr(identity, name) for name in _IDENTITY}


def _read_file(path: Path) -> Evidence:
    """Return the evidence of a file.

    Raises:
        ResultsError: it is none.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # ValueError: not JSON, or not UTF-8
        what = "empty" if path.is_file() and not path.stat().st_size else f"not JSON ({error})"
        raise ResultsError(f"{path}: {what}: restore it, or remove it: the finding stands without it") from None
    return parse(raw, str(path))


def parse(raw: object, where: str) -> Evidence:
    """Return the evidence of a file's object; `where` is the file's name.

    Raises:
        ResultsError: it is none; the message names file and entry.
    """
    whole = _Entry(raw, f"{where}: ", "the file")
    if whole.get("format", int) != FORMAT:
        whole.refuse("format", f"{FORMAT}, or a newer kernel-velocity,")
    return Evidence(
        reruns=tuple(_parse_rerun(item) for item in whole.entries("reruns")),
        paths=tuple(_parse_path(item) for item in whole.entries("paths")),
        left_out=whole.get("left_out", int),
    )


@dataclass(frozen=True)
class _Entry:
    """An object of the file, whose values are checked as they are taken."""

    raw: Any
    within: str  # where it stands, before the name of a key: "file.json: reruns[2]."
    name: str  # of itself

    def refuse(self, key: str, wanted: str) -> NoReturn:
        """Raise ResultsError for a key: where it stands, what is wanted, what it is."""
        got = repr(self.raw[key])[:60] if isinstance(self.raw, Mapping) and key in self.raw else "nothing"
        raise ResultsError(f"{self.within}{key}: {wanted} is wanted, got {got}; restore the file, or remove it")

    def value(self, key: str) -> Any:
        """Return whatever a key has; None for a missing one."""
        if not isinstance(self.raw, Mapping):
            raise ResultsError(f"{self.within}{self.name}: an object is wanted, got {str(self.raw)[:60]!r}")
        return self.raw.get(key)

    def get(self, key: str, kind: type[Value]) -> Value:
        """Return a text, a boolean or a whole number."""
        found = self.value(key)
        if not isinstance(found, kind) or (kind is int and (isinstance(found, bool) or found < 0)):  # type: ignore[operator]  # an int
            self.refuse(key, {str: "a text", int: "a whole number"}.get(kind, kind.__name__))
        return found

    def number(self, key: str, *, positive: bool = False) -> float:
        """Return a finite number."""
        found = self.value(key)
        if not is_number(found) or (positive and not LEAST <= found <= MOST):
            self.refuse(key, f"a number from {LEAST:g} to {MOST:g}" if positive else "a number")
        return float(found)

    def known_number(self, key: str) -> float | None:
        """Return a finite number; None for null."""
        return None if self.value(key) is None else self.number(key)

    def choice(self, key: str, kind: Callable[[str], Value]) -> Value:
        """Return a member of an enumeration."""
        try:
            return kind(self.value(key))
        except ValueError:
            self.refuse(key, "one of the words that are written here")

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of texts."""
        found = self.value(key)
        if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
            self.refuse(key, "a list of texts")
        return tuple(found)

    def times(self, key: str) -> tuple[float, ...]:
        """Return a list of times, s."""
        found = self.value(key)
        if not isinstance(found, list) or not all(map(is_time, found)):
            self.refuse(key, f"a list of numbers from {LEAST:g} to {MOST:g}")
        return tuple(map(float, found))

    def entries(self, key: str) -> list[_Entry]:
        """Return a list of objects."""
        found = self.value(key)
        if not isinstance(found, list):
            self.refuse(key, "a list of objects")
        names = [f"{key}[{number}]" for number in range(len(found))]
        return [_Entry(item, f"{self.within}{name}.", f"({name})") for name, item in zip(names, found, strict=True)]


def _parse_rerun(entry: _Entry) -> Rerun:
    sides = [_parse_side(item) for item in entry.entries("sides")]
    if len(sides) != 2 or len(sides[0].seconds) != len(sides[1].seconds):
        entry.refuse("sides", "two sides with as many rounds of one as of the other")
    return Rerun(
        identity=_parse_identity(entry),
        purpose=entry.choice("purpose", Purpose),
        before=entry.get("before", str),
        after=entry.get("after", str),
        commits=entry.texts("commits"),
        answer=entry.choice("answer", Answer),
        reason=entry.get("reason", str),
        floor=entry.number("floor"),
        sides=(sides[0], sides[1]),
        looks=tuple(_parse_look(item) for item in entry.entries("looks")),
        code=_parse_code(entry),
    )


def _parse_code(entry: _Entry) -> tuple[str | None, str | None]:
    found = entry.value("code")
    if not isinstance(found, list) or len(found) != 2 or not all(isinstance(item, str | None) for item in found):
        entry.refuse("code", "a list of two hashes, null where unknown,")
    return found[0], found[1]


def _parse_side(entry: _Entry) -> Side:
    side = Side(
        began=entry.times("began"),
        seconds=entry.times("seconds"),
        adjusted=entry.times("adjusted"),
        flags=tuple(tuple(text.split()) for text in entry.texts("flags")),
    )
    lengths = {len(side.began), len(side.seconds), len(side.flags), len(side.adjusted) or len(side.seconds)}
    if len(lengths) > 1:
        entry.refuse("seconds", "as many rounds in each of began, seconds, flags and adjusted")
    return side


def _parse_look(entry: _Entry) -> Look:
    ratios = {name: entry.number(name, positive=True) for name in ("ratio", "low", "high", "least", "most")}
    return Look(rounds=entry.get("rounds", int), p=entry.number("p"), answer=entry.choice("answer", Answer), **ratios)


def _parse_path(entry: _Entry) -> evidence.Path:
    return evidence.Path(
        identity=_parse_identity(entry),
        good=entry.get("good", str),
        bad=entry.get("bad", str),
        tried=tuple(_parse_tried(item) for item in entry.entries("tried")),
        left=entry.texts("left"),
        reason=entry.get("reason", str),
    )


def _parse_tried(entry: _Entry) -> Tried:
    numbers = {name: entry.known_number(name) for name in ("ratio", "low", "high", "p")}
    return Tried(
        commit=entry.get("commit", str),
        slow=None if entry.value("slow") is None else entry.get("slow", bool),
        answer=entry.choice("answer", Answer),
        reason=entry.get("reason", str),
        rounds=entry.get("rounds", int),
        **numbers,
    )


def _parse_identity(entry: _Entry) -> Identity:
    return Identity(**{name: entry.get(name, str) for name in _IDENTITY})
