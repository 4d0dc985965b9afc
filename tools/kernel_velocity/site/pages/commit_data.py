"""A commit's page as data, for other tools: `data/commit-<first 12 digits of its hash>`.

- `commit`, `page`, `parents`, `tags`; `last_tag`: the full SHA of the newest tagged commit before it, null for none;
- `findings`: the ids of those that name it;
- `places`: for each machine and environment with a value of it, `values`: how many there are, `compared`: of how many
  there is one before, and how many are `changed`: `faster`, `slower`, `without a time now`;
- `changed`: the page's first table, in its order, as columns of equal length: what the value is of (`series` is its
  data file), `outcome`, times in s per call, `finding`; and `before`, `tag`, `best`, each with the `commit` that it is
  compared with, the `ratio` of speeds, new over old, and whether the two intervals are `overlapping`.

What did not change is counted here, and held by the series' own files. null: unknown, or there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernel_velocity.findings.finding import Finding
from kernel_velocity.results.measurement import OUTCOMES
from kernel_velocity.results.records import Commit
from kernel_velocity.series.changes import NONE
from kernel_velocity.site import text as pages
from kernel_velocity.site.outputs import series_name
from kernel_velocity.site.pages import commit_values
from kernel_velocity.site.pages.commit_tables import RowMaker
from kernel_velocity.site.pages.commit_values import APART, FIGURES, OVERLAPPING, Against, Values
from kernel_velocity.site.series_data import significant
from kernel_velocity.site.text import Place

FORMAT = 1
DIGITS = 12  # of the commit's hash in the file's name
_KEY = ("machine", "environment", "benchmark", "implementation", "case")
_OVERLAPPING = {OVERLAPPING: True, APART: False}  # None of the third state


def name(sha: str) -> str:
    """Return the name of a commit's data file."""
    return f"commit-{sha[:DIGITS]}"


def as_data(
    commit: Commit,
    shown: Values,
    rows: RowMaker,
    *,
    places: Sequence[Place],
    findings: Sequence[Finding],
    tags: Sequence[str],
    last_tag: str | None,
) -> dict[str, Any]:
    """Return what a commit's page says, as numbers.

    Args:
        shown: what was measured of it. rows: of its page. places: of the site. findings: that name it.
        tags: its own. last_tag: full SHA.
    """
    own = [(place, shown.at(place.machine, place.environment)) for place in places]
    return {
        "format": FORMAT,
        "commit": commit.sha,
        "page": pages.commit_href(commit.sha),
        "parents": list(commit.parents),
        "tags": list(tags),
        "last_tag": last_tag,
        "findings": [item.id for item in findings],
        "places": [_counted(place, values) for place, values in own if len(values)],
        "changed": _changed(rows.ordered(shown[rows.is_first(shown)]), rows),
    }


def _counted(place: Place, values: Values) -> dict[str, Any]:
    changed, compared = commit_values.counts(values)
    ways = commit_values.ways(values)
    said = {"machine": place.machine, "environment": place.environment, "values": len(values)}
    return {**said, "compared": compared, "changed": changed, **ways}


def _changed(values: Values, rows: RowMaker) -> dict[str, Any]:
    keys = values.keys
    return {
        "series": list(map(series_name, keys)),
        **{part: [getattr(key, part) for key in keys] for part in _KEY},
        "outcome": [OUTCOMES[outcome].value for outcome in values.outcome.tolist()],
        **{figure: significant(values.figure(figure)) for figure in FIGURES},
        "before": _against(values.before, values.others),
        "tag": _against(values.tag, values.others),
        "best": _against(values.best, values.others),
        "finding": [rows.finding_of(key) for key in keys],
    }


def _against(against: Against, others: Sequence[str]) -> Mapping[str, Any]:
    return {
        "commit": [None if other == NONE else others[other] for other in against.other.tolist()],
        "ratio": significant(against.ratio),
        "overlapping": [_OVERLAPPING.get(state) for state in against.state.tolist()],
    }
