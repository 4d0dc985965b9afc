"""A small repository and a results tree with planted facts, the same bytes every time.

Five commits: the third makes `native` 2.5 times faster. `triton` is n/a before the fourth commit and fails at the
fourth. Rounds scatter by a seeded 0.5%. Paths, hashes and dates are fixed, so that golden files can hold them.

`synthetic_extras.whole` adds all that a real tree has beside: other machines, cold times, errors, ceilings, sessions,
tags, findings. `synthetic_extras.hostile` is the same with names that want to be code.
"""

from __future__ import annotations

import itertools
import json
import math
import random
import re
import statistics
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import git

from kernel_velocity.engine.telemetry import Round, encode
from kernel_velocity.results.lines import ROUNDS, beside, read_rounds
from kernel_velocity.results.reader import COLUMNS, parameter

MACHINE = "bench-1"
ENVIRONMENT = "hosttorch-py3.11-torch2.13.0"
STEP_AT, STEP = 2, 2.5  # commit index and factor of the planted change
CASES = {
    "add_mul_exp.Cpu.time_hot": {"float32-500k": 5e5, "float32-5M": 5e6},
    "matmul.Cpu.time_hot": {"float32-256x256x256": 256.0**3, "float32-512x512x512": 512.0**3},
}
FLOP = {"add_mul_exp": 3.0, "matmul": 2.0}  # an element
IMPLEMENTATIONS = ("eager", "native", "triton")
SPEED = {"eager": 4e9, "native": 5e9, "triton": 8e9}  # FLOP/s
PACE = {"Cpu.time_hot": 1.0, "Cpu.time_cold": 0.6, "Cuda.time_hot": 200.0, "Cuda.time_cold": 120.0}
MESSAGES = (
    "Add the first kernels, plain and right",
    "Say what the kernels compute",
    "Vectorise the inner loops\n\nFour accumulators hide the latency of the addition:\n2.5 times faster.",
    "Add Triton kernels",
    "Name the tile sizes",
)


@dataclass(frozen=True)
class Tree:
    """What was built."""

    repository: Path
    results: Path
    commits: tuple[str, ...]  # oldest first


def without_checksums(text):
    """Return lines and findings as versions wrote them that had no checksum, so that a test may change them."""
    return re.sub(r'(?m)^check = ".*"\n|,"#":"[0-9a-f]{8}"(?=})', "", text)


def build(folder: Path, messages=MESSAGES, author="Ada Lovelace", machine=MACHINE, files=None) -> Tree:
    """Build repository and results below an empty folder. `files`: of the repository, {commit index: {path: text}}."""
    repository = folder / "repository"
    commits = make_repository(repository, messages, author, files=files)
    results = folder / "results"
    write_json(results / "benchmarks.json", benchmarks_json())
    write_json(results / machine / "machine.json", machine_json(machine))
    for index, commit in enumerate(commits):
        write_commit(results, commit, index, machine=machine)
    return Tree(repository=repository, results=results, commits=commits)


def make_repository(folder: Path, messages, author: str, branch="main", files=None) -> tuple[str, ...]:
    """Make a repository with one commit for each message, empty but for its files. Return the hashes, oldest first."""
    repo = git.Repo.init(folder, initial_branch=branch)
    actor = git.Actor(author, "somebody@example.org")
    moment = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    shas = []
    for index, message in enumerate(messages):
        for name, text in (files or {}).get(index, {}).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
            repo.index.add([name])
        date = moment + timedelta(days=index)
        commit = repo.index.commit(message, author=actor, committer=actor, author_date=date, commit_date=date)
        shas.append(commit.hexsha)
    repo.close()
    return tuple(shas)


def write_json(path: Path, data: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data), encoding="utf-8")


def benchmarks_json(suite=CASES) -> dict:
    entries = {
        name: {
            "name": name,
            "type": "time",
            "unit": "seconds",
            "version": "1",
            "param_names": ["implementation", "case"],
            "params": [[repr(implementation) for implementation in IMPLEMENTATIONS], [repr(case) for case in cases]],
            "flops": {case: flop(name) * size for case, size in cases.items()},
            "bytes": {case: bytes_moved(name, size) for case, size in cases.items()},
        }
        for name, cases in suite.items()
    }
    entries["device.Cpu.track_bandwidth"] = {"type": "track", "params": [], "version": "1"}
    return {**entries, "version": 2}


