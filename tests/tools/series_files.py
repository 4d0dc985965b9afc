"""The data files of the series, no more than the page's script needs: for tests without their writer."""

import sys

import numpy as np

from tools import pages, report
from tools.columns import OUTCOMES
from tools.site_files import DataFile, series_name


def build(found):
    """Yield the commits, and every series, of a site."""
    yield DataFile(name="commits", value={"format": 1, "branch": "HEAD", "commits": commits(found)})
    for key in found.keys:
        yield DataFile(name=series_name(key), value=series(found.series(key), found.line))


def commits(found):
    return [
        {
            "sha": sha,
            "subject": found.commits[sha].subject,
            "author": found.commits[sha].author,
            "date": found.commits[sha].date.isoformat(),
            "tags": list(found.tags.get(sha, ())),
            "page": pages.commit_href(sha),
        }
        for sha in found.measured
        if sha in found.order
    ]


def series(columns, line):
    entries = {*columns.reasons, *columns.warnings}
    return {
        "format": 1,
        "flop": columns.flop,
        "bytes": columns.bytes_moved,
        "commit": [line[place] for place in columns.place],
        "outcome": [OUTCOMES[place].value for place in columns.outcome],
        **{name: numbers(getattr(columns, name)) for name in ("seconds", "low", "high", "adjusted")},
        "rounds": [None if count < 0 else int(count) for count in columns.rounds],
        "remarks": {
            str(entry): [*filter(None, [columns.reasons.get(entry)]), *columns.warnings.get(entry, ())]
            for entry in sorted(entries)
        },
    }


def numbers(values):
    return [float(f"{value:.7g}") if np.isfinite(value) else None for value in values]


def with_series():
    """Return the modules of a site whose pages load series: the report's own, and this one where none writes them."""
    if any(module.__name__ == "tools.series_data" for module in report.MODULES):
        return report.MODULES
    return (*report.MODULES, sys.modules[__name__])
