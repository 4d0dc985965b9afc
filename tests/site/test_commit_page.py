"""A commit's page: what it changed, against what, how it was built and on what machine."""

import re

import git
import numpy as np
import pytest

from kernel_velocity.findings.finding import Kind, State
from kernel_velocity.results import lines
from kernel_velocity.results.measurement import OUTCOMES
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.runner import fingerprint
from kernel_velocity.series.changes import Change
from kernel_velocity.site import badges, report
from kernel_velocity.site.pages import commit as commit_page
from kernel_velocity.site.pages import commit_changes, commit_tables, commit_values, home
from tests import synthetic
from tests.findings import nights
from tests.series.one_by_one import everything
from tests.site.test_home_page import affected, keep, skip
from tests.site.test_pages import commit, make_na, read, row_of, rows_of

PARTS = {"environment": "hosttorch-py3.11", "method": "a1b2c3d4"}


def names(rows):
    return [(row.kernel, row.implementation, row.case) for row in rows]


def session(tree, index, **said):
    path = tree.results / synthetic.MACHINE / f"{tree.commits[index][:8]}-{synthetic.ENVIRONMENT}.json"
    lines.append_session(path, SessionFacts(began=100.0 + index, **said))


def change_of(values, row):
    """Return what a value says of the commit before, as a trend says it."""
    if not values.before.is_known[row]:
        return None
    overlapping = {commit_values.UNKNOWN: None, commit_values.OVERLAPPING: True, commit_values.APART: False}
    return Change(
        ratio=values.before.ratio[row],
        against=values.others[values.before.other[row]],
        overlapping=overlapping[values.before.state[row]],
    )


def test_every_value_of_the_line_says_what_its_trend_says(tree):
    found, data = read(tree), everything(tree)
    line = commit_changes.Line.of(found)
    for place, sha in enumerate(found.line):
        values = line.at(place)
        assert set(values.keys) == {item.key for item in found.at(sha)}
        for row, (key, (_, warnings)) in enumerate(zip(values.keys, values.remarks, strict=True)):
            point = data.points[key, sha]
            item = point.measurement
            assert change_of(values, row) == point.change
            assert values.changed[row] == (point.change is not None and point.change.is_distinct)
            seconds = values.figure("seconds")[row]
            assert (OUTCOMES[values.outcome[row]], warnings) == (item.outcome, item.warnings)
            assert np.isnan(seconds) if item.seconds is None else seconds == item.seconds


def test_findings_stand_first_the_surest_of_them_before_the_others_then_the_largest_change(tree):
    keep(tree, id="sure", affected=affected(1.01, case="float32-512x512x512", **PARTS))
    other = {"benchmark": "add_mul_exp.Cpu.time_hot", "case": "float32-5M", **PARTS}
    keep(tree, state=State.SUSPECT, id="maybe", affected=affected(3.0, **other))
    page = commit(tree, tree.commits[2])
    assert names(page.changed)[:2] == [
        ("matmul", "native", "float32-512x512x512"),
        ("add_mul_exp", "native", "float32-5M"),
    ]
    assert page.changed[0].finding == "confirmed: time +1.00% (95% interval -0.0100% to +2.01%)"
    assert [row.finding_href for row in page.changed] == ["finding-sure.html", "finding-maybe.html", "", ""]
    rest = [float(row.cell.change.removesuffix("x faster")) for row in page.changed[2:]]
    assert rest == sorted(rest, reverse=True) and len(rest) == 2
    assert [line.href for line in page.findings] == ["finding-maybe.html", "finding-sure.html"]


def test_what_did_not_change_is_folded_by_kernel(tree, monkeypatch):
    page = commit(tree, tree.commits[2])
    assert {row.implementation for row in page.changed} == {"native"}
    (section,) = page.sections
    assert section.lead == "4 of 8 series changed distinctly: 4 faster"
    assert [(fold.kernel, len(fold.rows), fold.is_open) for fold in section.folds] == [
        ("add_mul_exp", 4, True),
        ("matmul", 4, True),
    ]
    monkeypatch.setattr(commit_tables, "OPEN_UP_TO", 7)
    (section,) = commit(tree, tree.commits[2]).sections
    assert not any(fold.is_open for fold in section.folds)


def test_what_is_na_is_not_counted_as_unchanged(tree):
    (section,) = commit(tree, tree.commits[2]).sections
    assert section.lead == "4 of 8 series changed distinctly: 4 faster"
    assert [(fold.count, fold.said) for fold in section.folds] == 2 * [(4, "2 without a distinct change, 2 n/a")]
    (section,) = commit(tree, tree.commits[0]).sections
    assert {fold.said for fold in section.folds} == {"4 with nothing to compare with, 2 n/a"}


