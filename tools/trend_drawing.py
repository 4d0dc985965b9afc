"""Draws a picture of trends as SVG or PNG, through matplotlib (extra `plot`); the same bytes every time."""

from __future__ import annotations

import importlib.util
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tools import palette
from tools.errors import UsageError
from tools.finding_text import plain
from tools.trend_panels import Line, Mark, Panel, Picture

WIDTH, HEIGHT, MARGIN = 9.0, 3.4, 0.1  # inches; the height is a panel's
RESOLUTION = 160  # dots per inch of a PNG
LABELS = 16  # commits that are named along the axis, at most
CROWDED = 60  # more commits than this have no dots
BAND, EDGE = 0.18, 0.6  # opacity of an interval's band, and of the bar where a value stands alone
NAMED, MARKED, TITLED = 28, 48, 90  # letters of a name in a legend, at a line, in a title: what fits
DPI_OF_SVG = 72
TAG, FINDING = ("top", (0, (1, 2))), ("bottom", (0, (4, 2)))  # where the words of an upright line stand, its dashes


@dataclass(frozen=True, kw_only=True)
class Ink:
    """Colours of everything that is no line; those of the pages."""

    ground: str
    ink: str
    muted: str
    rule: str
    better: str
    worse: str


LIGHT = Ink(ground="#ffffff", ink="#1c2024", muted="#59636d", rule="#dde2e6", better="#14713f", worse="#b3261e")
DARK = Ink(ground="#1c2024", ink="#e7eaec", muted="#a3aeb8", rule="#343a40", better="#62c990", worse="#f2887f")


