"""The machine's ceilings, measured by asv once per session of `make track`: the series `device.*` of one commit."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TextIO

from asv.config import Config

from kernel_velocity.files import replace_text
from kernel_velocity.harness.cases import DEVICES
from kernel_velocity.results import backup
from kernel_velocity.runner.asv import run_asv

MODULE = "device.py"  # of the suite; one without it has no such series


def measure(commit: str, stored: Path, *, machine: str, device: str, log: Path, out: TextIO) -> str | None:
    """Have asv measure the ceilings of a device, for one commit; return what went wrong in a line, None for nothing.

    A session is not failed by it: its timings are as good as without. What was recorded before of a ceiling that
    cannot be measured now is kept. The current folder is that of asv.conf.json.

    Args:
        commit: in full. stored: its results file. machine: under which name results are kept. device: "cpu" or "cuda".
        log: gets what asv prints. out: gets a line.
    """
    root = Path.cwd()
    if not Path(Config.load().benchmark_dir, MODULE).is_file():
        return None
    print("measuring what the machine can do at most (device.*), about half a minute", file=out, flush=True)
    hashes = root / ".asv" / "ceilings-commit.txt"
    replace_text(hashes, f"{commit}\n")
    options = ["--machine", machine, "--show-stderr", "--bench", expression(device)]
    lines: list[str] = []
    backup.keep(root, [stored])
    try:
        status = run_asv(
            ["run", f"HASHFILE:{hashes}", *options], root=root, environment=os.environ, log=log, on_line=lines.append
        )
    finally:
        for line in backup.put_back(root, stored.parents[1]):
            print(line, file=out)
    if status == 0:
        return None
    said = next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
    return f"the machine's ceilings were not all measured: asv run ended with status {status}: {said} (log: {log})"


def expression(device: str) -> str:
    """Return the regular expression that selects the ceilings of a device, and nothing else."""
    return rf"^device\.{DEVICES[device]}\.track_"
