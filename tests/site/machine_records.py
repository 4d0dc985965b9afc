"""What results have of a machine beside times: ceilings, session facts, gauges. Seeded. Added to a tree."""

import json
import math
import random
import statistics

from kernel_velocity.engine import telemetry
from kernel_velocity.engine.gpu import GpuActivity
from kernel_velocity.machine.device_figures import version
from kernel_velocity.results import lines
from kernel_velocity.results.sessions import SessionFacts
from tests import synthetic
from tests.findings.synthetic_extras import BEGAN, CEILINGS, STEP
from tests.site.pages import edit, results_file

FACTS = {"cpu": "Imaginary 9000", "governor": "performance", "cxx compiler version": "12.2.0", "torch": "2.13.0"}
FIGURES = CEILINGS["Cpu"] | {"threads": 1}
GPU = GpuActivity(
    sm_before=1.98e9, sm_after=1.94e9, memory_before=2.6e9, memory_after=2.6e9, power=410, temperature=52, reasons=0
)


def add_ceilings(tree, index, *, machine=synthetic.MACHINE, device="Cpu", began=None, **changes):
    """Record a session that measured the ceilings with a commit."""
    when = 1000 * (BEGAN + STEP * index if began is None else began)
    rows = {
        f"device.{device}.track_{name}": [[value], [], version(device.lower(), name), when, 0.1]
        for name, value in (FIGURES | changes).items()
    }
    edit(results_file(tree, index, machine), lambda data: data["results"].update(rows))


def add_session(tree, index, *, machine=synthetic.MACHINE, **changes):
    """Record what a session that measured a commit found."""
    session = SessionFacts(began=BEGAN + STEP * index, facts=FACTS | changes, code={})
    lines.append_session(results_file(tree, index, machine), session)


def telemetry_of(tree, index):
    """Return the file of a commit's rounds."""
    path = results_file(tree, index)
    return path.parent / "telemetry" / f"{path.stem}.jsonl"


def add_gauges(tree, index, *, busy=1.3, on_gpu=False):
    """Give a commit's rounds what real ones have: gauges that felt a busy machine in every third round, as they did."""
    path, rng = telemetry_of(tree, index), random.Random(index)
    lines = [telemetry.parse(line) for line in path.read_text().splitlines()]
    for number, line in enumerate(lines):
        factor = busy if number % 3 == 0 else 1.0
        line["e"] *= math.sqrt(factor)
        line |= {"j": 3e-5 * factor * math.exp(rng.gauss(0, 1e-3)), "J": 7e-5 * math.exp(rng.gauss(0, 1e-3))}
        line |= {"h": 0.01, "c": 0.1, "a": 0.2, "g": -0.004, "q": 0.1, "u": 0.5, "w": 0.05, "d": 1, "x": 3, "z": 0}
        if on_gpu:
            line["v"] = list(telemetry._short("gpu", GPU))
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    def store_medians(data):
        """Store what the rounds now say, as asv would have."""
        for name, row in data["results"].items():
            pairs = (
                []
                if name.startswith("device.")
                else [(implementation, case) for implementation in row[1][0] for case in row[1][1]]
            )
            for number, pair in enumerate(pairs):
                names = [part.strip("'") for part in pair]
                estimates = [line["e"] for line in lines if line["b"] == name and line["p"] == names]
                if estimates:
                    row[0][number] = statistics.median(estimates)
                    for column, bound in ((5, min), (6, max)):
                        row[column][number] = bound(estimates) if row[column:] else None

    edit(results_file(tree, index), store_medians)