def test_a_page_of_too_many_rows_says_how_many_did_not_change_and_links_to_their_values(tree, monkeypatch):
    monkeypatch.setattr(commit_tables, "HELD_UP_TO", 7)
    page = commit(tree, tree.commits[2])
    assert len(page.changed) == 4
    (section,) = page.sections
    assert [(fold.kernel, fold.count, fold.rows) for fold in section.folds] == [
        ("add_mul_exp", 4, ()),
        ("matmul", 4, ()),
    ]
    before, sha = tree.commits[1][:12], tree.commits[2][:12]
    link = f"compare.html#kernel=matmul+Cpu&a={before}&am={synthetic.MACHINE}&ae={synthetic.ENVIRONMENT}&b={sha}"
    assert section.folds[1].values == link
    html = report.page_templates().get_template("commit.html").render(page=page)
    assert f'<a href="{link.replace("&", "&amp;")}">their values</a>' in html
    monkeypatch.setattr(commit_tables, "HELD_UP_TO", 8)
    (section,) = commit(tree, tree.commits[2]).sections
    assert [(len(fold.rows), fold.values) for fold in section.folds] == [(4, ""), (4, "")]


def test_changes_are_against_the_parent_the_last_tag_and_the_best_before(tree):
    with git.Repo(tree.repository) as repo:
        repo.create_tag("v1", ref=tree.commits[1])
        repo.create_tag("v2", ref=tree.commits[4])
    page = commit(tree, tree.commits[3])
    assert page.heads == ("speed, against parent", "against v1", "against the best before")
    native = next(row for fold in page.sections[0].folds for row in fold.rows if row.implementation == "native")
    assert native.before.startswith("≈") and native.tag.endswith("x faster")
    newest = commit(tree, tree.commits[4])
    assert (newest.tags, newest.tag) == (("v2",), "v1")
    step = commit(tree, tree.commits[2]).changed[0]
    assert (step.tag.tone, step.tag.detail) == ("faster", tree.commits[1][:8])
    assert step.best.detail in {sha[:8] for sha in tree.commits[:2]}


@pytest.mark.parametrize("tagged", [False, True])
def test_without_a_tag_there_is_no_column_for_it(tree, tmp_path, tagged):
    if tagged:
        with git.Repo(tree.repository) as repo:
            repo.create_tag("v1", ref=tree.commits[1])
    page = commit(tree, tree.commits[2])
    assert page.heads[1:] == (*(["against v1"] if tagged else []), "against the best before")
    report.write_site(results=tree.results, repository=tree.repository, out=tmp_path / "site")
    text = (tmp_path / "site" / page.name).read_text(encoding="utf-8")
    tables = [each for each in re.findall("<table.*?</table>", text, re.DOTALL) if "against the best before" in each]
    assert len(tables) > 1
    for table in tables:
        widths = {len(re.findall("<t[hd][ >]", row)) for row in re.findall("<tr>.*?</tr>", table, re.DOTALL)}
        assert len(widths) == 1, table


def test_a_commit_of_another_method_does_not_blind_the_next_one(tree):
    stem = f"{tree.commits[3][:8]}-{synthetic.ENVIRONMENT}"
    path = tree.results / synthetic.MACHINE / "telemetry" / f"{stem}.jsonl"
    path.write_text(path.read_text().replace("a1b2c3d4", "bbbb0000"))
    found = read(tree)
    page = commit_page.Maker.of(found).page(tree.commits[4])
    assert page.lead.startswith("Changes are against the commit measured before it")
    (grid,) = home.page(found).grids
    cell = row_of(grid, "matmul", "native").changes[0]
    assert (grid.spans[0].base, cell.tone) == (tree.commits[3], "same")
    assert [grid.footnotes[mark - 1] for mark in cell.marks] == [f"1 day: against {tree.commits[2][:8]}"]
    for badge in badges.build(found):
        assert "≈" in badge.context["badge"].title


def test_a_tag_of_a_commit_beside_the_line_is_that_commits_and_nobody_elses(tree):
    """A release branch: its tags are nowhere on HEAD's first-parent line."""
    with git.Repo(tree.repository) as repo:
        side = repo.index.commit("Release", parent_commits=[repo.commit(tree.commits[1])], head=False)
        repo.create_tag("release-1.0.1", ref=side)
    synthetic.write_commit(tree.results, side.hexsha, 2)
    found = read(tree)
    assert [grid.spans[3].name for grid in home.page(found).grids] == ["since a tag"]
    maker = commit_page.Maker.of(found)
    assert maker.page(side.hexsha).tags == ("release-1.0.1",)
    assert (maker.page(tree.commits[4]).tag, maker.page(tree.commits[2]).tags) == ("", ())


def test_a_value_that_is_lost_is_a_change_and_one_that_nobody_asked_for_is_none(tree):
    make_na(tree, 4, "matmul.Cpu.time_hot", ["float32-512x512x512"], ("native", "eager"))
    skip(tree, 4, "matmul.Cpu.time_hot", ["native", "float32-512x512x512"])
    page = commit(tree, tree.commits[4])
    assert names(page.changed) == [("matmul", "native", "float32-512x512x512")]
    (row,) = page.changed
    assert (row.cell.text, row.evidence) == ("n/a", "")
    assert page.footnotes[row.cell.marks[0] - 1] == "n/a: gone"
    assert page.sections[0].lead.endswith("1 without a time now")


