"""Print which tricks are found, and by what: `python -m tests.tricks [PART OF A NAME ...]`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.tricks.honest_code import HONEST
from tests.tricks.running import Outcome
from tests.tricks.table import TRICKS
from tests.tricks.verdicts import finding, run, run_honest


def main(parts: list[str]) -> int:
    """Print a line a trick: found or not, its honest twin, what found it. Return how many are not as they must be."""
    failures = 0
    for trick in TRICKS:
        if parts and not any(part in f"{trick.form} {trick.name}" for part in parts):
            continue
        with tempfile.TemporaryDirectory(prefix="tricks-") as folder:
            twin = run(Path(folder), trick, is_trick=False)
        with tempfile.TemporaryDirectory(prefix="tricks-") as folder:
            outcome = run(Path(folder), trick, is_trick=True)
        result = finding(trick, outcome)
        failures += result is None or bool(twin.refused)
        verdict = "found" if result else "PASSES"
        print(f"{verdict:7}{trick.form:8}{trick.name:62}{_in_words(outcome, twin)}", flush=True)
    for honest in HONEST:
        if parts and not any(part in f"honest {honest.name}" for part in parts):
            continue
        with tempfile.TemporaryDirectory(prefix="tricks-") as folder:
            outcome = run_honest(Path(folder), honest)
        failures += bool(outcome.refused)
        verdict = "REFUSED" if outcome.refused else "right"
        what = outcome.refused[:150] or f"{_time(outcome)}, flags: {', '.join(outcome.flags) or 'none'}"
        print(f"{verdict:8}{honest.name:85}{what}", flush=True)
    return failures


def _in_words(outcome: Outcome, twin: Outcome) -> str:
    what = outcome.refused or f"{_time(outcome)} against {_time(twin)}, flags: {', '.join(outcome.flags) or 'none'}"
    honest = f"; TWIN REFUSED: {twin.refused}" if twin.refused else ""
    return f"{what[:150]}{honest}"


def _time(outcome: Outcome) -> str:
    return "-" if outcome.seconds is None else f"{outcome.seconds * 1e6:.1f} us"


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
