"""Results files of asv, and lines in the spool, as small as they can be."""

import dataclasses
import json

from kernel_velocity.engine import telemetry
from kernel_velocity.engine.spool import append, spool_path
from kernel_velocity.engine.telemetry import Round
from kernel_velocity.results.lines import Failure, add_failure, failures_spool

COMMIT = "a" * 40
ENVIRONMENT = "host-py3.11-torch2.0"
NAME = "k.Cpu.time_hot"
ROUND = Round(
    benchmark=NAME,
    params=("native", "c"),
    time=1000.0,
    estimate=1e-3,
    n=1,
    batch=1,
    spent=0.1,
    stop="converged",
    method="m",
    launch="l",
)
COLUMNS = ["result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b"]
COLUMNS += ["stats_q_25", "stats_q_75", "stats_number", "stats_repeat", "samples", "profile"]


def write_result(root, result, samples, *, machine="box", commit=COMMIT, version="1", began=1.0):
    """Write asv's file of one commit: benchmark NAME, implementations eager and native, one case. It took 999 s."""
    folder = root / "results" / machine
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "machine.json").write_text(json.dumps({"machine": machine, "version": 1}))
    params = [["'eager'", "'native'"], ["'c'"]]
    counts = [None if drawn is None else len(drawn) for drawn in samples]
    row = [result, params, version, 1000 * began, 999.0, None, None, None, None, None, counts, samples]
    data = {
        "commit_hash": commit,
        "env_name": ENVIRONMENT,
        "date": 1,
        "params": {"machine": machine},
        "python": "3.11",
        "requirements": {},
        "env_vars": {},
        "result_columns": COLUMNS,
        "results": {NAME: row},
        "durations": {},
        "version": 2,
    }
    path = folder / f"{commit[:8]}-{ENVIRONMENT}.json"
    path.write_text(json.dumps(data))
    return path


def spool(root, *rounds):
    for round_ in rounds:
        append(spool_path(root, ENVIRONMENT, COMMIT), round_)


def at(time, estimate, params=("native", "c")):
    return dataclasses.replace(ROUND, time=time, estimate=estimate, params=params)


def stored_lines(root, machine="box", suffix=".jsonl"):
    path = root / "results" / machine / "telemetry" / f"{COMMIT[:8]}-{ENVIRONMENT}{suffix}"
    return path.read_text().splitlines() if path.exists() else []


def estimates(root, machine="box"):
    return [telemetry.decode(line).estimate for line in stored_lines(root, machine)]


def waiting(root):
    path = spool_path(root, ENVIRONMENT, COMMIT)
    return path.read_text().splitlines() if path.exists() else []


def stored_values(path):
    return json.loads(path.read_text())["results"][NAME][0]


def fail(root, time, **fields):
    failed = {"benchmark": NAME, "params": ("native", "c"), "time": time, "error": "wrong by 3"} | fields
    add_failure(failures_spool(root, ENVIRONMENT, COMMIT), Failure(**failed))
