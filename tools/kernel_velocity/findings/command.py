"""``kv findings``: list and show findings, and decide about them.

A finding is a file, `results/findings/<id>.toml`, and a decision changes it: commit it like any other file.
"""

from __future__ import annotations

import argparse
import getpass
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TextIO

from kernel_velocity import progress, units
from kernel_velocity.errors import HistoryError, ResultsError, UsageError
from kernel_velocity.findings import decisions, store, today
from kernel_velocity.findings import text as finding_text
from kernel_velocity.findings.decisions import Expectation
from kernel_velocity.findings.finding import OPEN, Finding, State, slug
from kernel_velocity.findings.store import Stored
from kernel_velocity.results import git
from kernel_velocity.results.git import SHORT

UNKNOWN = "somebody"  # who decides, where neither git nor the system knows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    actions = parser.add_subparsers(dest="action", metavar="action")
    listing = actions.add_parser("list", help="the open findings (the default)")
    listing.add_argument("--all", action="store_true", help="list expected, acknowledged and closed findings, too")
    listing.add_argument("--json", action="store_true", help="print them as JSON, with all fields")
    show = actions.add_parser("show", help="print a finding with its evidence and decisions")
    acknowledge = actions.add_parser("acknowledge", help="acknowledge a finding until a day")
    acknowledge.add_argument("--until", required=True, metavar="YYYY-MM-DD", help="the last day of the acknowledgement")
    reopen = actions.add_parser("reopen", help="open a finding again")
    expect = actions.add_parser("expect", help="say that the commits of a range change the speed on purpose")
    expect.add_argument("range", metavar="RANGE", help="a git range, or one revision, such as HEAD~3..HEAD")
    expect.add_argument("--bench", default="", help="only series that match this regular expression (default: all)")
    for action in (show, acknowledge, reopen):
        action.add_argument("id", metavar="ID", help="the id of the finding, or its beginning")
    for action in (acknowledge, expect, reopen):
        action.add_argument("--reason", required=action is not reopen, default="", help="why, for the next reader")
        action.add_argument("--by", help="who decides (default: git's user.name)")
    for action in (parser, listing, show, acknowledge, reopen, expect):
        default = argparse.SUPPRESS  # given before or after the action: the default of one must not undo the other
        action.add_argument("--results", type=Path, default=default, help="asv's results directory (default: results)")
        action.add_argument("--repository", type=Path, default=default, help="the clone of the kernels (default: here)")


def run(args: argparse.Namespace, out: TextIO, err: TextIO) -> int:
    """Do the action. Return the exit status: 2 where a file of findings cannot be read."""
    args.results = getattr(args, "results", Path("results"))
    args.repository = getattr(args, "repository", Path())
    if not args.results.is_dir():
        raise ResultsError(f"{args.results}: no such directory, asv's results_dir is wanted: name it with --results")
    stored = store.read(args.results)
    for problem in stored.problems:
        print(f"error: {problem}", file=err)
    now = datetime.now(UTC).replace(microsecond=0)
    if args.action in (None, "list", "show"):
        _print(args, stored, now, out, err)
    elif args.action == "expect":
        _expect(args, stored, now, out)
    else:
        _decide(args, stored, now, out)
    return ResultsError.exit_code if stored.problems else 0


def _print(args: argparse.Namespace, stored: Stored, now: datetime, out: TextIO, err: TextIO) -> None:
    """Show a finding, or list all of them."""
    if args.action == "show":
        finding = _finding(stored, args.id, UNKNOWN, now)
        print(finding_text.details(finding, today=_today([finding], args, err).get(finding.id, "")), file=out)
        return
    findings = [decisions.refreshed(finding, who=UNKNOWN, when=now) for finding in stored.findings]
    shown = [finding for finding in findings if getattr(args, "all", False) or finding.state in OPEN]
    sentences = _today(shown, args, err)
    if getattr(args, "json", False):
        data = [finding_text.as_data(finding) | {"today": sentences.get(finding.id) or None} for finding in shown]
        print(json.dumps(data, indent=1, ensure_ascii=False), file=out)
        return
    print(finding_text.table(shown) if shown else "no finding is open", file=out)
    for id_, sentence in sentences.items():
        if sentence:
            print(f"{id_}: {sentence}", file=out)
    if hidden := len(findings) - len(shown):
        print(f"{units.count(hidden, 'finding')} expected, acknowledged or closed: --all lists all", file=out)


def _today(findings: Sequence[Finding], args: argparse.Namespace, err: TextIO) -> Mapping[str, str]:
    """Return what the values recorded by now no longer hold of findings, by id. A clone that cannot tell is named."""
    try:
        with progress.reported(err):
            return today.of_findings(findings, args.results, args.repository)
    except HistoryError as error:
        print(f"note: whether today's values still hold the findings is unknown: {error}", file=err)
        return {}


def _finding(stored: Stored, beginning: str, who: str, now: datetime) -> Finding:
    """Return the finding of an id or of the beginning of one, as of now.

    Raises:
        UsageError: there is none, or several.
    """
    alike = [finding for finding in stored.findings if finding.id.startswith(beginning)]
    matches = [finding for finding in alike if finding.id == beginning] or alike
    if len(matches) == 1:
        return decisions.refreshed(matches[0], who=who, when=now)
    if matches:
        raise UsageError(
            f"{beginning!r} is the beginning of several ids: {', '.join(finding.id for finding in matches)}"
        )
    raise UsageError(f"no finding {beginning!r}: `kv findings list --all` lists all")


def _decide(args: argparse.Namespace, stored: Stored, now: datetime, out: TextIO) -> None:
    """Acknowledge a finding, or open it again."""
    who = _who(args)
    finding = _finding(stored, args.id, who, now)
    if args.action == "acknowledge":
        decided = decisions.acknowledge(finding, reason=args.reason, until=_day(args.until), who=who, when=now)
    else:
        decided = decisions.reopen(finding, reason=args.reason or "reopened", who=who, when=now)
    _write(args.results, finding, decided, out)


def _write(results: Path, finding: Finding, decided: Finding, out: TextIO) -> None:
    path = store.write(results, decided)
    print(f"{decided.id}: {finding.state.value} -> {decided.state.value}; commit {path}", file=out)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--until {text!r}: a day such as 2026-12-24 is wanted") from None


def _who(args: argparse.Namespace) -> str:
    if name := args.by or git.run(args.repository, "config", "user.name").stdout.strip():
        return str(name)
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container whose user has no name; KeyError before Python 3.13
        return UNKNOWN


def _expect(args: argparse.Namespace, stored: Stored, now: datetime, out: TextIO) -> None:
    """Record an expectation, and apply it to the recorded findings."""
    if not decisions.is_expression(args.bench):
        raise UsageError(f"--bench {args.bench!r} is not a regular expression")
    commits = tuple(reversed(git.commits(args.repository, args.range)))
    ends = dict.fromkeys(sha[:SHORT] for sha in (commits[0], commits[-1]))
    expectation = Expectation(
        id=slug("expect", *ends, args.bench[:40], f"{now:%Y%m%d-%H%M%S}"),
        commits=commits,
        bench=args.bench,
        reason=args.reason,
        who=_who(args),
        when=now,
    )
    path = store.write(args.results, expectation)
    print(f"{units.count(len(commits), 'commit')} may change {args.bench or 'every series'}; commit {path}", file=out)
    for finding in stored.findings:
        decided = decisions.expected(finding, [expectation], when=now)
        if decided.state is State.EXPECTED and finding.state is not State.EXPECTED:
            _write(args.results, finding, decided, out)
