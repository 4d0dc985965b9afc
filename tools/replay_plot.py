"""The picture of a replay: error against time, a mark for every rule, as a PNG that can be put into a paper."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from tools.replaying import Proof

SIZE = (9.0, 5.5)  # inches
RESOLUTION = 120  # dots per inch


def write(found: Proof, path: Path) -> Path | None:
    """Draw median error (mark) and p90 (end of its line) of the sets of a replay; return the path.

    None, and nothing written, where matplotlib (extra `plot`) is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        return None
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - an extra of its own
    from matplotlib.figure import Figure  # noqa: PLC0415

    drawn = Figure(figsize=(SIZE[0], SIZE[1] * len(found.results)), dpi=RESOLUTION, layout="constrained")
    FigureCanvasAgg(drawn)
    panels = drawn.subplots(len(found.results), 1, squeeze=False)[:, 0]
    for panel, each in zip(panels, found.results, strict=True):
        shown = [summary for summary in each.summaries if summary.median > 0]
        times = [summary.total / summary.traces for summary in shown]
        medians = [100 * summary.median for summary in shown]
        panel.vlines(times, medians, [100 * summary.p90 for summary in shown], color="#9aa4ad", linewidth=1)
        panel.scatter(times, medians, color="#1f8a5b", zorder=3)
        for summary, time, median in zip(shown, times, medians, strict=True):
            panel.annotate(summary.rule, (time, median), xytext=(4, 4), textcoords="offset points", fontsize=7)
        panel.set(xscale="log", yscale="log", title=f"{each.title}: {each.traces} traces, seed {found.seed}")
        panel.set(xlabel="time per trace, s", ylabel="error, %: median (mark), p90 (end of line)")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    drawn.savefig(temporary, format="png", metadata={"Software": None})
    temporary.replace(path)
    return path