def flop(name: str) -> float:
    return FLOP[name.partition(".")[0]]


def bytes_moved(name: str, size: float) -> float:
    return 12 * size if name.startswith("add") else 12 * round(size ** (2 / 3))


def machine_json(machine: str) -> dict:
    return {"machine": machine, "cpu": "Imaginary 9000", "num_cpu": "2", "os": "Linux 6.1", "ram": "8 GB", "version": 1}


def seconds(name, implementation, size, index):
    """Return the true time of a call, s. NaN where it is n/a, None where it fails."""
    if implementation == "triton" and index < 3:
        return math.nan
    if implementation == "triton" and index == 3:
        return None
    speed = SPEED[implementation] * (STEP if implementation == "native" and index >= STEP_AT else 1)
    return flop(name) * size / (speed * PACE[name.partition(".")[2]])


def write_commit(results, commit, index, *, machine=MACHINE, telemetry=True, rounds=8, suite=CASES, facts=None):
    """Write the results file of a commit, and its telemetry. Return the results file.

    Args:
        index: the commit's place, which tells how fast it is. suite: benchmark -> test case -> its size in elements.
        facts: further fields of every round (telemetry.Round).
    """
    rows, lines = {}, []
    for name, cases in suite.items():
        pairs = [(implementation, case) for implementation in IMPLEMENTATIONS for case in cases]
        values, spread = [], []
        for implementation, case in pairs:
            estimates = _estimates(name, implementation, (case, cases[case]), index, rounds)
            values.append(estimates[0] if len(estimates) == 1 else statistics.median(estimates))
            measured = isinstance(values[-1], float) and not math.isnan(values[-1])
            spread.append((min(estimates), max(estimates)) if measured else (None, None))
            if measured:
                lines += [
                    _line(name, (implementation, case), index, number, round_, facts=facts or {})
                    for number, round_ in enumerate(estimates)
                ]
        params = [[repr(entry) for entry in IMPLEMENTATIONS], [repr(case) for case in cases]]
        rows[name] = [
            values,
            params,
            "1",
            1767225600000,
            12.5,
            [low for low, _ in spread],
            [high for _, high in spread],
        ]
    stem = f"{commit[:8]}-{ENVIRONMENT}"
    path = results / machine / f"{stem}.json"
    write_json(path, results_json(commit, machine, rows))
    if telemetry:
        beside = results / machine / "telemetry" / f"{stem}.jsonl"
        beside.parent.mkdir(exist_ok=True)
        beside.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def count_rounds(path: Path) -> None:
    """Write into a results file how many rounds each value rests on, as asv does."""
    data, rounds = json.loads(path.read_text()), read_rounds(beside(path, ROUNDS), [])
    data["result_columns"] = list(COLUMNS)
    for name, row in data["results"].items():
        pairs = itertools.product(*(map(parameter, axis) for axis in row[1]))
        row.extend([None] * (COLUMNS.index("stats_repeat") - len(row)))
        row.append([len(rounds.get((name, *pair), ())) or None for pair in pairs])
    write_json(path, data)


def results_json(commit: str, machine: str, rows: dict) -> dict:
    return {
        "commit_hash": commit,
        "env_name": ENVIRONMENT,
        "date": 1767225600000,
        "params": {"machine": machine, "torch": "2.13.0"},
        "python": "3.11",
        "requirements": {"torch": "2.13.0"},
        "env_vars": {},
        "result_columns": ["result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b"],
        "results": rows,
        "durations": {},
        "version": 2,
    }


def _estimates(name, implementation, case_and_size, index, rounds) -> list:
    case, size = case_and_size
    true = seconds(name, implementation, size, index)
    if true is None or math.isnan(true):
        return [true]
    noise = random.Random(f"{name} {implementation} {case} {index}")
    return [true * math.exp(noise.gauss(0, 0.005)) for _ in range(rounds)]


def _line(name, params, index, number, estimate, *, facts) -> str:
    return encode(
        Round(
            benchmark=name,
            params=params,
            time=1767225600.0 + 1000 * index + number,
            estimate=estimate,
            n=64,
            batch=4,
            spent=0.1,
            stop="converged",
            method="a1b2c3d4",
            launch=f"launch-{number}",
            flags=("contended",) if index == 1 and number == 0 else (),
            **facts,
        )
    )
