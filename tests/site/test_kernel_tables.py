"""The tables and the data of a kernel's page: how much of a long history they hold, and that nothing is lost."""

import dataclasses
import types

import git
import numpy as np
import pytest

from kernel_velocity.results.measurement import Outcome
from kernel_velocity.site import model
from kernel_velocity.site import text as pages
from kernel_velocity.site.pages import kernel as kernel_page
from kernel_velocity.site.pages import kernel_chart, kernel_tables
from tests import large_tree, synthetic
from tests.findings import synthetic_extras
from tests.series.one_by_one import everything
from tests.site import large_site
from tests.site.test_commit_page import PARTS, session
from tests.site.test_home_page import affected, keep
from tests.site.test_pages import make_na


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """A site of 300 commits in two cache states."""
    return large_site.make(tmp_path_factory.mktemp("long"), 300, ("eager", "native"), states=("hot", "cold"))


@pytest.fixture(scope="module")
def made(long):
    """What the page adds to that site."""
    return built(long)


def built(found):
    """Return what the page adds to a site: by name, the page itself as "page"."""
    made = list(kernel_page.build(found))
    values = {item.name: item.value() if callable(item.value) else item.value for item in made[:-1]}
    return values | {"page": made[-1].context()["page"]}


@pytest.mark.parametrize(("tables", "rows"), [(0, 50), (1, 50), (2, 25), (3, 16), (10, 5), (25, 5), (999, 5)])
def test_a_page_holds_less_of_each_table_the_more_it_has(tables, rows):
    assert kernel_tables.limit(tables) == rows


def test_the_newest_commits_are_in_the_page_and_it_says_of_how_many(long, made):
    for section in made["page"].sections:
        (table,) = section.tables
        assert [row.commit.short for row in table.rows] == [sha[:8] for sha in long.line[:-26:-1]]
        assert table.further == "the newest 25 of 300 commits"


def test_the_first_row_of_many_still_has_its_change_against_the_commit_before(made):
    (table,) = made["page"].sections[0].tables
    assert table.rows[-1].cells[0].change != ""


def said(point):
    """Return change and tone of a point in a table."""
    without_time = "" if point.measurement.outcome is Outcome.MEASURED else point.measurement.outcome.value
    return pages.change(point.change), without_time or pages.tone(point.change)


@pytest.mark.parametrize("nearby", [0, 1, 16])
def test_changes_of_the_newest_are_those_of_the_whole_trend(tree, monkeypatch, nearby):
    monkeypatch.setattr(kernel_tables, "_BEFORE", nearby)
    found = model.read(tree.results, tree.repository)
    trends = everything(tree).trends
    for key in found.keys:
        whole = trends[key].points
        for since in range(6):
            newest = kernel_tables.recent(found.series(key), since)
            changes = [(change.removesuffix(", adjusted"), tone) for _, _, change, tone in newest.cells]
            assert changes == [said(point) for point in whole[since:]]


def test_a_change_of_adjusted_values_says_so(long):
    columns = long.series(long.keys[0])
    known = np.arange(len(columns)) % 4 != 0  # every fourth is not adjusted
    changed = {
        name: np.where(known, 1.1 * raw, np.nan)
        for name, raw in zip(
            ("adjusted", "adjusted_low", "adjusted_high"), (columns.seconds, columns.low, columns.high), strict=True
        )
    }
    both = known & np.roll(known, 1)
    found = kernel_tables.recent(dataclasses.replace(columns, **changed), 290)
    plain = kernel_tables.recent(columns, 290)
    marks = [change.endswith(", adjusted") for _, _, change, _ in found.cells]
    assert marks == both[290:].tolist()
    assert [cell[2].removesuffix(", adjusted") for cell in found.cells] == [cell[2] for cell in plain.cells]
    assert not any("adjusted" in cell[2] for cell in plain.cells)


def test_a_short_history_says_what_a_change_point_needs(tree, made):
    (page, *_) = [
        item.context()["page"]
        for item in kernel_page.build(model.read(tree.results, tree.repository))
        if item.name.endswith(".html")
    ]
    needed = "need >= 13 points for a change point, have 5"
    assert needed in page.sections[0].footnotes
    assert all("change point" not in text for section in made["page"].sections for text in section.footnotes)


def test_what_is_marked_stands_in_the_table_newest_first(long, made):
    rows = made["page"].sections[0].marks
    kinds = [row.kind for row in rows]
    assert sorted(kinds) == ["change point"] * 2 + ["environment", "finding"] + ["tag"] * 3
    places = [long.order[next(sha for sha in long.line if sha.startswith(row.commit.short))] for row in rows]
    assert places == sorted(places, reverse=True)
    (finding,) = [row for row in rows if row.kind == "finding"]
    assert (finding.implementation, finding.case) == ("native", large_site.CASE)
    assert finding.href == f"finding-{long.findings[0].id}.html"
    cold = made["page"].sections[1].marks
    assert "finding" not in {row.kind for row in cold}