def draw(found: Picture, *, kind: str, dark: bool = False) -> bytes:
    """Return the picture as a file's contents.

    Args:
        kind: "svg" or "png". dark: for a dark ground.

    Raises:
        UsageError: matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("matplotlib is not installed, which draws: `pip install 'matplotlib>=3.8'` (extra `plot`)")
    import matplotlib as mpl  # noqa: PLC0415 - an extra of its own
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415
    from matplotlib.layout_engine import ConstrainedLayoutEngine  # noqa: PLC0415

    ink = DARK if dark else LIGHT
    title = "; ".join(panel.title for panel in found.panels)
    said = {
        "Title": plain(title),
        **({"Date": None, "Creator": "kernel-velocity"} if kind == "svg" else {"Software": None}),
    }
    with mpl.rc_context(_settings(ink)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # a name in letters that it lacks
        size = (WIDTH, HEIGHT * len(found.panels))
        layout = ConstrainedLayoutEngine(w_pad=MARGIN, h_pad=MARGIN)
        figure = Figure(figsize=size, dpi=DPI_OF_SVG if kind == "svg" else RESOLUTION, layout=layout)
        FigureCanvasAgg(figure)
        axes = figure.subplots(len(found.panels), 1, squeeze=False, sharex=True)[:, 0]
        for axis, panel in zip(axes, found.panels, strict=True):
            _panel(axis, panel, found, ink)
        _commits(axes[-1], found.commits)
        file = io.BytesIO()
        figure.savefig(file, format=kind, metadata=said)
    return file.getvalue()


def _settings(ink: Ink) -> dict[str, Any]:
    return {
        "svg.hashsalt": "kernel-velocity",  # ids are hashes: of the same salt the same ones
        "svg.fonttype": "none",  # text stays text: to be found, read out, and set in the reader's font
        "text.parse_math": False,  # names are data: a $ is a $
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],  # which matplotlib brings
        "font.size": 9,
        "figure.facecolor": ink.ground,
        "savefig.facecolor": ink.ground,
        "axes.facecolor": ink.ground,
        "axes.edgecolor": ink.rule,
        "axes.labelcolor": ink.muted,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.spines.left": False,
        "axes.grid": True,
        "axes.grid.axis": "y",
        "axes.axisbelow": True,
        "grid.color": ink.rule,
        "grid.linewidth": 0.6,
        "text.color": ink.ink,
        "xtick.color": ink.rule,
        "xtick.labelcolor": ink.muted,
        "ytick.color": ink.rule,
        "ytick.labelcolor": ink.muted,
        "ytick.major.size": 0,
        "legend.frameon": False,
    }


def _panel(axis: Any, panel: Panel, found: Picture, ink: Ink) -> None:
    axis.set_title(_short(panel.title, TITLED), loc="left", fontsize=10, fontweight="bold", pad=20)
    axis.text(0, 1.03, _short(panel.subtitle, TITLED), transform=axis.transAxes, fontsize=8, color=ink.muted)
    axis.set_ylabel(found.unit)
    hues = palette.colours(tuple(line.name for line in panel.lines))
    for line in panel.lines:
        _line(axis, line, hues[line.name], ink)
    axis.set_xlim(-0.5, len(found.commits) - 0.5)
    axis.set_ylim(0, 1.12 * _top(panel.lines))
    for place, names in found.tags.items():
        _upright(axis, place, names, ink.muted, TAG)
    for place in sorted({mark.place for mark in panel.findings}):
        here = [mark for mark in panel.findings if mark.place == place]
        more = f", and {len(here) - 1} more" if len(here) > 1 else ""
        _upright(axis, place, f"{here[0].text}{more}", _tone(here[0], ink), FINDING)
    axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8, labelcolor=ink.ink)


def _top(lines: Sequence[Line]) -> float:
    """Return where the value axis ends: intervals from few rounds can be so wide that they would hide every step."""
    highest = [float(np.nanmax(line.values)) for line in lines if not np.isnan(line.values).all()]
    return max(highest, default=1.0)


def _line(axis: Any, line: Line, colour: str, ink: Ink) -> None:
    places = np.arange(len(line.values))
    dots = {"marker": "o", "markersize": 3.2} if len(places) <= CROWDED else {}
    axis.plot(places, line.values, color=colour, linewidth=1.6, label=_named(line.name), zorder=3, **dots)
    axis.fill_between(places, line.low, line.high, color=colour, alpha=BAND, linewidth=0, zorder=2)
    known = ~np.isnan(line.values)
    around = np.pad(known, 1)
    alone = known & ~around[:-2] & ~around[2:]
    axis.vlines(places[alone], line.low[alone], line.high[alone], color=colour, alpha=EDGE, linewidth=1.6, zorder=2)
    if line.failed:
        at = {"linestyle": "none", "marker": "x", "markersize": 5, "clip_on": False, "zorder": 4}
        axis.plot(line.failed, [0] * len(line.failed), color=colour, label=f"{_named(line.name)} failed", **at)
    for step in line.steps:
        value, tone = line.values[step.place], _tone(step, ink)
        axis.plot([step.place], [value], marker="^" if step.better else "v", color=tone, markersize=7, zorder=5)
        spot = {"textcoords": "offset points", "xytext": (0, 8), "ha": "center", "fontsize": 7.5, "zorder": 6}
        axis.annotate(step.text, (step.place, value), color=tone, **spot)


def _tone(mark: Mark, ink: Ink) -> str:
    return ink.muted if mark.better is None else ink.better if mark.better else ink.worse


def _upright(axis: Any, place: int, text: str, colour: str, style: tuple[str, tuple[int, tuple[int, int]]]) -> None:
    """Draw a line through a commit, and what it stands for beside it, at its upper or lower end."""
    end, dashes = style
    axis.axvline(place, color=colour, linewidth=0.9, linestyle=dashes, zorder=1)
    above = end == "top"  # its words on the left: those of another at the lower end stand on the right
    where = {"transform": axis.get_xaxis_transform(), "rotation": 90, "va": end, "ha": "right" if above else "left"}
    axis.text(place, 0.98 if above else 0.02, _short(text, MARKED), fontsize=7, color=colour, **where)


def _commits(axis: Any, commits: Sequence[str]) -> None:
    stride = -(-len(commits) // LABELS)
    shown = range(0, len(commits), stride)
    axis.set_xticks(list(shown), [commits[place] for place in shown], rotation=45, ha="right", fontsize=7.5)
    axis.set_xlabel("commit, in the order of the history")


def _named(name: str) -> str:
    """Return a name for a legend; one that begins with an underscore would be left out of it."""
    return f"\u200a{_short(name)}" if name.startswith("_") else _short(name)


def _short(text: str, most: int = NAMED) -> str:
    shown = plain(text)
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"
