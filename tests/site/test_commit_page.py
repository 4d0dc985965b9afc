"""A commit's page: what it changed, against what, how it was built and on what machine."""

import json
import math

import git
import numpy as np
import pytest

from kernel_velocity.findings.finding import State
from kernel_velocity.harness import telemetry
from kernel_velocity.results.measurement import OUTCOMES, Outcome
from kernel_velocity.series.columns import NONE, comparable
from kernel_velocity.series.verdicts import Word
from kernel_velocity.site import report
from kernel_velocity.site.pages import commit as commit_page
from kernel_velocity.site.pages import commit_values, home
from kernel_velocity.site.pages.commit_values import WORDS
from tests import synthetic
from tests.golden import check_golden
from tests.site.pages import (
    GOLDEN,
    PARTS,
    add_session,
    affected,
    as_text,
    commit,
    edit,
    keep,
    kernel,
    make_na,
    make_ragged,
    read,
    results_file,
    say_why,
)


def names(rows):
    return [(row.kernel, row.implementation, row.case) for row in rows]


def test_findings_first_the_surest_of_them(tree):
    keep(tree, id="sure", affected=affected(1.01, case="float32-512x512x512", **PARTS))
    other = {"benchmark": "add_mul_exp.Cpu.time_hot", "case": "float32-5M", **PARTS}
    keep(tree, state=State.SUSPECT, id="maybe", affected=affected(3.0, **other))
    page = commit(tree, tree.commits[2])
    assert names(page.changed)[:2] == [
        ("matmul", "native", "float32-512x512x512"),
        ("add_mul_exp", "native", "float32-5M"),
    ]
    assert [row.finding and row.finding.href for row in page.changed] == [
        "finding-sure.html",
        "finding-maybe.html",
        None,
        None,
    ]


@pytest.mark.parametrize(("most", "rows"), [(11, 0), (12, 4)])
def test_too_many_rows_link_to_their_values(tree, monkeypatch, most, rows):
    monkeypatch.setattr(commit_page, "HELD_UP_TO", most)
    page = commit(tree, tree.commits[2])
    (section,) = page.sections
    assert len(page.changed) == 4
    assert len(section.rows) == rows
    before, sha = tree.commits[1][:12], tree.commits[2][:12]
    link = f"compare.html#a={before}&am={synthetic.MACHINE}&ae={synthetic.ENVIRONMENT}&b={sha}"
    assert section.compared == ("" if rows else link)
    context = commit_page.Maker(read(tree)).context(tree.commits[2])
    html = report.page_templates().get_template("commit.html").render(context)
    assert (f'<a href="{link.replace("&", "&amp;")}">8 values that did not change</a>' in html) == (rows == 0)


def test_change_over_another_method(tree):
    stem = f"{tree.commits[3][:8]}-{synthetic.ENVIRONMENT}"
    path = tree.results / synthetic.MACHINE / "telemetry" / f"{stem}.jsonl"
    lines = [telemetry.parse(line) | {"m": "bbbb0000"} for line in path.read_text().splitlines()]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    page = commit(tree, tree.commits[4])
    assert page.heads == ["against the commit before"]
    (row, *_) = (row for section in page.sections for row in section.rows if row.implementation == "eager")
    assert f"against {tree.commits[2][:8]}: its parent has no time of it" in [
        page.footnotes[mark - 1] for mark in row.cell.marks
    ]


def test_tag_beside_the_line(tree):
    """A release branch: its tags are nowhere on HEAD's first-parent line."""
    with git.Repo(tree.repository) as repo:
        side = repo.index.commit("Release", parent_commits=[repo.commit(tree.commits[1])], head=False)
        repo.create_tag("release-1.0.1", ref=side)
    synthetic.write_commit(tree.results, side.hexsha, 2)
    site = read(tree)
    assert home.page(site)["spans"] == ["last 4 commits"]
    maker = commit_page.Maker(site)
    assert maker.page(side.hexsha)["tags"] == ("release-1.0.1",)
    assert (maker.page(tree.commits[4])["tag"], maker.page(tree.commits[2])["tags"]) == ("", ())


