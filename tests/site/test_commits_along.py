"""Commits' values all at once are those of their series one by one; a site is the same whatever arrived when."""

import itertools
import shutil

import git
import numpy as np
import pytest

from kernel_velocity.series import changes, layout
from kernel_velocity.series.changes import NONE
from kernel_velocity.site import report
from kernel_velocity.site.pages import commit, commit_changes, home, home_grid
from kernel_velocity.site.pages.commit_values import APART, OVERLAPPING, UNKNOWN
from kernel_velocity.stats import growth
from tests import synthetic
from tests.series.one_by_one import best_before, newest_change
from tests.series.test_past import halve, path_of, rewrite
from tests.site.test_home_page import keep, skip
from tests.site.test_pages import make_na, read


def make_ragged(tree):
    """Make series of several methods and lengths, with a tag."""
    stem = f"{tree.commits[3][:8]}-{synthetic.ENVIRONMENT}"
    path = tree.results / synthetic.MACHINE / "telemetry" / f"{stem}.jsonl"
    path.write_text(path.read_text().replace("a1b2c3d4", "bbbb0000"))
    make_na(tree, 1, "matmul.Cpu.time_hot", ["float32-512x512x512"], ("native", "eager"))
    skip(tree, 1, "matmul.Cpu.time_hot", ["native", "float32-512x512x512"])
    rewrite(path_of(tree, 2), lambda data: data["results"].pop("add_mul_exp.Cpu.time_hot"))
    synthetic.write_commit(tree.results, tree.commits[0], 0, telemetry=False)
    with git.Repo(tree.repository) as repo:
        repo.create_tag("v1", ref=tree.commits[1])


@pytest.mark.parametrize("most_series", [1, 5, 256])
@pytest.mark.parametrize("most_values", [1, 30, 400_000])
def test_commits_are_compared_as_along_each_series(tree, monkeypatch, most_series, most_values):
    make_ragged(tree)
    monkeypatch.setattr(layout, "MOST_SERIES", most_series)
    monkeypatch.setattr(commit_changes, "MOST_VALUES", most_values)
    found = read(tree)
    line = commit_changes.Line.of(found)
    tags = commit_changes.tags_before(found)
    seen = 0
    for place, values in ((place, line.at(place)) for place in (4, 0, 1, 2, 3)):
        for row, key in enumerate(values.keys):
            series = found.series(key)
            entry = series.entry(place)
            bases = (
                (values.before, changes.before(series)),
                (values.tag, changes.at_or_before(series, tags[series.place])),
                (values.best, best_before(series)),
            )
            for got, base in bases:
                wanted = changes.against(series, base)
                other = NONE if wanted.base[entry] == NONE else series.place[wanted.base[entry]]
                state = OVERLAPPING if wanted.overlapping[entry] else APART
                state = UNKNOWN if other == NONE or wanted.unknown[entry] else state
                assert (got.other[row], got.state[row]) == (other, state)
                np.testing.assert_equal(got.ratio[row], wanted.ratio[entry])
            seen += 1
    assert seen == sum(len(found.series(key)) for key in found.keys)


def test_changes_over_days_are_those_of_the_newest_value_that_old(tree):
    make_ragged(tree)
    found = read(tree)
    when = home_grid.dates(found)
    every = [found.series(key) for key in found.keys]
    spans = home_grid.spans(found, when, 4, every)
    values = [(each.key, int(entry)) for each in every for entry in np.flatnonzero(each.is_measured)[-1:]]
    told = home_grid.changes_over(found, when, spans, values)
    for (key, entry), got in zip(values, told, strict=True):
        series = found.series(key)
        new = series.measurement(entry, found.line)
        for span, change in zip(spans, got, strict=True):
            old = [
                at
                for at in range(entry)
                if (series.place[at] <= span.tag if span.days is None else entry and series.place[at] <= 4 - span.days)
            ]
            earlier = (series.measurement(at, found.line) for at in reversed(old))
            assert change == newest_change(new, earlier)
    assert len({change is None for row in told for change in row}) == 2


def forget_telemetry(tree):
    """Leave asv's values alone: of rounds, times are adjusted, those of older commits now and then anew."""
    shutil.rmtree(path_of(tree, 0).parent / "telemetry")


def site_of(tree, name, cache):
    """Return the files of a site of home page and commits."""
    out = tree.repository.parent / name
    report.write_site(results=tree.results, repository=tree.repository, out=out, cache=tree.repository.parent / cache)
    made = (path for path in out.rglob("*") if path.is_file() and path.parent.name != "static")
    return {str(path.relative_to(out)): path.read_bytes() for path in made}


