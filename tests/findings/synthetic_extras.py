"""All that a real results tree has beside the times of the synthetic one, and the same with names that want to be code.

Every function takes a tree of `synthetic.build` and adds one thing to it. `whole` adds them all, `hostile` renames
whatever somebody can name. Nothing here is random: the same bytes every time.
"""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta

import git

from kernel_velocity.engine.gpu import GpuActivity
from kernel_velocity.findings import store
from kernel_velocity.findings.finding import Affected, Decision, Finding, Kind, State, slug
from kernel_velocity.machine import device_figures
from kernel_velocity.results import lines
from kernel_velocity.results.identity import environment_of
from kernel_velocity.results.lines import FAILURES, Failure, encode_failure
from kernel_velocity.results.sessions import SessionFacts
from tests import synthetic
from tests.findings import nights
from tests.synthetic import CASES, ENVIRONMENT, IMPLEMENTATIONS, MACHINE, Tree, write_json

BEGAN = 1_767_225_600.0  # Unix time of the first round of `synthetic`, s
STEP = 1000.0  # s from one commit's rounds to the next one's
COLD = {name.replace("hot", "cold"): dict(list(cases.items())[:1]) for name, cases in CASES.items()}
CUDA = {name.replace("Cpu", "Cuda"): cases for name, cases in CASES.items()}
OTHER = "bench-2"  # a second machine, with a GPU
ROUND = {"half_width": 0.004, "cv": 0.02, "autocorrelation": 0.1, "drift": 0.001, "tick": 2e-8, "overhead": 4e-8}
ROUND |= {"warmup": 0.05, "load": 0.7, "switches": 2, "steal": 0.0}
GPU = GpuActivity(
    sm_before=1.98e9, sm_after=1.97e9, memory_before=2.6e9, memory_after=2.6e9, power=410.0, temperature=52.0, reasons=0
)
FACTS = {"cpu": "Imaginary 9000", "driver": "550.54", "governor": "performance", "cxx compiler version": "12.2.0"}
CEILINGS = {
    "Cpu": {
        "dram_copy_bandwidth": 27e9, "dram_read_bandwidth": 31e9, "dram_triad_bandwidth": 26e9,
        "l1_bandwidth": 210e9, "l2_bandwidth": 95e9, "l3_bandwidth": 48e9,
        "l1_size": 32768, "l2_size": 1048576, "l3_size": 33554432,
        "peak_float32": 90e9, "peak_float64": 45e9, "launch_overhead": 1.2e-6, "timer_tick": 2e-8, "threads": 2,
        "device_id": device_figures.device_id("Imaginary 9000"),
    },
    "Cuda": {
        "dram_copy_bandwidth": 3.1e12, "dram_read_bandwidth": 3.2e12, "l2_bandwidth": 7e12, "l2_size": 52428800,
        "peak_float32": 60e12, "peak_tf32": 400e12, "launch_overhead": 2.4e-6, "timer_tick": 1e-6,
        "device_id": device_figures.device_id("Imaginary H200"),
    },
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Names:
    """What people type."""

    messages: tuple[str, ...] = synthetic.MESSAGES
    author: str = "Ada Lovelace"
    branch: str = "main"
    machine: str = MACHINE
    other: str = OTHER
    tags: tuple[str, ...] = ("v0.1.0", "v0.2.0")
    cpu: str = "Imaginary 9000"
    reason: str = "the tile sizes are tuned for the new machine"
    error: str = "RuntimeError: wrong result"
    spelled: tuple[tuple[str, str], ...] = ()  # a name of `synthetic` (parameter, kernel) -> how it is to be written


LONG = "_".join(["a_name_that_goes_on"] * 15)[:300]
SCRIPT = "<script>window.pwned=1</script>"
IMAGE = "<img src=x onerror=window.pwned=1>"
HOSTILE = Names(
    messages=(
        f"{SCRIPT} \"quotes\" 'n' {{{{ 7*7 }}}} {{% raw %}} @name $x &amp; \N{ROCKET}\n\n</script>{IMAGE} <!-- \u202e",
        f"}}}}]]></style>\"><svg onload=window.pwned=1> {LONG}",
        "@subject{safe} $$\\frac{1}{2}$$ <b>bold</b> \u05e9\u05dc\u05d5\u05dd \u200f(RTL)",
        "back`tick ${alert(1)} \\u003c \N{FAMILY}\u200d\N{ROCKET}",
        "\u202egnirts \u2066",
    ),
    author=f"O'Brien &lt;b&gt; \"{{{{ 7*7 }}}}\" @name {LONG}",  # git itself drops < and > from names
    branch="a&<b>'\"$;window.pwned=1",
    machine=f"{IMAGE} \N{ROCKET} \u05e9\u05dc\u05d5\u05dd {LONG[:100]}",
    other="'\"><b>bench 2<!-- %2e#?&amp;",
    tags=("<script>window.pwned=1<", "\u202eVER-\N{ROCKET}"),
    cpu=f"{IMAGE}{LONG}",
    reason=f"{SCRIPT}{IMAGE} \u202eback {LONG}",
    error=f"ValueError: {IMAGE}{SCRIPT} '; window.pwned=1 //",
    spelled=(
        ("float32-5M", f"float32-<b>{{{{5M}}}}</b>{IMAGE}"),
        ("float32-256x256x256", LONG),
        ("float32-512x512x512", "\u05e9\u05dc\u05d5\u05dd \N{ROCKET} 'float32' \"</script>"),
        ("triton", f"tri<i>ton</i>{IMAGE}"),
        ("add_mul_exp", "add_mul_exp_" + LONG[:120]),
    ),
)  # fmt: skip


def whole(folder, names=Names(), further=0) -> Tree:
    """Build a tree with everything. `further` commits follow the plain ones."""
    messages = (*names.messages, *(f"Tidy up, part {number}" for number in range(1, further + 1)))
    folder.mkdir(parents=True, exist_ok=True)
    commits = synthetic.make_repository(folder / "repository", messages, names.author, names.branch)
    tree = Tree(repository=folder / "repository", results=folder / "results", commits=commits)
    suites = {names.machine: {**CASES, **COLD}, names.other: {**CASES, **CUDA}}
    write_json(tree.results / "benchmarks.json", synthetic.benchmarks_json({**CASES, **COLD, **CUDA}))
    for machine, suite in suites.items():
        write_json(tree.results / machine / "machine.json", {**synthetic.machine_json(machine), "cpu": names.cpu})
        on_gpu = {"gpu": GPU} if machine == names.other else {}
        for index, commit in enumerate(commits):
            synthetic.write_commit(tree.results, commit, index, machine=machine, suite=suite, facts={**ROUND, **on_gpu})
    add_errors(tree, names.machine)
    add_figures(tree, names.machine)
    add_ceilings(tree, names.machine, "Cpu")
    add_ceilings(tree, names.other, "Cuda")
    for machine in suites:
        add_sessions(tree, machine, {**FACTS, "cpu": names.cpu})
    add_failure(tree, names.machine, names.error)
    add_tags(tree, names.tags)
    add_findings(tree, names)
    return rename(tree, dict(names.spelled))


def hostile(folder) -> Tree:
    """Build the whole tree, with names that want to be code, letters of all directions, 300 of them, odd numbers."""
    tree = whole(folder, HOSTILE)
    add_oddities(tree)
    return tree


def add_tags(tree: Tree, tags) -> None:
    """Tag commits from the second on, one each."""
    with git.Repo(tree.repository) as repo:
        for tag, commit in zip(tags, tree.commits[1:], strict=False):
            repo.create_tag(tag, ref=commit)


def add_errors(tree: Tree, machine=MACHINE) -> None:
    """Add the largest error of every kernel on the CPU at every commit. `native` is less exact from the step on."""
    names = {name.replace("time_hot", "track_max_error"): cases for name, cases in CASES.items()}
    listed = {
        name: {"name": name, "type": "track", "unit": "1", "version": "1", "params": _axes(cases)}
        for name, cases in names.items()
    }
    _update(tree.results / "benchmarks.json", lambda data: data.update(listed))
    for index, path in _files(tree, machine):
        worse = 3.0 if index >= synthetic.STEP_AT else 1.0
        by_name = {"eager": 1.2e-7, "native": 2.4e-7 * worse, "triton": math.nan if index < 3 else 1.9e-7}
        rows = {
            name: [
                [by_name[implementation] for implementation in IMPLEMENTATIONS for _ in cases],
                _axes(cases),
                "1",
                _started(index),
                0.5,
            ]
            for name, cases in names.items()
        }
        _update(path, lambda data, rows=rows: data["results"].update(rows))


def add_figures(tree: Tree, machine=MACHINE) -> None:
    """Add the compilers' figures of `matmul`: code is smaller and no register spills any more from the step on."""
    for index, path in _files(tree, machine):
        new = index >= synthetic.STEP_AT
        by_name = {
            "Cpu.track_code_bytes": {"avx2": 14534 - 1200 * new, "avx512": 15001},
            "Cuda.track_registers": {"sm_80": 128, "sm_90": 168 - 40 * new},
            "Cuda.track_spill_bytes": {"sm_80": 0, "sm_90": 16 * (not new)},
        }
        rows = {
            f"matmul.{name}": [
                list(values.values()),
                [["'native'"], [repr(value) for value in values]],
                "1",
                _started(index),
            ]
            for name, values in by_name.items()
        }
        _update(path, lambda data, rows=rows: data["results"].update(rows))


def add_ceilings(tree: Tree, machine=MACHINE, device="Cpu") -> None:
    """Add the ceilings of a device at every commit, 1% apart from one session to the next."""
    for index, path in _files(tree, machine):
        pace = 1 + 0.01 * (index % 3)
        rows = {
            f"device.{device}.track_{name}": [
                [value * pace if name.endswith("bandwidth") or name.startswith("peak") else value],
                [],
                device_figures.version(device.lower(), name),
                _started(index),
                0.01,
            ]
            for name, value in CEILINGS[device].items()
        }
        _update(path, lambda data, rows=rows: data["results"].update(rows))


def add_sessions(tree: Tree, machine=MACHINE, facts=None) -> None:
    """Add what the machine was: another driver from the fourth commit on. New code of `matmul` at the step only."""
    for index, path in _files(tree, machine):
        session_facts = {**(FACTS if facts is None else facts), **({"driver": "560.28"} if index >= 3 else {})}
        code = {"add_mul_exp": f"{index:064x}", "matmul": f"{int(index >= synthetic.STEP_AT):064x}"}
        lines.append_session(path, SessionFacts(began=BEGAN + STEP * index - 60, facts=session_facts, code=code))


def add_failure(tree: Tree, machine, error) -> None:
    """Say why `triton` failed at the fourth commit."""
    path = dict(_files(tree, machine))[3]
    lines = [
        encode_failure(Failure(benchmark=name, params=("triton", case), time=BEGAN, error=error))
        for name, cases in CASES.items()
        for case in cases
    ]
    (path.parent / "telemetry" / f"{path.stem}{FAILURES}").write_text("".join(f"{line}\n" for line in lines))


def add_findings(tree: Tree, names=Names()) -> tuple[Finding, ...]:
    """Write a finding of every kind that is made, in every state that it can have. Return them."""
    wanted = [
        *itertools.product(
            [Kind.REGRESSION, Kind.IMPROVEMENT], [state for state in State if state is not State.METHOD]
        ),
        *itertools.product([Kind.ENVIRONMENT], [State.ENVIRONMENT, State.RESOLVED]),
        *itertools.product([Kind.VANISHED], [State.NEW, State.METHOD, State.ACKNOWLEDGED, State.RESOLVED]),
    ]
    findings = tuple(_finding(tree, names, kind, state, number) for number, (kind, state) in enumerate(wanted))
    for finding in findings:
        store.write(tree.results, finding)
    return findings


def _finding(tree: Tree, names: Names, kind: Kind, state: State, number: int) -> Finding:
    benchmark, cases = list(CASES.items())[number % len(CASES)]
    kernel = benchmark.partition(".")[0]
    ratio = {Kind.REGRESSION: 1.031, Kind.IMPROVEMENT: 0.4, Kind.ENVIRONMENT: 1.05, Kind.VANISHED: 1.0}[kind]
    when = datetime(2026, 3, 6, 2, 30, tzinfo=UTC) + timedelta(hours=number)
    whole_range = tree.commits[1 : 2 if number % 3 else 4]
    first = Decision(when=when, who="nightly", state=State.NEW, reason="2 series")
    until = date(2099, 12, 31) if state is State.ACKNOWLEDGED else None
    last = Decision(when=when + timedelta(hours=9), who=names.author, state=state, reason=names.reason, until=until)
    result = Finding(
        id=slug(kernel, kind.value, state.value, f"{number:08x}"),
        kind=kind,
        state=state,
        subject=names.machine if kind is Kind.ENVIRONMENT else kernel,
        found=when,
        commits=() if kind is Kind.ENVIRONMENT else whole_range,
        anchor=tree.commits[0],
        how=f"measured in turns, 8 rounds a side: p 0.00016; {names.reason}",
        ruled_out=("the compiler is the same", names.reason),
        affected=tuple(_affected(names, benchmark, case, ratio, kind) for case in cases),
        decisions=(first,) if state is State.NEW else (first, last),
    )
    changes = {"driver": ("550.54", "560.28"), "cpu": ("Imaginary 8000", names.cpu)}
    return replace(result, changes=changes) if kind is Kind.ENVIRONMENT else result


def _affected(names: Names, benchmark: str, case: str, ratio: float, kind: Kind) -> Affected:
    environment = environment_of(ENVIRONMENT, "native")
    identity = nights.identity(
        machine=names.machine, environment=environment, benchmark=benchmark, case=case, method="a1b2c3d4"
    )
    if kind in (Kind.ENVIRONMENT, Kind.VANISHED):
        return Affected(identity=identity, ratio=ratio)
    return Affected(identity=identity, ratio=ratio, low=ratio - 0.006, high=ratio + 0.006, p=0.00016, rounds=8)


def add_oddities(tree: Tree) -> None:
    """Add a machine that nothing describes: one commit, times that are hardly any, endless, absent, or no numbers."""
    odd = [1e-12, math.nan, None, 4.2e5, math.nan, 1e-9]
    path = synthetic.write_commit(tree.results, tree.commits[2], 2, machine="odd", telemetry=False)
    lows, highs = [-math.inf, *[None] * 5], [math.inf, *[None] * 5]
    row = [odd, _axes(CASES["matmul.Cpu.time_hot"]), "1", None, None, lows, highs]
    endless = [[math.inf] * 6, *row[1:]]
    _update(path, lambda data: data["results"].update({"matmul.Cpu.time_hot": row, "matmul.Cpu.time_cold": endless}))


def rename(tree: Tree, spelled) -> Tree:
    """Write parameters and kernels otherwise, wherever results, telemetry and findings name them."""
    for path in sorted(tree.results.rglob("*")):
        if path.suffix in (".json", ".jsonl", ".toml") and path.is_file():
            text = path.read_text(encoding="utf-8")
            for old, new in spelled.items():
                for wrap in (repr, str):  # asv stores parameters as Python would write them
                    # TOML knows JSON's escapes, but no surrogate pairs
                    text = text.replace(json.dumps(wrap(old)), json.dumps(wrap(new), ensure_ascii=False))
                if new.isidentifier():
                    text = text.replace(f'"{old}.', f'"{new}.')
            path.write_text(synthetic.without_checksums(text) if spelled else text, encoding="utf-8")
    return tree


def _axes(cases) -> list[list[str]]:
    return [[repr(implementation) for implementation in IMPLEMENTATIONS], [repr(case) for case in cases]]


def _started(index: int) -> int:
    return int(1000 * (BEGAN + STEP * index))  # ms


def _files(tree: Tree, machine):
    """Yield place and results file of every commit that a machine measured."""
    for index, commit in enumerate(tree.commits):
        path = tree.results / machine / f"{commit[:8]}-{ENVIRONMENT}.json"
        if path.exists():
            yield index, path


def _update(path, change) -> None:
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    write_json(path, data)
