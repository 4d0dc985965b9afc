"""Reads the telemetry beside asv's results: the rounds of one commit in one environment."""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness.telemetry import Round, TelemetryError, decode

_AXES = 2  # implementation, case (contract)


def read(path: Path, notes: list[str]) -> dict[tuple[str, str, str], tuple[Round, ...]]:
    """Return the rounds by (benchmark, implementation, case); empty where there is no telemetry.

    Args:
        path: `<machine>/telemetry/<commit8>-<environment>.jsonl` in the results directory.
        notes: gets one line for each line that is no round.
    """
    if not path.exists():
        return {}
    found: dict[tuple[str, str, str], dict[Round, None]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        try:
            item = decode(line)
            if len(item.params) != _AXES or item.estimate <= 0:
                raise TelemetryError(f"two params and a positive estimate are wanted, got {line[:60]!r}")
        except TelemetryError as error:
            notes.append(f"{path.parent.parent.name}/telemetry/{path.name}:{number}: {error}; it is left out")
            continue
        # A dict, because a line moved twice by an ingestion that was cut short is still one round
        found.setdefault((item.benchmark, item.params[0], item.params[1]), {})[item] = None
    return {key: tuple(rounds) for key, rounds in found.items()}
