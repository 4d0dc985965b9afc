"""Block means of a round, kept on request (KV_BLOCKS=1) in a file of their own: what the estimate was made of.

One line of JSON per round in ``.asv/blocks/<environment>/<commit>.jsonl``, joined to the round's telemetry by series
and launch: ``{"b": benchmark, "p": parameters, "l": launch, "seconds": [...]}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from kernel_velocity.harness.spool import append_line
from kernel_velocity.harness.telemetry import Round


def path_of(root: Path, environment: str, commit: str) -> Path:
    """Return where the block means of a commit's rounds are kept."""
    return root / ".asv" / "blocks" / environment / f"{commit}.jsonl"


def keep(record: Round, means: Sequence[float], root: Path, environ: Mapping[str, str]) -> None:
    """Append the block means of a round, s, where KV_BLOCKS asks for them and asv names a commit."""
    environment, commit = environ.get("ASV_ENV_NAME"), environ.get("ASV_COMMIT")
    if environ.get("KV_BLOCKS", "") in ("", "0") or not environment or not commit:
        return
    seconds = [float(f"{value:.5g}") for value in means]
    line = {"b": record.benchmark, "p": list(record.params), "l": record.launch, "seconds": seconds}
    append_line(path_of(root, environment, commit), json.dumps(line, separators=(",", ":")))
