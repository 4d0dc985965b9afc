"""What results have of a machine beside times: ceilings, session facts, gauges, traces. Seeded; added to a tree."""

import json
import math
import random

from kernel_velocity.harness import telemetry
from kernel_velocity.harness.device_figures import device_id, version
from kernel_velocity.harness.gpu import GpuActivity
from kernel_velocity.harness.traces import FORMAT as TRACE_FORMAT
from kernel_velocity.results import lines
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.site import model, report
from kernel_velocity.site.outputs import Page
from tests import synthetic

BEGAN = 1767225600.0  # Unix time of the tree's first commit's rounds, s
STEP = 1000.0  # s from a commit's rounds to the next one's
CPU = "Imaginary 9000"
FACTS = {"cpu": CPU, "governor": "performance", "cxx compiler version": "12.2.0", "torch": "2.13.0"}
FIGURES = {
    "dram_copy_bandwidth": 27e9, "dram_read_bandwidth": 31e9, "dram_triad_bandwidth": 26e9,
    "l1_bandwidth": 210e9, "l2_bandwidth": 95e9, "l3_bandwidth": 48e9,
    "l1_size": 32768, "l2_size": 1048576, "l3_size": 33554432,
    "peak_float32": 90e9, "peak_float64": 45e9, "launch_overhead": 1.2e-6, "timer_tick": 2e-8, "threads": 1,
    "device_id": device_id(CPU),
}  # fmt: skip
GPU = GpuActivity(
    sm_before=1.98e9, sm_after=1.94e9, memory_before=2.6e9, memory_after=2.6e9, power=410, temperature=52, reasons=0
)


def rendered(builder, tree):
    """Return the text of the one page that a module of the site makes."""
    files = builder.build(model.read(tree.results, tree.repository))
    (page,) = [each for each in files if isinstance(each, Page)]
    return report.page_templates().get_template(page.template).render(page.context)


def results_file(tree, index, machine=synthetic.MACHINE):
    """Return the results file of a commit."""
    return tree.results / machine / f"{tree.commits[index][:8]}-{synthetic.ENVIRONMENT}.json"


def add_ceilings(tree, index, *, machine=synthetic.MACHINE, device="Cpu", began=None, **changes):
    """Record a session that measured the ceilings with a commit."""
    path = results_file(tree, index, machine)
    data = json.loads(path.read_text())
    when = 1000 * (BEGAN + STEP * index if began is None else began)
    figures = FIGURES | changes
    rows = {
        f"device.{device}.track_{name}": [[value], [], version(device.lower(), name), when, 0.1]
        for name, value in figures.items()
    }
    path.write_text(json.dumps({**data, "results": {**data["results"], **rows}}))


def add_session(tree, index, *, machine=synthetic.MACHINE, **changes):
    """Record what a session that measured a commit found."""
    session = SessionFacts(began=BEGAN + STEP * index, facts=FACTS | changes, code={})
    lines.append_session(results_file(tree, index, machine), session)


def add_gauges(tree, index, *, busy=1.3, on_gpu=False):
    """Give a commit's rounds what real ones have: gauges that felt a busy machine in every third round, as they did."""
    path = tree.results / synthetic.MACHINE / "telemetry" / f"{results_file(tree, index).stem}.jsonl"
    rng = random.Random(index)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    results = json.loads(results_file(tree, index).read_text())
    for number, line in enumerate(lines):
        factor = busy if number % 3 == 0 else 1.0
        line["e"] *= math.sqrt(factor)
        line |= {"j": 3e-5 * factor * math.exp(rng.gauss(0, 1e-3)), "J": 7e-5 * math.exp(rng.gauss(0, 1e-3))}
        line |= {"h": 0.01, "c": 0.1, "a": 0.2, "g": -0.004, "q": 0.1, "u": 0.5, "w": 0.05, "d": 1, "x": 3, "z": 0}
        if on_gpu:
            line["v"] = list(telemetry._short("gpu", GPU))
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    _store_medians(results, lines)
    results_file(tree, index).write_text(json.dumps(results))


def _store_medians(results, lines):
    """Store what the rounds now say, as asv would have."""
    for name, row in results["results"].items():
        if name.startswith("device."):
            continue
        pairs = [(one.strip("'"), case.strip("'")) for one in row[1][0] for case in row[1][1]]
        for place, pair in enumerate(pairs):
            found = sorted(line["e"] for line in lines if line["b"] == name and tuple(line["p"]) == pair)
            if found:
                middle = len(found) // 2
                row[0][place] = found[middle] if len(found) % 2 else (found[middle - 1] + found[middle]) / 2


def trace(samples, *, case="float32-500k", implementation="native", state="hot", **changes):
    """Return a trace of add_mul_exp as `kv lab record` writes it."""
    return {
        "format": TRACE_FORMAT, "kernel": "add_mul_exp", "device": "cpu", "implementation": implementation,
        "case": case, "timer": "HostTimer", "state": state, "batch": 1, "chosen": 1, "tick": 1e-8, "overhead": 3e-8,
        "flags": [], "unit": "s", "began": BEGAN, "seconds": list(samples),
    } | changes  # fmt: skip


def add_trace(clone, samples, name="one.json", process="process-01", **changes):
    """Keep a trace in a clone."""
    path = clone / ".asv" / "traces" / process / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(trace(samples, **changes)))
    return path
