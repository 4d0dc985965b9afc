"""What a night prints at its end, and the files that it writes of its verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

from kernel_velocity.files import replace_text
from kernel_velocity.findings import text as finding_text
from kernel_velocity.findings import verdict_formats, verdict_markdown, verdict_text
from kernel_velocity.findings.finding import slug
from kernel_velocity.findings.verdict import Verdict
from kernel_velocity.nightly.conclude import Concluded
from kernel_velocity.runner import report as run_report
from kernel_velocity.runner.session import Session

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