def test_many_marks_are_counted_not_listed(long, monkeypatch):
    monkeypatch.setattr(kernel_page, "MARKS", 2)
    section = built(long)["page"].sections[0]
    assert (len(section.marks), section.further_marks) == (2, "the newest 2 of 7")


def test_every_commit_that_data_names_is_one_of_the_line(long, made):
    data = made["kernel-matmul-Cuda"]
    marks = [*data["tags"], *data["findings"]]
    marks += [mark for group in data["groups"] for mark in group["events"]]
    marks += [mark for series in data["series"] for mark in series["changes"]]
    assert len(marks) >= 9
    assert all(mark["commit"] in long.order for mark in marks)
    known = {series["name"] for series in data["series"]}
    assert all(set(finding["series"]) <= known for finding in data["findings"])


def test_of_two_versions_of_errors_the_newest_counts(long):
    errors = dict(long.tracked)
    key = next(iter(errors))
    old = dataclasses.replace(key, version="0")
    errors[old] = dataclasses.replace(errors[key], key=old)
    asked = types.SimpleNamespace(tracked=errors)
    found = kernel_chart._errors(asked, "matmul", "Cuda")
    assert found[key.machine, key.environment, key.implementation, key.case].key == key
    assert kernel_chart._errors(asked, "matmul", "Cpu") == {}


def test_a_page_is_made_from_what_its_inputs_say(tree):
    """Whatever changes a page or its data changes its inputs, and what does not leaves them."""

    def inputs():
        made = kernel_page.build(model.read(tree.results, tree.repository))
        return {item.name: item.inputs for item in made if item.inputs is not None}

    def differing():
        before = dict(known)
        known.update(inputs())
        return sorted(name for name, text in known.items() if text != before[name])

    def of(kernel):
        return [f"kernel-{kernel}-Cpu", f"kernel-{kernel}-Cpu.html"]

    known = inputs()
    assert sorted(known) == sorted([*of("add_mul_exp"), *of("matmul")])
    assert differing() == []
    make_na(tree, 4, "matmul.Cpu.time_hot", ["float32-512x512x512"], ("triton",))
    assert differing() == of("matmul")
    keep(tree, commits=(tree.commits[2],), affected=affected(1.01, case="float32-512x512x512", **PARTS))
    assert differing() == of("matmul")
    session(tree, 3, facts={"driver": "550"})
    assert differing() == []  # the first that is known
    session(tree, 4, facts={"driver": "560"})
    assert differing() == [*of("add_mul_exp"), *of("matmul")]
    with git.Repo(tree.repository) as repo:
        repo.create_tag("v1", ref=tree.commits[3])
    assert differing() == [*of("add_mul_exp"), *of("matmul")]


def test_the_figures_of_the_code_stand_on_the_page_and_in_the_data_since_they_last_changed(tree):
    synthetic_extras.add_figures(tree)
    found = model.read(tree.results, tree.repository)
    pages_of = {item.name: item for item in kernel_page.build(found)}
    page = pages_of["kernel-matmul-Cpu.html"].context()["page"]
    short = {sha[:8]: place for place, sha in enumerate(found.line)}
    rows = {(row.name, row.target): (row.now, row.before, short[row.commit.short]) for row in page.figures}
    assert rows == {
        ("code", "avx2"): ("13,334 bytes", "14,534 bytes", synthetic.STEP_AT),
        ("code", "avx512"): ("15,001 bytes", "", 0),
        ("registers of a thread", "sm_80"): ("128", "", 0),
        ("registers of a thread", "sm_90"): ("128", "168", synthetic.STEP_AT),
        ("spilled", "sm_80"): ("0 bytes", "", 0),
        ("spilled", "sm_90"): ("0 bytes", "16 bytes", synthetic.STEP_AT),
    }
    data = pages_of["kernel-matmul-Cpu"].value()["figures"]
    (registers,) = [one for one in data if one["target"] == "sm_90" and one["benchmark"].endswith("registers")]
    assert registers["value"] == [168, 128]
    assert registers["commit"] == [found.line[0], found.line[synthetic.STEP_AT]]
    assert pages_of["kernel-add_mul_exp-Cpu.html"].context()["page"].figures == ()


@pytest.mark.parametrize("most", [1, 2, 128])
def test_the_pages_are_made_in_few_parts_which_have_them_all(tmp_path, monkeypatch, most):
    shape = large_tree.Shape(commits=3, series=120)
    large_tree.build(tmp_path, shape)
    found = model.read(tmp_path / "results", tmp_path / "repository")
    monkeypatch.setattr(kernel_page, "PARTS", most)
    parts = [[made.name for made in part(found)] for part in kernel_page.parts(found)]
    assert len(parts) == min(most, 3) and all(parts)
    names = [name for part in parts for name in part]
    assert names == [made.name for made in kernel_page.build(found)]
    assert len([name for name in names if name.endswith(".html")]) == 3
