"""Sessions of identical code: whole runs of asv of one commit, one after the other, kept as telemetry and read again.

A session is a file of rounds in `.asv/sessions/<environment>-<method>/<commit8>/`, nothing of it in results/: lines of
telemetry, each with the means of its round's blocks of samples beside it ("blocks"). What is there is not measured
again. A folder of such files, compressed or not, can be kept anywhere and read from there.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import json
import math
import os
import shutil
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TextIO

from asv.config import Config

from kernel_velocity import config, files, lock
from kernel_velocity.errors import NothingMeasured, ResultsError, UsageError
from kernel_velocity.harness import blocks, telemetry, timing
from kernel_velocity.harness.cases import CONTROLS
from kernel_velocity.harness.sampling import ROUNDS
from kernel_velocity.harness.spool import spool_path
from kernel_velocity.harness.telemetry import GAUGES, Round
from kernel_velocity.results import failures, git
from kernel_velocity.results import sessions as session_facts
from kernel_velocity.results.asv_file import Series
from kernel_velocity.runner import select
from kernel_velocity.runner.asv import environment_of, machine, run_asv
from kernel_velocity.runner.host import device
from kernel_velocity.stats.adjust import Logs, RoundKey, deviations, is_usable

LOG = Path(".asv", "logs", "sessions.log")
FAILED = 2  # asv's status where a benchmark failed and the others were measured
MACHINE = "kv-sessions"  # asv interleaves rounds only where it stores results: under this name, removed afterwards


@dataclass(frozen=True)
class Measured:
    """A round, with the means of its blocks of samples, s; none where they were not kept."""

    round: Round
    blocks: tuple[float, ...] = ()

    @property
    def series(self) -> Series:
        """Return which series the round is of."""
        return self.round.benchmark, self.round.params


Sessions = Mapping[str, Sequence[Measured]]  # by name


def add_arguments(parser: argparse.ArgumentParser, sessions: int) -> None:
    """Declare which sessions a command wants, by default so many."""
    parser.add_argument("--sessions", type=int, default=sessions, help=f"sessions to have in the end ({sessions})")
    parser.add_argument("--commit", default="HEAD", help="the commit to measure (default HEAD)")
    parser.add_argument("--tier", default="core", help="core (default) or full")
    parser.add_argument("--bench", help="a regular expression that the series to measure match")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds of every series in a session ({ROUNDS})")
    parser.add_argument("--read", metavar="FOLDER", type=Path, help="recorded sessions; nothing is measured")
    parser.add_argument("--root", type=Path, default=Path(), help="the folder of asv.conf.json (default: here)")


def obtain(args: argparse.Namespace, least: int, out: TextIO, err: TextIO) -> dict[str, list[Measured]]:
    """Measure the sessions that are missing, or read those asked for; return all.

    Raises:
        UsageError: fewer are asked for than a statement takes.
        ResultsError: what is kept cannot be read, or was timed by different methods.
    """
    if args.read:
        return read(args.read)
    if args.sessions < least:
        raise UsageError(f"--sessions {args.sessions}: at least {least} say something")
    if args.rounds < 2:
        raise UsageError(f"--rounds {args.rounds}: at least 2 have a spread")
    with contextlib.chdir(args.root), lock.held(Path()):
        (commit,) = git.commits(Path(), args.commit)[:1]
        method = timing.method(os.environ)
        chosen = select.select(config.suite(Path()), device(), args.tier, args.bench)
        what = commit[:8] if (args.tier, args.bench) == ("core", None) else f"{commit[:8]}-{_digest(chosen)}"
        what += "" if args.rounds == ROUNDS else f"-{args.rounds}"
        folder = Path(".asv", "sessions", f"{environment_of(Config.load()).name}-{method}", what)
        for number in range(1, args.sessions + 1):
            kept = folder / f"{number:02}.jsonl"
            if not any(path.exists() for path in (kept, kept.with_name(f"{kept.name}.gz"))):
                began = time.time()
                if _measure(commit, chosen.expressions(), args.rounds, kept):
                    print(f"session {number}: a series failed (log: {LOG.absolute()})", file=err, flush=True)
                print(f"session {number}/{args.sessions}: {time.time() - began:.0f} s", file=out, flush=True)
        return read(folder)


def _digest(chosen: select.Selection) -> str:
    """Return what tells sessions of other series apart."""
    return hashlib.sha256("\n".join(chosen.expressions()).encode()).hexdigest()[:8]


def _measure(commit: str, expressions: Sequence[str], rounds: int, kept: Path) -> bool:
    """Run one session and keep its rounds in `kept`; return whether a series failed.

    Nothing of a session stays in the spool, however it ends: no result will ever claim it.
    """
    conf = Config.load()
    environment = environment_of(conf).name
    here = (Path.cwd(), environment, commit)
    spool, means = spool_path(*here), blocks.path_of(*here)
    if spool.exists():
        raise UsageError(f"{spool}: rounds of this commit wait to be ingested; run `kv ingest` first")
    benches = [text for expression in expressions for text in ("--bench", expression)]
    options = ["--interleave-rounds", "--machine", machine(MACHINE), "--attribute", f"rounds={rounds}"]
    try:
        means.unlink(missing_ok=True)  # of a session that was cut off
        status = run_asv(
            ["run", f"{commit}^!", *options, *benches],
            root=Path(),
            environment={**os.environ, "KV_BLOCKS": "1"},
            log=LOG,
            on_line=lambda line: None,
        )
        if status not in (0, FAILED) or not spool.exists():
            raise NothingMeasured(f"asv run ended with status {status} (log: {LOG.absolute()})")
        files.replace_text(kept, _joined(spool, means))
    finally:
        shutil.rmtree(Path(conf.results_dir, MACHINE), ignore_errors=True)
        for path in (spool, means, failures.spool_path(*here), session_facts.spool_path(*here)):
            path.unlink(missing_ok=True)
    return status == FAILED


def _joined(spool: Path, means: Path) -> str:
    """Return the lines of the spool, each with its round's block means; they belong together by series and launch.

    Raises:
        ResultsError: a line of either says something else.
    """
    found, lines = {}, []
    try:
        if means.exists():
            for line in means.read_text(encoding="utf-8").splitlines():
                said = json.loads(line)
                found[said["b"], tuple(said["p"]), said["l"]] = said["seconds"]
        for line in spool.read_text(encoding="utf-8").splitlines():
            item = telemetry.decode(line)
            said = json.loads(line)
            said["blocks"] = found.get((item.benchmark, item.params, item.launch), [])
            lines.append(json.dumps(said, separators=(",", ":")))
    except (ValueError, LookupError, TypeError) as error:  # telemetry's are ValueErrors
        raise ResultsError(f"{spool} and {means}: a line cannot be read ({error}); measure the session again") from None
    return "".join(f"{line}\n" for line in lines)


def read(folder: Path) -> dict[str, list[Measured]]:
    """Return the sessions that a folder holds, by name.

    Raises:
        ResultsError: none there, a file is no session, or they were timed by different methods.
    """
    paths = sorted([*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")])
    if not paths:
        raise ResultsError(f"{folder}: no sessions; wanted files such as 01.jsonl or 01.jsonl.gz")
    found: dict[str, list[Measured]] = {}
    for path in paths:
        if (name := path.name.partition(".")[0]) in found:
            raise ResultsError(f"{path}: a session named {name} is there already; rename or remove one of the two")
        found[name] = _rounds(path)
    methods = sorted({item.round.method for rounds in found.values() for item in rounds})
    if len(methods) > 1:
        raise ResultsError(
            f"{folder}: the sessions were timed by {len(methods)} methods ({', '.join(methods)}): remove some of them"
        )
    return found


def _rounds(path: Path) -> list[Measured]:
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
        found = [_measured(line) for line in text.splitlines()]
        if not found:
            raise telemetry.TelemetryError("no rounds")
        if len({(item.series, item.round.launch) for item in found}) < len(found):
            raise telemetry.TelemetryError("rounds of one series share a launch; wanted a run with --interleave-rounds")
    except (telemetry.TelemetryError, OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise ResultsError(f"{path}: {error}; remove the file to measure that session again") from None
    return found


def _measured(line: str) -> Measured:
    item = telemetry.decode(line)
    for name, seconds in (("e", item.estimate), *((telemetry.KEYS[name], getattr(item, name)) for name in GAUGES)):
        if seconds is not None and not _is_time(seconds):  # its logarithm is taken
            raise telemetry.TelemetryError(f"{name}: a positive time is wanted, got {seconds!r}")
    means = json.loads(line).get("blocks", [])
    if not isinstance(means, list) or not all(_is_time(mean) for mean in means):
        raise telemetry.TelemetryError(f"blocks: a list of positive times is wanted, got {means!r}")
    return Measured(item, tuple(means))


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def logs(sessions: Sessions) -> dict[Series, Logs]:
    """Return the logarithm of every round's estimate."""
    return _logs(sessions, lambda item: item.estimate)


