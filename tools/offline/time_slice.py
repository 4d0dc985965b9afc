"""``python -m tools offline time_slice OUT``: every stage on the node, in the time that there is.

The step that `sh DIR/run OUT` starts, through node/launch.py.

What is worth most comes first: are the kernels right, what can the machine do, the newest commits, can the timer be
believed, raw traces, then older commits and the other test cases. After each stage the tar in OUT is written anew, so
that whatever ends the run, a batch system or a power cut, leaves the last stage's. Run again, it goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn, TextIO

from benchmarks.harness.sampling import ROUNDS
from tools import lock
from tools.errors import UsageError
from tools.offline import collect, facts
from tools.offline.child import Clock, TerminatedError
from tools.offline.stages import STAGES, Node
from tools.offline.state import load

TIME_IS_UP = 75  # sysexits.h EX_TEMPFAIL: what is left is done by running again
RESERVE = 45.0  # s of a slice kept for ending the stage and writing the tar


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the step's arguments."""
    parser.add_argument("out", type=Path, help="where the tar, the summary and the log appear")
    parser.add_argument("--manifest", type=Path, required=True, help="the pack's manifest.json")
    parser.add_argument(
        "--minutes", type=float, help="end this slice after so many minutes (default: when all is done)"
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds of every series (default {ROUNDS})")
    parser.add_argument(
        "--tier", choices=("core", "full"), default="full", help="the last tier measured (default full)"
    )
    parser.add_argument("--bench", help="only series that match this regular expression")
    parser.add_argument("--together", type=int, default=3, help="commits whose rounds are interleaved (default 3)")
    parser.add_argument("--stages", help=f"only these, of {', '.join(STAGES)}")
    parser.add_argument("--trace-seconds", type=float, default=1.0, help="length of a raw trace, s (default 1)")
    parser.add_argument("--resume-from", type=Path, metavar="TAR", help="go on from an earlier slice on another node")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Run the stages; return 0, 75 where time is up and work is left, or what contract.md says of failures."""
    del err
    began = time.monotonic()
    chosen = _chosen(args.stages, args.tier)
    args.out.mkdir(parents=True, exist_ok=True)
    with lock.held(Path()), _terminated_by_signal():
        clock = Clock(None if args.minutes is None else began + args.minutes * 60 - RESERVE)
        node = _node(args, clock, chosen, out)
        finished = _go_through(node)
        status = node.status()
        node.say(f"summary: {args.out / collect.SUMMARY}")
        node.say(f"tar: {args.out / collect.TAR}")
    if finished:
        return status
    node.say("time is up with work left: run the same command again to go on")
    return status or TIME_IS_UP


def _chosen(text: str | None, tier: str) -> tuple[str, ...]:
    names = tuple(STAGES) if text is None else tuple(name.strip() for name in text.split(","))
    for name in names:
        if name not in STAGES:
            raise UsageError(f"--stages: there is no {name!r}; there are {', '.join(STAGES)}")
    return tuple(name for name in STAGES if name in names and (tier == "full" or name != "full"))


def _node(args: argparse.Namespace, clock: Clock, chosen: tuple[str, ...], out: TextIO) -> Node:
    """Look at the node, and at what was done here before.

    Raises:
        UsageError: this node cannot measure what is asked for.
    """
    if args.together < 1 or args.rounds < 1:
        raise UsageError(f"--together {args.together}, --rounds {args.rounds}: positive numbers are wanted")
    pack = _manifest(args.manifest)
    collected = collect.folder(Path())
    if args.resume_from is not None:
        collect.resume(args.resume_from, collected, root=pack["root"])
    found = facts.gather()
    device = facts.device(found, args.device)
    state = load(collected / "run")
    state.slices += 1
    state.save()
    return Node(
        args=args,
        pack=pack,
        facts=found,
        device=device,
        state=state,
        clock=clock,
        collected=collected,
        chosen=chosen,
        out=out,
    )


def _manifest(path: Path) -> dict[str, Any]:
    try:
        pack: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: no manifest of a pack: {error}") from None
    return pack


def _go_through(node: Node) -> bool:
    """Run the stages that are left; return whether all are done."""
    try:
        node.introduce()
        for name in node.chosen:
            if node.is_done(name):
                continue
            if not node.clock.has(0):
                break
            node.say(f"== {name} ({node.elapsed():.0f} s)")
            STAGES[name](node)
            collect.collect(node)
    except (TerminatedError, KeyboardInterrupt):
        node.say("told to end: what was measured is kept")
    collect.collect(node)
    return all(node.is_done(name) for name in node.chosen)


@contextlib.contextmanager
def _terminated_by_signal() -> Iterator[None]:
    """Turn SIGTERM, which batch systems send some seconds before SIGKILL, into an exception."""
    before = signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _terminate(_number: int, _frame: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough: the tar is being written
    raise TerminatedError(f"process {os.getpid()} was told to end")