def test_lost_value_is_a_change(tree):
    make_na(tree, 4, "matmul.Cpu.time_hot", ["float32-512x512x512"], ("native", "eager"))
    say_why(tree, 4, ["native", "float32-512x512x512"], benchmark="matmul.Cpu.time_hot", skipped=True)
    page = commit(tree, tree.commits[4])
    assert names(page.changed) == [("matmul", "native", "float32-512x512x512")]
    (row,) = page.changed
    assert (row.cell.text, row.cell.href) == ("n/a", "")
    assert page.footnotes[row.cell.marks[0] - 1] == "n/a: gone"
    assert page.sections[0].lead == "6 unchanged, 4 without a baseline, 2 n/a"


def test_rows_link_to_their_measurement(tree):
    sha = tree.commits[2]
    page = commit(tree, sha)
    links = [row.cell.href for row in (*page.changed, *(row for section in page.sections for row in section.rows))]
    assert len(set(links)) == 8
    assert all(link.startswith(f"measurement.html#commit={sha}&series=series-") for link in links)


def test_build_against_the_newest_that_is_known(tree):
    facts = {"cxx compiler": "GNU", "cxx compiler version": "12.2.0", "driver": "550", "governor": "performance"}
    ptxas = {"matmul": "sm_90: 168 registers, 0 bytes spilled"}
    code = {"matmul": "c" * 64, "add_mul_exp": "b" * 64, "new": "d" * 64}
    add_session(tree, 0, facts=facts, code={"matmul": "a" * 64, "add_mul_exp": "b" * 64})
    add_session(tree, 2, facts=facts | {"driver": "560"}, code=code, ptxas=ptxas)
    build = commit(tree, tree.commits[2]).sections[0].build
    assert build.kernels.rows == [
        ("add_mul_exp", "b" * 12, "same code", "not recorded"),
        ("matmul", "c" * 12, "other code", "sm_90: 168 registers, 0 bytes spilled"),
        ("new", "d" * 12, "not recorded", "not recorded"),
    ]
    assert build.changed == [("driver", "550", "560")]
    assert build.against == tree.commits[0][:8]  # the second commit's is not known


def test_page_follows_from_its_inputs(tree):
    """Whatever changes a page changes its inputs, and what does not leaves them."""

    def inputs():
        maker = commit_page.Maker(read(tree))
        return {sha: maker.inputs(sha) for sha in maker.site.measured}

    def differing(before):
        return [tree.commits.index(sha) for sha, text in inputs().items() if text != before.get(sha)]

    make_na(tree, 4, "matmul.Cpu.time_hot", ["float32-512x512x512"], ("triton",))
    first = inputs()
    assert differing(first) == []
    keep(tree)
    assert differing(first) == [2]
    before = inputs()
    add_session(tree, 3, facts={"driver": "550"})
    assert differing(before) == [3, 4]  # what is recorded beside an older commit is an input of the newer ones
    add_session(tree, 4, facts={"driver": "560"})
    before = inputs()
    say_why(tree, 4, ["triton", "float32-512x512x512"], skipped=True)
    assert differing(before) == [4]
    before = inputs()
    with git.Repo(tree.repository) as repo:
        repo.create_tag("v1", ref=tree.commits[3])
    assert differing(before) == [3, 4]  # whose tag it is, and whose last tag


def test_parent_not_measured(tree):
    results_file(tree, 1).unlink()
    page = commit(tree, tree.commits[2])
    assert page.heads == ["against the commit before"]
    assert f"against {tree.commits[0][:8]}: its parent has no time of it" in page.footnotes
    assert page.parents == [(tree.commits[1][:8], "")]
    assert page.older.href == f"commit-{tree.commits[0][:8]}.html"


def test_everything_failed(tree):
    def fail(data):
        for row in data["results"].values():
            row[0] = None

    edit(results_file(tree, 4), fail)
    page = commit(tree, tree.commits[4])
    assert page.lead.startswith("Nothing could be measured: the commit did not build")
    assert {row.cell.text for row in page.changed} == {"failed"}
    assert page.sections[0].lead == "12 failed"


def test_nothing_measured(tree):
    for name, cases in synthetic.CASES.items():
        make_na(tree, 4, name, list(cases))
    page = commit(tree, tree.commits[4])
    assert (page.sections, page.changed) == ([], [])
    assert page.lead == "Every value recorded for it is n/a."
    kernel_page = kernel(tree)
    assert [len(table.rows) for _, table in kernel_page.sections[0].tables] == [4, 4]


