"""The stages of a run on a node. Each is a child process that may be cut off; what it finished is in the state."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from kernel_velocity.errors import UsageError
from kernel_velocity.files import replace_text
from kernel_velocity.offline import node_tests
from kernel_velocity.offline.node_slice import FINAL, TIERS, Node
from kernel_velocity.offline.state import Done
from kernel_velocity.runner.environment import first_error_line
from kernel_velocity.runner.report import LIMITS

MACHINE = "node"  # the name under which a node records; `unpack` gives the real one
CRASHES = 6  # of a live stage; one series is given up after three
_KILLED = 128  # and more, or less than 0: a signal ended the process


def _build(node: Node) -> None:
    """Build the suite's own commit in place: the tests, the traces and the timers use it."""
    steps = (
        ["cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"],
        ["cmake", "--build", "build"],
        ["cmake", "--install", "build", "--prefix", "."],
    )
    for step in steps:
        status = node.child("build", step)
        if status != 0:
            if status is not None:
                log = (node.collected / "logs" / "build.log").read_text(encoding="utf-8")
                node.note(f"the kernels do not build here: {first_error_line(log)}")
            break
    node.finish("build", status)
    if status == 0:
        node.ask_cuda()


def _tests(node: Node) -> None:
    """Run the tests: a kernel that is wrong has no speed."""
    report = Path("build", "tests.xml")
    report.unlink(missing_ok=True)
    command = node_tests.command(sys.executable, report, node_tests.files(Path(), node.device), node.device)
    status = node.child("tests", command)
    found = node_tests.summarise(report, node.collected / "run" / "tests.json")
    if found is not None:
        node.say(f"tests: {found['passed']} passed, {found['failed']} failed, {found['skipped']} skipped")
    node.finish("tests", status)


def _live(name: str, *arguments: str) -> Callable[[Node], None]:
    """Return the stage that runs one of our own measuring steps; its result lies in run/ or traces/."""

    def stage(node: Node) -> None:
        target = node.collected / ("traces" if name == "traces" else f"run/{name}.json")
        target.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "kernel_velocity", "offline", name, str(target), "--device", node.device]
        command += [text.format(seconds=node.args.trace_seconds) for text in arguments]
        if node.args.bench and name != "ceilings":
            command += ["--bench", node.args.bench]
        if name == "traces":
            _forget_others(target, node.asked(name))
        status = node.child(name, command)
        for _ in range(CRASHES):
            if status is None or 0 <= status < _KILLED:
                break
            status = node.child(name, command)  # a series took its process with it; in the end it is left out
        node.finish(name, status)

    return stage


def _forget_others(folder: Path, asked: str) -> None:
    """Empty the folder of traces where they are of another request: they are resumed file by file."""
    label = folder / "asked.txt"
    if not label.exists() or label.read_text(encoding="utf-8") != asked:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        replace_text(label, asked)


def _measure(tier: str, newest_only: bool) -> Callable[[Node], None]:
    """Return the stage that measures a tier through asv: newest commits first, as many at a time as time allows."""

    def stage(node: Node) -> None:
        while left := node.unmeasured(tier, newest_only):
            chunk = tuple(left[: _affordable(node, tier)])
            if not chunk:
                node.cut_off = True
            if not chunk or not _measure_chunk(node, tier, chunk):
                return

    return stage


def _affordable(node: Node, tier: str) -> int:
    """Return how many commits fit into what is left of the slice.

    One is begun with half of its time, and in any case where this slice has measured nothing: what is measured is kept.
    """
    if node.clock.left is None:
        return int(node.args.together)
    fitting = node.clock.left / node.state.seconds.get(tier, LIMITS[tier])
    return int(min(node.args.together, max(fitting, 1 if fitting >= 0.5 or not node.measured_any else 0)))


def _measure_chunk(node: Node, tier: str, commits: tuple[str, ...]) -> bool:
    """Measure commits, their rounds interleaved; return whether the next ones may begin."""
    began = time.monotonic()
    command = [
        sys.executable,
        "-m",
        "kernel_velocity",
        "track",
        "--no-site",
        "--no-ceilings",
        "--machine",
        MACHINE,
        "--tier",
        tier,
    ]
    command += ["--range", " ".join(commits), "--rounds", str(node.args.rounds)]
    if node.args.bench:
        command += ["--bench", node.args.bench]
    log = f"track-{tier}"
    node.measured_any = True
    status = node.child(log, command)
    if status not in FINAL:  # cut off, or it could not begin: the next slice tries again
        node.errors |= {} if status is None else {log: UsageError.exit_code}
        return False
    each = (time.monotonic() - began) / len(commits)
    node.state.finish_commits(tier, commits, Done(status, node.asked(tier)), each)
    return True


STAGES: dict[str, Callable[[Node], None]] = {
    "build": _build,
    "tests": _tests,
    "ceilings": _live("ceilings"),
    "newest": _measure(*TIERS["newest"]),
    "timers": _live("timers"),
    "traces": _live("traces", "--seconds", "{seconds}"),
    "core": _measure(*TIERS["core"]),
    "full": _measure(*TIERS["full"]),
}
