"""``kv offline time_slice OUT``: every stage on the node, in the time that there is.

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

from kernel_velocity import lock
from kernel_velocity.errors import UsageError
from kernel_velocity.harness.sampling import ROUNDS
from kernel_velocity.offline import child, collect, facts
from kernel_velocity.offline.child import Clock, TerminatedError
from kernel_velocity.offline.stages import STAGES, TIME_IS_UP, Node, State, load

_ENDING = (signal.SIGTERM, signal.SIGHUP)
RESERVE = 45.0  # s of a slice kept for ending the stage and writing the tar


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the step's arguments."""
    parser.add_argument("out", type=Path, help="where the tar, the summary and the log appear")
    parser.add_argument("--manifest", type=Path, required=True, help="the pack's manifest.json")
    parser.add_argument(
        "--minutes", type=float, help="end this slice after so many minutes (default: when all is done)"
    )
    parser.add_argument("--began", type=float, help="Unix time from which --minutes count (default: now)")
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
    spent = 0.0 if args.began is None else max(0.0, time.time() - args.began)  # by the set-up
    chosen = _chosen(args.stages, args.tier)
    args.out.mkdir(parents=True, exist_ok=True)
    until = None if args.minutes is None else time.monotonic() + args.minutes * 60 - RESERVE - spent
    try:
        with lock.held(Path()), _ended_by_signals():
            child.end_leftovers(Path())
            node = _node(args, Clock(until), chosen, out)
            _go_through(node)
    except TerminatedError as error:
        print(f"{error} before anything was measured, or while it was packed: run the same command again", file=out)
        return TIME_IS_UP
    node.say(f"summary: {args.out / collect.SUMMARY}")
    node.say(f"tar: {args.out / collect.TAR}")
    if node.cut_off:
        node.say("time is up with work left: run the same command again to go on")
    return node.status()


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
    passed_over = None
    if args.resume_from is not None:
        passed_over = collect.resume(args.resume_from, collected, root=pack["root"])
    found = facts.gather()
    device = facts.device(found, args.device)
    state = load(collected / "run")
    _check_same_machine(state, found.machine(device), args.out)
    state.slices += 1
    state.save()
    node = Node(
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
    if passed_over is not None:
        node.say(f"note: {passed_over}")
    return node


def _check_same_machine(state: State, machine: str, out: Path) -> None:
    """Refuse to mix two machines in one history.

    Raises:
        UsageError: what was measured so far, here or in the tar, is of another one.
    """
    if state.machine not in (None, machine):
        raise UsageError(f"{out}: holds what {state.machine} measured, this is {machine}: name another folder")
    state.machine = machine


def _manifest(path: Path) -> dict[str, Any]:
    try:
        pack: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: no manifest of a pack: {error}") from None
    return pack


def _go_through(node: Node) -> None:
    """Run the stages that are left, and gather what they brought."""
    try:
        node.introduce()
        for name in node.chosen:
            if node.is_done(name):
                continue
            if not node.clock.has(0):
                node.cut_off = True
                break
            node.say(f"== {name} ({node.elapsed():.0f} s)")
            STAGES[name](node)
            collect.collect(node)
    except (TerminatedError, KeyboardInterrupt):
        node.cut_off = True
        node.say("told to end: what was measured is kept")
    collect.collect(node)


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Turn what ends a run into an exception: SIGTERM, which batch systems send before SIGKILL, and a lost terminal.

    SIGINT gets its default back: a shell starts background jobs with it ignored, and children inherit that, who
    would then not save what they have when they are cut off.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    numbers = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]  # nohup ignores SIGHUP
    before = {number: signal.signal(number, _terminate) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _terminate(number: int, _frame: object) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # once is enough: the tar is being written
    raise TerminatedError(f"process {os.getpid()} was told to end")