def test_a_row_leads_to_how_its_number_came_to_be(tree):
    page = commit(tree, tree.commits[2])
    sha = tree.commits[2]
    for row in page.changed:
        assert row.evidence.startswith(f"measurement.html#commit={sha}&series=series-")
    assert len({row.evidence for row in rows_of(page) if row.evidence}) == 8


def test_build_and_environment_say_what_is_new(tree):
    facts = {"cxx compiler": "GNU", "cxx compiler version": "12.2.0", "driver": "550", "governor": "performance"}
    ptxas = {"matmul": "sm_90: 168 registers, 0 bytes spilled"}
    session(tree, 0, facts=facts, code={"matmul": "a" * 64, "add_mul_exp": "b" * 64})
    now = facts | {"driver": "560"}
    session(tree, 2, facts=now, code={"matmul": "c" * 64, "add_mul_exp": "b" * 64, "new": "d" * 64}, ptxas=ptxas)
    (section,) = commit(tree, tree.commits[2]).sections
    build = section.build
    assert build.compilers == (
        ("cuda compiler version", "not recorded"),
        ("cxx compiler", "GNU"),
        ("cxx compiler version", "12.2.0"),
    )
    assert [(item.kernel, item.code, item.against, item.ptxas) for item in build.kernels] == [
        ("add_mul_exp", "b" * 12, "same code", "not recorded"),
        ("matmul", "c" * 12, "other code", "sm_90: 168 registers, 0 bytes spilled"),
        ("new", "d" * 12, "not recorded", "not recorded"),
    ]
    assert build.changed == (("driver", "550", "560"),)
    assert build.against == tree.commits[0][:8]  # the second commit's is not known
    assert build.facts == (("driver", "560"), ("governor", "performance"))


def test_a_page_is_made_from_what_its_inputs_say(tree):
    """Whatever changes a page changes its inputs, and what does not leaves them."""

    def inputs():
        maker = commit_page.Maker.of(read(tree))
        return {sha: maker.inputs(sha) for sha in maker.measured}

    def differing(before):
        return [tree.commits.index(sha) for sha, text in inputs().items() if text != before.get(sha)]

    first = inputs()
    assert differing(first) == []
    keep(tree)
    assert differing(first) == [2]
    known = inputs()
    session(tree, 3, facts={"driver": "550"})
    assert differing(known) == [3]
    session(tree, 4, facts={"driver": "560"})
    known = inputs()
    make_na(tree, 4, "matmul.Cpu.time_hot", ["float32-512x512x512"], ("triton",))
    assert differing(known) == [4]
    known = inputs()
    with git.Repo(tree.repository) as repo:
        repo.create_tag("v1", ref=tree.commits[3])
    assert differing(known) == [3, 4]  # whose tag it is, and whose last tag


def test_what_was_not_recorded_is_called_so(tree):
    (section,) = commit(tree, tree.commits[2]).sections
    assert section.build.missing.startswith("Neither build nor environment is recorded")


def test_an_environment_finding_and_another_commits_accuse_nobody_here(tree):
    keep(tree, id="other", commits=(tree.commits[1],))
    keep(tree, kind=Kind.ENVIRONMENT, state=State.ENVIRONMENT, id="env", commits=())
    page = commit(tree, tree.commits[2])
    assert page.findings == () and not any(row.finding for row in page.changed)


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ({"matmul": {"ptxas": []}}, {}),
        ({"matmul": {}}, {}),
        ({"matmul": {"ptxas": [{"architecture": "sm_90"}]}}, {}),
        ([], {}),
        (None, {}),
    ],
)
def test_a_wheel_without_figures_of_the_cuda_compiler_has_none(said, wanted):
    assert fingerprint.ptxas_of({"kernels": said}) == wanted


def test_registers_and_spills_are_the_most_of_a_kernels_functions():
    def function(architecture, registers, stored, loaded):
        return {
            "architecture": architecture,
            "registers": registers,
            "spill_store_bytes": stored,
            "spill_load_bytes": loaded,
        }

    said = [function("sm_90", 168, 0, 0), function("sm_80", 32, 4, 8), function("sm_90", 40, 16, 0)]
    assert fingerprint.ptxas_of({"kernels": {"matmul": {"ptxas": said}}}) == {
        "matmul": "sm_80: 32 registers, 12 bytes spilled; sm_90: 168 registers, 16 bytes spilled"
    }


def test_an_expected_change_is_told_as_such(tree):
    keep(tree, state=State.EXPECTED, id="wanted", affected=affected(0.4, case="float32-256x256x256", **PARTS))
    page = commit(tree, tree.commits[2])
    assert page.changed[0].finding.startswith("expected: time -60.0%")
    assert nights.finding().state is State.CONFIRMED
