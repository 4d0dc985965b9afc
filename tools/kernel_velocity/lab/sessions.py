"""Sessions of identical code: whole runs of asv on one commit, one after the other, stored as telemetry.

A session is a file in `.asv/sessions/<environment>-<method>/<commit8>/`: lines of telemetry, each with the means of its
round's blocks of samples ("blocks"). Nothing of it is in results/. Sessions that are there are not measured again. A
folder of such files, gzipped or not, can be kept anywhere and read from there.
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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

from kernel_velocity import bounds, config, files, lock
from kernel_velocity.errors import NothingMeasured, ResultsError, UsageError
from kernel_velocity.harness import telemetry, timing
from kernel_velocity.harness.cases import CONTROLS
from kernel_velocity.harness.documents import with_checksum
from kernel_velocity.harness.sampling import ROUNDS
from kernel_velocity.harness.spool import blocks_path, spool_path
from kernel_velocity.harness.telemetry import GAUGES, Round, TelemetryError
from kernel_velocity.results import git
from kernel_velocity.results import sessions as session_facts
from kernel_velocity.results.asv_file import Series
from kernel_velocity.results.lines import failures_spool
from kernel_velocity.runner import select
from kernel_velocity.runner.asv import environment_of, machine, measuring, run_asv, settings
from kernel_velocity.runner.host import device
from kernel_velocity.stats.adjust import Logs, RoundKey, adjusted, deviations, is_usable, slopes

LOG = Path(".asv", "logs", "sessions.log")
MACHINE = "kv-sessions"  # asv interleaves rounds only where it stores results: under this name, removed afterwards


class Measured(NamedTuple):
    """A round, and the means of its blocks of samples, s. None if they were not stored."""

    round: Round
    blocks: tuple[float, ...] = ()

    @property
    def series(self) -> Series:
        """Return the series of the round."""
        return self.round.benchmark, self.round.params


Sessions = Mapping[str, Sequence[Measured]]  # by name


def add_arguments(parser: argparse.ArgumentParser, sessions: int) -> None:
    """Declare the arguments that choose sessions, with a default number."""
    parser.add_argument(
        "--sessions", type=int, default=sessions, help=f"sessions to record, earlier ones included (default {sessions})"
    )
    parser.add_argument("--commit", default="HEAD", help="the commit to measure (default HEAD)")
    parser.add_argument("--tier", default="core", help="core (default) or full")
    parser.add_argument("--bench", help="measure only series that match this regular expression")
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help=f"rounds of every series in a session (default {ROUNDS})"
    )
    parser.add_argument("--read", metavar="FOLDER", type=Path, help="read recorded sessions, without measuring")
    parser.add_argument("--root", type=Path, default=Path(), help="the folder of asv.conf.json (default: here)")


def obtain(args: argparse.Namespace, least: int, out: TextIO, err: TextIO) -> dict[str, list[Measured]]:
    """Measure the sessions that are missing, or read those of --read. Return all.

    Raises:
        UsageError: too few sessions or rounds.
        ResultsError: sessions cannot be read, or were timed by different methods.
    """
    if args.read:
        return read(args.read)
    if args.sessions < least:
        raise UsageError(f"--sessions {args.sessions}: wanted at least {least}")
    if args.rounds < 2:
        raise UsageError(f"--rounds {args.rounds}: wanted at least 2")
    with contextlib.chdir(args.root), lock.held(Path()):
        (commit,) = git.commits(Path(), args.commit)[:1]
        chosen = select.select(config.suite(Path()), device(), args.tier, args.bench).series
        what = commit[:8]
        if (args.tier, args.bench) != ("core", None):
            what += "-" + hashlib.sha256("\n".join(select.expressions(chosen)).encode()).hexdigest()[:8]
        what += "" if args.rounds == ROUNDS else f"-{args.rounds}"
        environment = f"{environment_of(settings()).name}-{timing.method(os.environ)}"
        folder = Path(".asv", "sessions", environment, what)
        for number in range(1, args.sessions + 1):
            path = folder / f"{number:02}.jsonl"
            if not path.exists() and not path.with_name(f"{path.name}.gz").exists():
                began = time.time()
                if _measure(commit, chosen, args.rounds, path):
                    print(f"session {number}: a series failed (log: {LOG.absolute()})", file=err, flush=True)
                print(f"session {number}/{args.sessions}: {time.time() - began:.0f} s", file=out, flush=True)
        return read(folder)


def _measure(commit: str, series: Sequence[Series], rounds: int, path: Path) -> bool:
    """Measure one session and write it to `path`. Return whether a series failed.

    It leaves nothing in the spool, even if it is interrupted: no result would ever claim it.
    """
    conf = settings()
    here = (Path.cwd(), environment_of(conf).name, commit)
    spool, means = spool_path(*here), blocks_path(*here)
    if spool.exists():
        raise UsageError(f"{spool}: rounds of this commit wait to be ingested; run `kv ingest` first")
    options = ["--interleave-rounds", "--attribute", f"rounds={rounds}"]
    try:
        means.unlink(missing_ok=True)  # of a session that was interrupted
        ended = run_asv(
            measuring(Path(".asv", "sessions-commit.txt"), [commit], series, machine(MACHINE), options),
            root=Path(),
            environment={**os.environ, "KV_BLOCKS": "1"},
            log=LOG.absolute(),
        )
        if not ended.is_whole or not spool.exists():
            raise NothingMeasured(str(ended))
        files.replace_text(path, _joined(spool, means))
    finally:
        shutil.rmtree(Path(conf.results_dir, MACHINE), ignore_errors=True)
        for left in (spool, means, failures_spool(*here), session_facts.spool_path(*here)):
            left.unlink(missing_ok=True)
    return ended.status != 0


def _joined(spool: Path, means: Path) -> str:
    """Return the lines of the spool, each with the block means of its round, joined by series and launch.

    Raises:
        ResultsError: a line of either file cannot be read.
    """
    by_round, lines = {}, []
    try:
        if means.exists():
            for line in means.read_text(encoding="utf-8").splitlines():
                document = telemetry.parse(line)
                by_round[document["b"], tuple(document["p"]), document["l"]] = document["seconds"]
        for line in spool.read_text(encoding="utf-8").splitlines():
            round_ = telemetry.decode(line)
            means_of = by_round.get((round_.benchmark, round_.params, round_.launch), [])
            document = telemetry.parse(line) | {"blocks": means_of}
            lines.append(with_checksum(json.dumps(document, separators=(",", ":"))) + "\n")
    except (ValueError, LookupError, TypeError) as error:  # telemetry's are ValueErrors
        raise ResultsError(f"{spool} and {means}: a line cannot be read ({error}); measure the session again") from None
    return "".join(lines)


def read(folder: Path) -> dict[str, list[Measured]]:
    """Return the sessions in a folder, by name.

    Raises:
        ResultsError: there is none, a file is no session, or they were timed by different methods.
    """
    paths = sorted([*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")])
    if not paths:
        raise ResultsError(f"{folder}: no sessions; wanted files such as 01.jsonl or 01.jsonl.gz")
    sessions: dict[str, list[Measured]] = {}
    for path in paths:
        if (name := path.name.partition(".")[0]) in sessions:
            raise ResultsError(f"{path}: a session named {name} is there already; rename or remove one of the two")
        sessions[name] = _rounds(path)
    methods = sorted({entry.round.method for rounds in sessions.values() for entry in rounds})
    if len(methods) > 1:
        raise ResultsError(
            f"{folder}: the sessions were timed by {len(methods)} methods ({', '.join(methods)}): remove some of them"
        )
    return sessions


def _rounds(path: Path) -> list[Measured]:
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
        rounds = [_measured(line) for line in text.splitlines()]
        if not rounds:
            raise TelemetryError("no rounds")
        if len({(entry.series, entry.round.launch) for entry in rounds}) < len(rounds):
            raise TelemetryError("rounds of one series share a launch; wanted a run with --interleave-rounds")
    except (TelemetryError, OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise ResultsError(f"{path}: {error}; remove the file to measure that session again") from None
    return rounds


def _measured(line: str) -> Measured:
    round_ = telemetry.decode(line)
    for key, seconds in (("e", round_.estimate), *((telemetry.KEYS[name], getattr(round_, name)) for name in GAUGES)):
        if seconds is not None and not bounds.is_time(seconds):  # its logarithm is taken
            raise TelemetryError(f"{key}: a positive time is wanted, got {seconds!r}")
    means = telemetry.parse(line).get("blocks", [])
    if not isinstance(means, list) or not all(map(bounds.is_time, means)):
        raise TelemetryError(f"blocks: a list of positive times is wanted, got {means!r}")
    return Measured(round_, tuple(means))


def logs(sessions: Sessions, name: str = "estimate") -> dict[Series, Logs]:
    """Return the logarithms of a field of the rounds, by series. Rounds without a value are left out."""
    values: dict[Series, dict[RoundKey, float]] = {}
    for session, rounds in sessions.items():
        for entry in rounds:
            by_round = values.setdefault(entry.series, {})
            if (seconds := getattr(entry.round, name)) is not None:
                by_round[session, entry.round.launch] = math.log(seconds)
    return dict(values)


def signals(sessions: Sessions) -> dict[Series, list[Logs]]:
    """Return the signals that each series is adjusted by: its gauges, or the controls of the same cache state.

    Note: tried both together. On 2 shared cores the controls, seconds away, added more noise than they took out.
    """
    values, gauges = logs(sessions), [logs(sessions, name) for name in GAUGES]
    result: dict[Series, list[Logs]] = {}
    for series in values:
        usable = [gauge[series] for gauge in gauges if is_usable(gauge[series], values[series])]
        controls = [  # what empties the caches says nothing of a round that has them
            value
            for other, value in values.items()
            if other[1][0] in CONTROLS and other[0].partition(".")[2] == series[0].partition(".")[2]
        ]
        result[series] = [deviations([gauge]) for gauge in usable]
        if not usable and controls:
            result[series] = [deviations(controls)]
    return result


def out_of_sample(values: Logs, signals: Sequence[Logs]) -> tuple[dict[RoundKey, float], list[tuple[float, ...]]]:
    """Return the adjusted log seconds of a series, and the slopes by session, fitted on the other sessions."""
    sessions = dict.fromkeys(session for session, _ in values)
    result: dict[RoundKey, float] = {}
    fits = []
    for session in sessions:
        others = {key: value for key, value in values.items() if key[0] != session}
        fits.append(slopes(others, signals, dict.fromkeys(sessions, "identical"))[0])
        of_session = {key: value for key, value in values.items() if key[0] == session}
        result |= adjusted(of_session, signals, fits[-1])
    return result, fits