def check_as_from_nothing(tree):
    """Compare a site that is brought up to date with one that is made from nothing."""
    got = site_of(tree, "site", "cache")
    for name in ("fresh", "fresh_cache"):
        shutil.rmtree(tree.repository.parent / name, ignore_errors=True)
    assert got == site_of(tree, "fresh", "fresh_cache")


@pytest.fixture
def only_these(monkeypatch):
    monkeypatch.setattr(report, "MODULES", (home, commit))


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4), (4, 1, 3, 0, 2)])
@pytest.mark.parametrize("telemetry", [True, False])
@pytest.mark.usefixtures("only_these")
def test_in_whatever_order_commits_arrive_the_site_is_the_same(tree, order, telemetry):
    if not telemetry:
        forget_telemetry(tree)
    paths = [path_of(tree, index) for index in order]
    for path in paths:
        path.rename(path.with_suffix(".later"))
    for path in paths:
        path.with_suffix(".later").rename(path)
        site_of(tree, "site", "cache")
    check_as_from_nothing(tree)


@pytest.mark.usefixtures("only_these")
def test_whatever_else_changes_the_site_is_as_from_nothing(tree):
    site_of(tree, "site", "cache")
    rewrite(path_of(tree, 1), halve)  # measured again
    check_as_from_nothing(tree)
    with git.Repo(tree.repository) as repo:
        repo.create_tag("v1", ref=tree.commits[2])
        side = repo.index.commit("Release", parent_commits=[repo.commit(tree.commits[1])], head=False)
    check_as_from_nothing(tree)
    synthetic.write_commit(tree.results, side.hexsha, 2)
    check_as_from_nothing(tree)
    keep(tree)
    check_as_from_nothing(tree)


@pytest.mark.parametrize("telemetry", [True, False])
def test_of_a_new_commit_only_its_own_values_are_looked_at(tree, monkeypatch, telemetry):
    monkeypatch.setattr(growth, "ALWAYS_ANEW", 4)  # with it, older adjusted times change
    monkeypatch.setattr(growth, "GROWTH", 2)
    if not telemetry:
        forget_telemetry(tree)
    newest = path_of(tree, 4)
    newest.rename(newest.with_suffix(".later"))
    list(commit.build(read(tree)))
    newest.with_suffix(".later").rename(newest)
    asked = []
    digest = commit_changes.Line.digest
    monkeypatch.setattr(commit_changes.Line, "digest", lambda line, place: asked.append(place) or digest(line, place))
    list(commit.build(read(tree)))
    assert asked == [4]
    list(commit.build(read(tree)))
    assert asked == [4]
    rewrite(path_of(tree, 2), halve)
    list(commit.build(read(tree)))
    assert asked == [4, *((0, 1) if telemetry else ()), 2, 3, 4]  # its rounds are of another run now


def test_a_commits_data_are_its_page_as_numbers(tree):
    keep(tree)
    with git.Repo(tree.repository) as repo:
        repo.create_tag("v1", ref=tree.commits[1])
    found = read(tree)
    maker = commit.Maker.of(found)
    sha = tree.commits[2]
    page, data = maker.page(sha), maker.data(sha)
    assert (data["commit"], data["page"], data["last_tag"]) == (sha, page.name, tree.commits[1])
    (place,) = data["places"]
    assert (place["values"], place["compared"], place["changed"], place["faster"]) == (12, 8, 4, 4)
    changed = data["changed"]
    shown = [(row.implementation, row.case, row.finding_href != "") for row in page.changed]
    told = zip(changed["implementation"], changed["case"], changed["finding"], strict=True)
    assert [(who, case, finding is not None) for who, case, finding in told] == shown
    assert {len(column) for column in changed.values() if not isinstance(column, dict)} == {len(shown)}
    for against in (changed["before"], changed["tag"]):
        assert set(against["commit"]) == {tree.commits[1]} and set(against["overlapping"]) == {False}
    assert all(ratio == pytest.approx(synthetic.STEP, rel=0.02) for ratio in changed["before"]["ratio"])


@pytest.mark.usefixtures("only_these")
def test_a_neighbour_changes_a_commits_page_and_not_its_data(tree):
    forget_telemetry(tree)
    newest = path_of(tree, 4)
    newest.rename(newest.with_suffix(".later"))
    before = site_of(tree, "site", "cache")
    newest.with_suffix(".later").rename(newest)
    after = site_of(tree, "site", "cache")
    page, data = f"commit-{tree.commits[3][:8]}.html", f"data/{commit.name(tree.commits[3])}.json"
    assert before[page] != after[page] and before[data] == after[data]
    changed = {name for name in after if before.get(name) != after[name]}
    assert not changed & {f"data/{commit.name(sha)}.json" for sha in itertools.islice(tree.commits, 4)}
