"""``kv findings``: what nights and gates found, and what was decided about it.

A finding is a file, `results/findings/<id>.toml`, and a decision a change of it: commit it like any other.
"""

from __future__ import annotations

import argparse
import getpass
import json
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TextIO

from kernel_velocity import units
from kernel_velocity.errors import ResultsError, UsageError
from kernel_velocity.findings import decisions, store
from kernel_velocity.findings import text as finding_text
from kernel_velocity.findings.decisions import Expectation
from kernel_velocity.findings.finding import Finding, State, slug
from kernel_velocity.findings.store import Stored
from kernel_velocity.results import git
from kernel_velocity.results.git import SHORT

UNKNOWN = "somebody"  # who decides, where neither git nor the system knows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    _shared(parser)
    actions = parser.add_subparsers(dest="action", metavar="action")
    shown = actions.add_parser("list", help="those that wait for somebody (the default)")
    shown.add_argument("--all", action="store_true", help="those, too, that are expected, acknowledged or over")
    shown.add_argument("--json", action="store_true", help="as JSON, with everything that is known")
    one = actions.add_parser("show", help="all that is known of one")
    left = actions.add_parser("acknowledge", help="leave one alone until the end of a day")
    left.add_argument("--until", required=True, metavar="YYYY-MM-DD", help="the last day that it is left alone")
    again = actions.add_parser("reopen", help="open one again")
    wanted = actions.add_parser("expect", help="say that the commits of a range change the speed on purpose")
    wanted.add_argument("range", metavar="RANGE", help="a git range, or one revision, such as HEAD~3..HEAD")
    wanted.add_argument("--bench", default="", help="a regular expression that the series match (default: all)")
    for action in (one, left, again):
        action.add_argument("id", metavar="ID", help="of the finding, or what only its id begins with")
    for action, needed in ((left, True), (wanted, True), (again, False)):
        action.add_argument("--reason", required=needed, default="", help="why; the next reader will want to know")
        action.add_argument("--by", help="who decides (default: git's user.name)")
    for action in (shown, one, left, again, wanted):
        _shared(action)


def _shared(parser: argparse.ArgumentParser) -> None:
    default = argparse.SUPPRESS  # given before or after the action: the one must not undo the other
    parser.add_argument("--results", type=Path, default=default, help="asv's results directory (default: results)")
    parser.add_argument("--repository", type=Path, default=default, help="the clone of the kernels (default: here)")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Do what is asked; return the exit status: 2 where a file of findings cannot be read."""
    args.results = getattr(args, "results", Path("results"))
    args.repository = getattr(args, "repository", Path())
    if not args.results.is_dir():
        raise ResultsError(f"{args.results}: no such directory, asv's results_dir is wanted: name it with --results")
    stored = store.read(args.results)
    for problem in stored.problems:
        print(f"error: {problem}", file=err)
    now = datetime.now(UTC).replace(microsecond=0)
    {None: _list, "list": _list, "show": _show, "expect": _expect}.get(args.action, _decide)(args, stored, now, out)
    return ResultsError.exit_code if stored.problems else 0


def _list(args: argparse.Namespace, stored: Stored, now: datetime, out: TextIO) -> None:
    items = [decisions.refreshed(item, who=UNKNOWN, when=now) for item in stored.findings]
    everything = getattr(args, "all", False)
    shown = [item for item in items if everything or finding_text.is_open(item)]
    if getattr(args, "json", False):
        print(json.dumps([finding_text.as_data(item) for item in shown], indent=1, ensure_ascii=False), file=out)
        return
    print(finding_text.table(shown) if shown else "no finding waits for anybody", file=out)
    hidden = len(items) - len(shown)
    if hidden:
        print(f"{units.count(hidden, 'finding')} expected, acknowledged or over: --all lists all", file=out)


def _show(args: argparse.Namespace, stored: Stored, now: datetime, out: TextIO) -> None:
    found = decisions.refreshed(_find(stored.findings, args.id), who=UNKNOWN, when=now)
    print(finding_text.details(found), file=out)


def _find(findings: Sequence[Finding], wanted: str) -> Finding:
    """Return the finding of an id, or of the only one that begins so.

    Raises:
        UsageError: there is none, or several.
    """
    found = [item for item in findings if item.id == wanted] or [
        item for item in findings if item.id.startswith(wanted)
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{wanted!r} begins several ids: {', '.join(item.id for item in found)}")
    raise UsageError(f"no finding {wanted!r}: `kv findings list --all` names them")


def _decide(args: argparse.Namespace, stored: Stored, now: datetime, out: TextIO) -> None:
    found = decisions.refreshed(_find(stored.findings, args.id), who=_who(args), when=now)
    if args.action == "acknowledge":
        decided = decisions.acknowledge(found, reason=args.reason, until=_day(args.until), who=_who(args), when=now)
    else:
        decided = decisions.reopen(found, reason=args.reason or "reopened", who=_who(args), when=now)
    path = store.write(args.results, decided)
    print(f"{decided.id}: {found.state.value} -> {decided.state.value}; commit {path}", file=out)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--until {text!r}: a day such as 2026-12-24 is wanted") from None


def _who(args: argparse.Namespace) -> str:
    if args.by:
        return str(args.by)
    name = git.run(args.repository, "config", "user.name").stdout.strip()
    if name:
        return name
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container whose user has no name; KeyError before Python 3.13
        return UNKNOWN


def _expect(args: argparse.Namespace, stored: Stored, now: datetime, out: TextIO) -> None:
    """Record an expectation, and apply it to what was found already."""
    commits, moment = _commits(args.repository, args.range), f"{now:%Y%m%d-%H%M%S}"
    wanted = Expectation(
        id=slug("expect", *(sha[:SHORT] for sha in dict.fromkeys((commits[0], commits[-1]))), args.bench[:40], moment),
        commits=commits,
        bench=_expression(args.bench),
        reason=args.reason,
        who=_who(args),
        when=now,
    )
    path = store.write(args.results, wanted)
    print(f"{units.count(len(commits), 'commit')} may change {args.bench or 'every series'}; commit {path}", file=out)
    for item in stored.findings:
        decided = decisions.expected(item, [wanted], when=now)
        if decided.state is State.EXPECTED and item.state is not State.EXPECTED:
            path = store.write(args.results, decided)
            print(f"{item.id}: {item.state.value} -> expected; commit {path}", file=out)


def _commits(repository: Path, wanted: str) -> tuple[str, ...]:
    """Return the commits of a range along first parents, oldest first."""
    alone = [] if ".." in wanted else ["--no-walk"]
    done = git.run(repository, "rev-list", "--first-parent", "--reverse", *alone, "--end-of-options", wanted, "--")
    found = tuple(done.stdout.split())
    if done.returncode != 0 or not found:
        raise UsageError(f"RANGE {wanted!r} names no commit of this repository; {git.EXAMPLES}")
    return found


def _expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise UsageError(f"--bench {text!r} is not a regular expression: {error}") from None
    return text
