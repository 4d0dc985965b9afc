"""Link the sessions of a fleet: take out of adjusted times how much slower a session is than the first one.

Sessions of identical code differ, and the blocks of a lane were measured in several (results/blocks.py). The anchors
that each block measured again tell the difference for each series, less what gauges and controls explain of it, which
is taken out before. What a link leaves is a step at the border of two blocks, of the size of its error. So a change
point there counts where it is larger than that.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from kernel_velocity.names import CONTROLS
from kernel_velocity.results import blocks
from kernel_velocity.results.blocks import Block, Time
from kernel_velocity.results.measurement import CONTROLS_TOGETHER, Fit, SeriesKey
from kernel_velocity.stats.link import Link, link

if TYPE_CHECKING:
    from kernel_velocity.results.asv_file import Series  # imports asv, .1 s that no report needs

    Times = Mapping[Series, Mapping[str, Time]]  # of the anchors of a block, by series and commit

FEWEST_ANCHORS = 4  # linked by fewer, values are no nearer to the truth than unlinked ones (python -m lab links)


@dataclass(frozen=True, eq=False)
class SessionLinks:
    """How the sessions of a fleet differ, from its recorded blocks, oldest first."""

    recorded: Sequence[Block]
    _moves: dict[tuple[int, int, str, str], list[float]] = field(default_factory=dict, init=False)

    @cached_property
    def _by_lane(self) -> Mapping[tuple[str, str], Sequence[tuple[Block, Times]]]:
        """The blocks of each machine and lane, with the times of its anchors."""
        by_lane: dict[tuple[str, str], list[tuple[Block, Times]]] = {}
        for block in self.recorded:
            times: dict[Series, dict[str, Time]] = {}
            for time in block.times:
                times.setdefault(time.series, {})[time.commit] = time
            for lane in block.lanes:
                by_lane.setdefault((block.machine, lane), []).append((block, times))
        return by_lane

    def of(self, key: SeriesKey, fit: Fit | None, commits: Set[str]) -> dict[str, Link]:
        """Return, for commits of a series, the link of their session to the series' first one.

        Commits of the first session, and of those with too few anchors in common with it, are left out.

        Args:
            fit: how the series is adjusted. None: it is not. commits: with a value of the series.
        """
        series = key.benchmark, (key.implementation, key.case)
        several = self._by_lane.get((key.machine, blocks.lane_of(series)), ())
        here = [(block, times) for block, times in several if not commits.isdisjoint(block.commits)]
        result: dict[str, Link] = {}
        for number, (block, times) in enumerate(here):
            pairs = list(self._pairs(here[0][1], times, series, fit)) if number else []
            if len(pairs) >= FEWEST_ANCHORS:
                linked = link(*zip(*pairs, strict=True))
                result |= {sha: linked for sha in block.commits if sha not in here[0][0].commits}
        return result

    def _pairs(self, first: Times, later: Times, series: Series, fit: Fit | None) -> Iterator[tuple[float, float]]:
        """Yield, for each anchor of two blocks, the step of a series' adjusted log times and its standard error."""
        for commit, after in later.get(series, {}).items():
            before = first.get(series, {}).get(commit)
            if before is None:
                continue
            step = math.log(after.seconds / before.seconds)
            for signal in fit.signals if fit is not None else ():
                if signal.name == CONTROLS_TOGETHER:
                    moves = self._of_controls(first, later, commit, series[0].partition(".")[2])
                else:
                    readings = (after.gauges.get(signal.name), before.gauges.get(signal.name))
                    moves = [math.log(readings[0] / readings[1])] if readings[0] and readings[1] else []
                if not moves:
                    break  # what is taken out of the values is not known of the anchor
                step -= signal.slope * statistics.fmean(moves)
            else:
                yield step, math.hypot(before.error, after.error)

    def _of_controls(self, first: Times, later: Times, commit: str, what: str) -> list[float]:
        """Return the steps of the controls of a device and cache state ("Cpu.time_hot") at an anchor of two blocks."""
        which = id(first), id(later), commit, what
        if which not in self._moves:
            both = (
                (times[commit].seconds, first[series][commit].seconds)
                for series, times in later.items()
                if series[1][0] in CONTROLS and series[0].partition(".")[2] == what
                if commit in times and commit in first.get(series, {})
            )
            self._moves[which] = [math.log(after / before) for after, before in both]
        return self._moves[which]
