"""The picture of a replay: error against time, a mark for every rule, as a PNG that can be put into a paper."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from tools.replaying import Proof

SIZE = (10.0, 5.0)  # inches, of a set's panel
COLOURS = 10  # in matplotlib's cycle, C0 to C9; then another mark begins
MARKS = ("o", "s", "^")
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
        panel.vlines(times, medians, [100 * summary.p90 for summary in shown], color="#80849a", linewidth=1)
        for index, (summary, time, median) in enumerate(zip(shown, times, medians, strict=True)):
            mark = {"color": f"C{index % COLOURS}", "marker": MARKS[index // COLOURS % len(MARKS)]}
            panel.scatter([time], [median], label=summary.rule, zorder=3, **mark)
        panel.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=7)  # labels at the marks would overlap
        panel.set(xscale="log", yscale="log", title=f"{each.title}: {each.traces} traces, seed {found.seed}")
        panel.set(xlabel="time per trace, s", ylabel="error, %: median (mark), p90 (end of line)")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    drawn.savefig(temporary, format="png", metadata={"Software": None})
    temporary.replace(path)
    return path
