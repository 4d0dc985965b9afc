"""What a night prints at its end, and the files that it writes of its verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

from tools import finding_text, run_report, verdict_formats, verdict_markdown, verdict_text
from tools.atomic import replace_text
from tools.finding import slug
from tools.night_concluding import Concluded
from tools.session import Session
from tools.verdict import Verdict

FORMATS: Mapping[str, Callable[[Verdict], str]] = {
    "markdown": verdict_markdown.as_markdown,
    "json": verdict_formats.as_json,
    "junit": verdict_formats.as_junit,
    "atom": lambda verdict: verdict_formats.as_atom(verdict, feed=f"urn:kernel-velocity:{slug(verdict.title)}"),
}


def write(name: str, path: Path, verdict: Verdict) -> None:
    """Write a verdict in one of FORMATS; the file is never seen half written."""
    replace_text(path, FORMATS[name](verdict))


def say(concluded: Concluded, work: Session, out: TextIO) -> None:
    """Print the comparison of the night's commits, the findings, and the verdict in the last line."""
    verdict = concluded.verdict
    table = run_report.speed_table(work.measurements(), tuple(reversed(work.commits)))
    if table:
        print(f"\n{table}", file=out)
    for group, items in (("failed build", verdict.failed_builds), ("failed", verdict.failures)):
        for failed in items:
            print(f"{group}: {failed.what[:8] if group == 'failed build' else failed.what}: {failed.why}", file=out)
    for text in (*verdict.errors, *(f"note: {note}" for note in verdict.notes)):
        print(text, file=out)
    for stale in verdict.stale:
        print(f"note: {verdict_text.stale(stale)}", file=out)
    for line in concluded.refuted:
        print(f"refuted: {line}", file=out)
    if verdict.findings:
        print(f"\n{finding_text.table(verdict.findings)}", file=out)
    said = f"{verdict.title}: {verdict_text.summary(verdict)} ({verdict.measured} series measured)"
    print(f"\n{said}", file=out, flush=True)