def _logs(sessions: Sessions, value: Callable[[Round], float | None]) -> dict[Series, Logs]:
    found: dict[Series, dict[RoundKey, float]] = {}
    for session, rounds in sessions.items():
        for item in rounds:
            seconds = value(item.round)
            if seconds is not None:
                found.setdefault(item.series, {})[session, item.round.launch] = math.log(seconds)
    return dict(found)


def signals(sessions: Sessions) -> dict[Series, list[Logs]]:
    """Return the signals that each series is adjusted by.

    Its gauges', which were read beside its very samples; where it has none (a GPU's rounds), the controls' of the same
    cache state. Not both: on 2 shared cores the controls, seconds away, added more noise than they took out.
    """
    values = logs(sessions)
    gauges = [_logs(sessions, attrgetter(name)) for name in GAUGES]
    found: dict[Series, list[Logs]] = {}
    for series in values:
        read = [gauge.get(series, {}) for gauge in gauges]
        own: list[Logs] = [deviations([gauge]) for gauge in read if is_usable(gauge, values[series])]
        controls = [
            value for other, value in values.items() if other[1][0] in CONTROLS and _state(other) == _state(series)
        ]
        found[series] = own or ([deviations(controls)] if controls else [])
    return found


def _state(series: Series) -> str:
    """Return device and cache state: what empties the caches says nothing of a round that has them."""
    return series[0].partition(".")[2]
