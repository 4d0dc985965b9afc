"""Makes results trees of other people's suites in asv's format.

A folder gets `repository/` and `results/`. The suite has what asv knows: times, memory and tracked values, of classes
and of modules, without parameters and with up to three. Times scatter by a log-normal 1%. Halfway `io.Csv.time_read`
becomes 1.5 times slower, and `core.track_errors`, which is 0 before, begins to count.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from tests import large_tree, synthetic

MACHINE, ENVIRONMENT = "box", "virtualenv-py3.12-numpy"
SUITE = {  # name -> unit, parameters as asv stores them, value
    "io.Csv.time_read": ("seconds", [["10", "1000"], ["'a,b'", "'c'"]], 2e-3),
    "io.Csv.peakmem_read": ("bytes", [["10", "1000"]], 7e7),
    "io.time_open": ("seconds", [], 3e-6),
    "core.sparse.Solve.time_solve": ("seconds", [["1", "2"], ["'lu'", "'qr'"], ["None", "0.5"]], 4.0),
    "core.sparse.Solve.timeraw_import": ("seconds", [], 0.2),
    "core.Tree.mem_node": ("bytes", [], 344),
    "core.track_errors": ("errors", [], 0.0),
    "core.track_balance": ("unit", [["'x'"]], -2.5),
}


def build(folder: Path, commits: int = 24, suite=SUITE) -> synthetic.Tree:
    """Build repository and results below a folder."""
    shas = large_tree.make_repository(folder / "repository", commits)
    results = folder / "results"
    synthetic.write_json(results / "benchmarks.json", benchmarks_json(suite))
    synthetic.write_json(results / MACHINE / "machine.json", synthetic.machine_json(MACHINE))
    random = np.random.default_rng(7)
    for index, sha in enumerate(shas):
        rows = {name: _row(name, facts, index, random, half=commits // 2) for name, facts in suite.items()}
        path = results / MACHINE / f"{sha[:8]}-{ENVIRONMENT}.json"
        synthetic.write_json(path, synthetic.results_json(sha, MACHINE, rows) | {"env_name": ENVIRONMENT})
    return synthetic.Tree(repository=folder / "repository", results=results, commits=tuple(shas))


def benchmarks_json(suite) -> dict:
    types = {"seconds": "time", "bytes": "memory"}
    entries = {
        name: {"name": name, "type": types.get(unit, "track"), "unit": unit, "version": "v", "params": params}
        for name, (unit, params, _) in suite.items()
    }
    return {**entries, "version": 2}


def _row(name, facts, index, random, *, half):
    unit, params, value = facts
    count = math.prod(len(axis) for axis in params)
    late = index >= half
    if name == "core.track_errors":
        return [[float(3 * late)], params, "v"]
    scatter = np.exp(0.01 * random.standard_normal(count)) if unit == "seconds" else np.ones(count)
    values = (value * (1 + np.arange(count)) * (1.5 if late and name == "io.Csv.time_read" else 1) * scatter).tolist()
    if index == 3 and name == "core.sparse.Solve.time_solve":
        values[:2] = [None, math.nan]
    row = [values, params, "v", 1_700_000_000_000 + index * 3_600_000, 1.0]
    if unit != "seconds":
        return row
    bounds = [[None if v is None or math.isnan(v) else factor * v for v in values] for factor in (0.98, 1.02)]
    return [*row, *bounds]
