"""The data files of series that the pages load, where no module of the site makes them: the least that is needed."""

from contextlib import contextmanager

import numpy as np

from tools import pages
from tools.site_files import DataFile, series_name


def build(found):
    """Yield `commits`, and a file for each series."""
    commits = [found.commits[sha] for sha in found.measured if sha in found.order]
    listed = [{"sha": each.sha, "subject": each.subject, "page": pages.commit_href(each.sha)} for each in commits]
    yield DataFile(name="commits", value={"format": 1, "commits": listed})
    for key in found.keys:
        columns = found.series(key)
        seconds = [float(value) if np.isfinite(value) else None for value in columns.seconds]
        value = {"format": 1, "commit": [found.line[place] for place in columns.place], "seconds": seconds}
        yield DataFile(name=series_name(key), value=value)


@contextmanager
def with_series(report):
    """Have the site make the files of series, if it does not."""
    before = report.MODULES
    if not any(module.__name__.endswith("series_data") for module in before):
        report.MODULES = (__import__("tests.tools.series_files", fromlist=["build"]), *before)
    yield
    report.MODULES = before
