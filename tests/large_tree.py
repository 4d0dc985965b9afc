"""Makes a large results tree and its repository: the same bytes every time.

A folder gets `repository/`, `results/` (asv's format, as `asv run` writes it) and an `asv.conf.json` that `asv publish`
takes. A kernel has 40 series: two cache states, four implementations, five test cases. Times scatter by a log-normal
.5%, and have a few steps of 2 to 20%, or changes of one's choice. `triton` is n/a before a tenth of the history, one
value in 500 failed.
"""

from __future__ import annotations

import io
import itertools
import json
import math
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kernel_velocity.names import CONTROLS

MACHINE = "bench-1"
ENVIRONMENT = "host-py3.11-torch2.13.0"
IMPLEMENTATIONS = ("eager", "compile", "native", "triton")
SIZES = {"float32-500k": 5e5, "float32-1M": 1e6, "float32-5M": 5e6, "float32-10M": 1e7, "float32-50M": 5e7}
STATES = ("hot", "cold")
FLOP, BYTES = 3, 12  # per element
NOISE = 0.005  # standard deviation of the logarithms of the round estimates
STEPS = 2.0  # mean number of steps along a history
LOGS = (math.log(1.02), math.log(1.2))  # of their factors
FAILED = 1 / 500
FIRST = 1700000000  # Unix time of the first commit, s; one an hour
COLUMNS = (
    *("result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b"),
    *("stats_q_25", "stats_q_75", "stats_number", "stats_repeat", "samples", "profile"),
)
PAIRS = tuple(itertools.product(IMPLEMENTATIONS, SIZES))
PARAMS = [[repr(name) for name in IMPLEMENTATIONS], [repr(case) for case in SIZES]]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How large a tree is."""

    commits: int
    series: int
    rounds: int = 8
    telemetry: bool = False
    seed: int = 0  # of the noise

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """Their names, enough for the series."""
        count = -(-self.series // len(PAIRS))
        return tuple(f"kernel_{number // 2:03}.Cpu.time_{STATES[number % 2]}" for number in range(count))


@dataclass(frozen=True, kw_only=True)
class Change:
    """A planted change: from a commit on, some series take so many times as long."""

    at: int  # index of the commit
    factor: float
    series: tuple[int, ...]  # columns of the times


def build(folder: Path, shape: Shape, changes: Sequence[Change] | None = None) -> tuple[str, ...]:
    """Make repository, results and configuration in a folder. Return the commits, oldest first.

    Args:
        changes: all that the series truly do. None: `random_changes`.
    """
    commits = make_repository(folder / "repository", shape.commits)
    results = folder / "results"
    _write_json(folder / "asv.conf.json", _configuration())
    _write_json(results / "benchmarks.json", _benchmarks(shape))
    _write_json(results / MACHINE / "machine.json", _machine())
    times = true_times(shape, random_changes(shape) if changes is None else changes)
    for index in range(shape.commits):
        write_commit(results, shape, commits[index], index, times[index])
    return commits


def make_repository(folder: Path, commits: int) -> tuple[str, ...]:
    """Make a repository with so many commits on `main`, each of one file. Return them, oldest first."""
    subprocess.run(["git", "init", "-q", "-b", "main", folder], check=True)
    stream = io.BytesIO()
    for index in range(commits):
        message = f"Change the kernels, for the {index}th time\n\nWhat it bought is what is measured.\n".encode()
        content = f"{index}\n".encode()
        who = f"Ada Lovelace <ada@example.org> {FIRST + 3600 * index} +0000\n".encode()
        stream.write(b"commit refs/heads/main\nauthor " + who + b"committer " + who)
        stream.write(b"data %d\n" % len(message) + message)
        stream.write(b"M 100644 inline kernel.cpp\ndata %d\n" % len(content) + content + b"\n")
    subprocess.run(["git", "-C", folder, "fast-import", "--quiet"], input=stream.getvalue(), check=True)
    subprocess.run(["git", "-C", folder, "reset", "-q", "--hard"], check=True)
    listed = subprocess.run(["git", "-C", folder, "rev-list", "--reverse", "HEAD"], capture_output=True, check=True)
    return tuple(listed.stdout.decode().split())


def true_times(shape: Shape, changes: Sequence[Change]) -> np.ndarray:
    """Return what a call takes without noise, s: (commits, series). NaN where it is n/a."""
    times = np.tile([FLOP * SIZES[case] / 5e9 for _ in shape.benchmarks for _, case in PAIRS], (shape.commits, 1))
    for change in changes:
        times[change.at :, list(change.series)] *= change.factor
    late = [implementation == "triton" for _ in shape.benchmarks for implementation, _ in PAIRS]
    times[: shape.commits // 10, late] = np.nan
    return times


def random_changes(shape: Shape) -> list[Change]:
    """Return a few changes of 2 to 20% in each series."""
    chance = np.random.default_rng(7)
    return [
        Change(at=int(at), factor=math.exp(chance.choice([-1, 1]) * chance.uniform(*LOGS)), series=(series,))
        for series in range(len(shape.benchmarks) * len(PAIRS))
        for at in chance.integers(0, shape.commits, chance.poisson(STEPS))
    ]


def moved(shape: Shape, at: int, *, of_controls: float, of_others: float) -> list[Change]:
    """Return a change by a factor of all series at a commit, of controls by a factor of their own."""
    is_control = [name in CONTROLS for name, _ in PAIRS] * len(shape.benchmarks)
    columns = {kind: tuple(index for index, entry in enumerate(is_control) if entry is kind) for kind in (True, False)}
    return [
        Change(at=at, factor=of_controls, series=columns[True]),
        Change(at=at, factor=of_others, series=columns[False]),
    ]


def write_commit(results: Path, shape: Shape, commit: str, index: int, true: np.ndarray) -> Path:
    """Write the results file of a commit, and its telemetry where the shape has it. Return the results file."""
    chance = np.random.default_rng([index, shape.series, shape.seed])
    rounds = true[:, None] * np.exp(NOISE * chance.standard_normal((len(true), shape.rounds)))
    failed = chance.random(len(true)) < FAILED
    stem = f"{commit[:8]}-{ENVIRONMENT}"
    rows = {}
    for number, name in enumerate(shape.benchmarks):
        these = slice(number * len(PAIRS), (number + 1) * len(PAIRS))
        rows[name] = _row(rounds[these], failed[these], index, with_samples=shape.telemetry)
    path = results / MACHINE / f"{stem}.json"
    _write_json(path, _results(commit, index, rows))
    if shape.telemetry:
        beside = results / MACHINE / "telemetry" / f"{stem}.jsonl"
        beside.parent.mkdir(exist_ok=True)
        beside.write_text("".join(_lines(shape, rounds, failed, index, chance)), encoding="utf-8")
    return path


def _row(rounds: np.ndarray, failed: np.ndarray, index: int, *, with_samples: bool) -> list[object]:
    """Return what asv stores of a benchmark."""
    present = ~failed & ~np.isnan(rounds[:, 0])
    quarters = np.quantile(rounds, [0.25, 0.5, 0.75], axis=1)
    extremes = [rounds.min(axis=1), rounds.max(axis=1)]
    values = [None if bad else value for bad, value in zip(failed, quarters[1].tolist(), strict=True)]
    columns = [_digits(column, present) for column in (*extremes, quarters[0], quarters[2])]
    counts = [[number if is_present else None for is_present in present] for number in (1, rounds.shape[1])]
    samples = (
        [row if is_present else None for is_present, row in zip(present, rounds.tolist(), strict=True)]
        if with_samples
        else None
    )
    return [values, PARAMS, "1", (FIRST + 3600 * index) * 1000, 12.5, *columns, *counts, samples]


def _digits(values: np.ndarray, present: np.ndarray) -> list[float | None]:
    """Return the five digits to which asv rounds its statistics."""
    return [
        float(f"{value:.5g}") if is_present else None
        for is_present, value in zip(present, values.tolist(), strict=True)
    ]


def _lines(shape: Shape, rounds: np.ndarray, failed: np.ndarray, index: int, chance: np.random.Generator) -> Iterator:
    """Yield the telemetry: a line for every round, in the order in which rounds are measured."""
    names = [(name, *pair) for name in shape.benchmarks for pair in PAIRS]
    gauge = 2.5e-5 * np.exp(NOISE * chance.standard_normal(rounds.shape))
    for number in range(rounds.shape[1]):
        for series, (name, implementation, case) in enumerate(names):
            if failed[series] or math.isnan(rounds[series, number]):
                continue
            began = FIRST + 3600 * index + number * 400 + series * 0.3
            estimate = float(rounds[series, number])
            yield (
                f'{{"b":"{name}","p":["{implementation}","{case}"],"t":{began:.2f},"e":{estimate!r},'
                f'"n":64,"k":4,"u":0.5,"w":0.1,"s":0.3,"r":"converged","h":0.002,"c":0.01,"a":0.1,"g":0.001,'
                f'"j":{gauge[series, number]:.4g},"d":0.5,"x":1,"m":"a1b2c3d4","l":"{number}-{index}"}}\n'
            )


def _configuration() -> dict:
    return {
        "version": 1,
        "project": "large",
        "project_url": "",
        "repo": "repository",
        "dvcs": "git",
        "branches": ["main"],
        "show_commit_url": "",
        "hash_length": 8,
        "environment_type": "virtualenv",
        "results_dir": "results",
        "html_dir": "html",
    }


def _benchmarks(shape: Shape) -> dict:
    entries = {
        name: {
            "name": name,
            "type": "time",
            "unit": "seconds",
            "version": "1",
            "timeout": 60.0,
            "code": "",
            "param_names": ["implementation", "case"],
            "params": PARAMS,
            "flops": {case: FLOP * size for case, size in SIZES.items()},
            "bytes": {case: BYTES * size for case, size in SIZES.items()},
        }
        for name in shape.benchmarks
    }
    return {**entries, "version": 2}


def _machine() -> dict:
    return {
        "machine": MACHINE,
        "arch": "x86_64",
        "cpu": "Imaginary 9000",
        "num_cpu": "2",
        "os": "Linux 6.1",
        "ram": "8589934592",
        "version": 1,
    }


def _results(commit: str, index: int, rows: dict) -> dict:
    return {
        "commit_hash": commit,
        "env_name": ENVIRONMENT,
        "date": (FIRST + 3600 * index) * 1000,
        "params": {**_machine(), "python": "3.11", "torch": "2.13.0"} | {"version": ""},
        "python": "3.11",
        "requirements": {"torch": "2.13.0"},
        "env_vars": {},
        "result_columns": list(COLUMNS),
        "results": rows,
        "durations": {},
        "version": 2,
    }


def _write_json(path: Path, data: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data), encoding="utf-8")