def test_values_are_those_along_the_series(tree):
    make_ragged(tree)
    site = read(tree)
    line, tags = commit_values.Line(site), commit_values.tags_before(site)
    checked = 0
    for position, values in ((position, line.at(position)) for position in (4, 0, 1, 2, 3)):
        assert set(values.keys) == {measurement.key for measurement in site.at(site.line[position])}
        for row, (key, (_, warnings)) in enumerate(zip(values.keys, values.remarks, strict=True)):
            series = site.series(key)
            entry = series.entry(position)
            measurement = series.measurement(entry, site.line)
            assert (OUTCOMES[values.outcome[row]], warnings) == (measurement.outcome, measurement.warnings)
            np.testing.assert_equal(values.figure("seconds")[row], series.seconds[entry])
            alike = np.flatnonzero(comparable(series, int(series.method[entry])))
            bases = {"before": alike[alike < entry], "tag": alike[series.position[alike] <= tags[position]]}
            for base, others in bases.items():
                got, other = getattr(values, base), (others[-1] if others.size else NONE)
                is_known = other != NONE and measurement.outcome is Outcome.MEASURED
                assert got.other[row] == (series.position[other] if is_known else NONE)
                verdict = site.levels[key].between(other, entry) if is_known else None
                assert values.verdicts(base)[row] == verdict
                if is_known:
                    assert WORDS[got.word[row]] in (verdict.word, Word.UNCHANGED)
                    assert got.effect[row] == pytest.approx(math.log(verdict.ratio))
            checked += 1
    assert checked == sum(len(site.series(key)) for key in site.keys)


@pytest.mark.parametrize("parent", [0, 3])
def test_commit_beside_the_line_is_compared_with_its_parent(tree, parent):
    with git.Repo(tree.repository) as repo:
        side = repo.index.commit("Release", parent_commits=[repo.commit(tree.commits[parent])], head=False)
    synthetic.write_commit(tree.results, side.hexsha, 2)  # as fast as the newest
    page = commit(tree, side.hexsha)
    assert page.lead.startswith("It is not on the first-parent line of HEAD, so it is on no trend.")
    assert {row.changes[0].tone for row in page.changed} == ({"faster"} if parent == 0 else set())
    assert len(page.changed) == (4 if parent == 0 else 0)


def test_sources_that_a_commit_changed(tmp_path):
    files = {0: {"kernels/matmul/matmul.cpp": "a\n"}, 2: {"kernels/matmul/matmul.cpp": "<b>\n", "README": "x"}}
    tree = synthetic.build(tmp_path, files=files)
    settings = '[tool.kernel-velocity]\nsources = ["kernels/{kernel}/"]\n'
    (tree.repository / "pyproject.toml").write_text(settings)
    page = commit(tree, tree.commits[2])
    (source,) = page.sources
    assert (source.kernel, source.changed, source.further) == ("matmul", "2 changed lines", "")
    assert source.text.endswith("-a\n+<b>")
    context = commit_page.Maker(read(tree)).context(tree.commits[2])
    assert "+&lt;b&gt;" in report.page_templates().get_template("commit.html").render(context)
    assert commit(tree, tree.commits[1]).sources == []
    assert page.files.rows == [("README", "1", "0"), ("kernels/matmul/matmul.cpp", "1", "1")]
    assert page.files.summary == "2 files, 2 lines added, 1 removed"


def test_changed_files_that_git_cannot_read(tmp_path):
    tree = synthetic.build(tmp_path, files={2: {"README": "x"}})
    with git.Repo(tree.repository) as repo:
        sha = repo.commit(tree.commits[2]).tree["README"].hexsha
    (tree.repository / ".git" / "objects" / sha[:2] / sha[2:]).unlink()
    page = commit(tree, tree.commits[2])
    assert page.files.rows == () and "git cannot read the files of 5 commits" in page.files.unknown


def test_commit_data_golden(tree, accept):
    keep(tree)
    with git.Repo(tree.repository) as repo:
        repo.create_tag("v1", ref=tree.commits[1])
    data = commit_page.Maker(read(tree)).data(tree.commits[2])
    check_golden(GOLDEN / "commit_data.json", as_text(data), accept=accept)
