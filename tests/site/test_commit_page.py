"""A commit's page: what it changed, how it was built and where. Its table is compare.html's: test_browser.py."""

import shutil

import git
import pytest

from kernel_velocity.counts import listing
from kernel_velocity.findings.finding import State
from kernel_velocity.site.pages import commit_facts
from kernel_velocity.site.text import Cell
from tests import synthetic
from tests.site.pages import (
    PARTS,
    add_session,
    affected,
    commit,
    edit,
    keep,
    make_na,
    make_ragged,
    read,
    rendered,
    results_file,
    say_why,
)


def names(rows):
    return [(row.kernel, row.implementation, row.case) for row in rows]


def test_findings_first_then_the_largest_change(tree):
    other = {"benchmark": "add_mul_exp.Cpu.time_hot", "case": "float32-5M", **PARTS}
    keep(tree, state=State.SUSPECT, id="maybe", affected=affected(3.0, **other))
    page = commit(tree, tree.commits[2])
    assert names(page.rows)[0] == ("add_mul_exp", "native", "float32-5M")
    assert [row.finding and row.finding.id for row in page.rows] == ["maybe", None, None, None]
    assert page.summary == "4 faster" and {row.change.tone for row in page.rows} == {"faster"}
    assert [line.href for line in page.findings] == ["finding-maybe.html"]


def test_more_changes_than_rows(tree, monkeypatch):
    monkeypatch.setattr(commit_facts, "MOST_ROWS", 3)
    page = commit(tree, tree.commits[2])
    assert (len(page.rows), page.summary) == (3, "4 faster; the 3 largest")


def test_lost_time_is_a_change(tree):
    make_na(tree, 4, "matmul.Cpu.time_hot", ["float32-512x512x512"], ("native", "eager"))
    say_why(tree, 4, ["native", "float32-512x512x512"], benchmark="matmul.Cpu.time_hot", skipped=True)
    page = commit(tree, tree.commits[4])
    assert names(page.rows) == [("matmul", "native", "float32-512x512x512")]  # nobody says why eager has none
    (row,) = page.rows
    assert (row.value.text, row.value.detail, row.change.text) == ("n/a", "gone", "–")
    assert page.summary == "1 n/a"


def test_everything_failed(tree):
    def fail(data):
        for row in data["results"].values():
            row[0] = None

    edit(results_file(tree, 4), fail)
    shutil.rmtree(results_file(tree, 4).parent / "telemetry")
    page = commit(tree, tree.commits[4])
    assert {row.value.text for row in page.rows} == {"failed"} and page.summary == f"{len(page.rows)} failed"


def test_changes_are_the_verdicts_between_values_of_one_method(tree):
    make_ragged(tree)
    site = read(tree)
    facts, checked = commit_facts.CommitFacts(site), 0
    for position, sha in enumerate(site.line):
        shown = {
            (row["kernel"], row["implementation"], row["case"])
            for row in facts.context(sha, facts.recorded(sha))["page"]["rows"]
        }
        for key in site.keys:
            columns = site.series(key)
            entry = columns.entry(position)
            if entry is None or not columns.is_measured[entry]:
                continue
            earlier = [
                at for at in range(entry) if columns.is_measured[at] and columns.method[at] == columns.method[entry]
            ]
            is_changed = bool(earlier) and site.levels[key].between(earlier[-1], entry).is_change
            assert ((key.benchmark.split(".")[0], key.implementation, key.case) in shown) == is_changed
            checked += is_changed
    # of the third commit, and of the fifth: the third lacks its benchmark, the fourth was timed by another method
    assert checked == 4


def test_neighbours_are_the_commits_with_values(tree):
    results_file(tree, 1).unlink()
    page = commit(tree, tree.commits[2])
    assert page.parents == [(tree.commits[1][:8], "")]
    assert page.older.href == f"commit-{tree.commits[0][:8]}.html"
    assert page.newer.href == f"commit-{tree.commits[3][:8]}.html"


@pytest.mark.parametrize("has_rounds", [True, False])
def test_commit_beside_the_line_leads_to_its_rounds(tree, has_rounds):
    with git.Repo(tree.repository) as repo:
        side = repo.index.commit("Release", parent_commits=[repo.commit(tree.commits[1])], head=False)
        repo.create_tag("release-1.0.1", ref=side)
    synthetic.write_commit(tree.results, side.hexsha, 2)
    if not has_rounds:
        for path in results_file(tree, 0).parent.glob(f"telemetry/{side.hexsha[:8]}-*"):
            path.unlink()
    page = commit(tree, side.hexsha)
    assert (page.tags, page.on_line, page.rows) == (("release-1.0.1",), False, [])  # tags that HEAD's line lacks
    (html,) = [rendered(made) for made in commit_facts.build(read(tree)) if side.hexsha[:8] in made.name]
    assert (f'href="measurement.html#commit={side.hexsha}"' in html) == has_rounds
    assert (f"<code>asv show {side.hexsha[:8]}</code>" in html) != has_rounds


def test_page_follows_from_its_inputs(tree):
    """Whatever changes a page changes its inputs, and what does not leaves them."""

    def inputs():
        return {page.name: page.inputs for page in commit_facts.build(read(tree))}

    def differing(before):
        after = inputs()
        pages = [f"commit-{sha[:8]}.html" for sha in tree.commits]
        return [number for number, page in enumerate(pages) if after[page] != before.get(page)]

    make_na(tree, 4, "matmul.Cpu.time_hot", ["float32-512x512x512"], ("triton",))
    first = inputs()
    assert differing(first) == []
    keep(tree)
    assert differing(first) == [2]
    before = inputs()
    add_session(tree, 3, facts={"driver": "550"})
    assert differing(before) == [3]
    add_session(tree, 4, facts={"driver": "560"})
    before = inputs()
    with git.Repo(tree.repository) as repo:
        repo.create_tag("v1", ref=tree.commits[3])
    assert differing(before) == [3]


def test_build_against_the_newest_that_is_known(tree):
    facts = {"cxx compiler": "GNU", "cxx compiler version": "12.2.0", "driver": "550", "governor": "performance"}
    ptxas = {"matmul": "sm_90: 168 registers, 0 bytes spilled"}
    code = {"matmul": "c" * 64, "add_mul_exp": "b" * 64, "new": "d" * 64, "relu": "2:" + "e" * 64}
    add_session(tree, 0, facts=facts, code={"matmul": "a" * 64, "add_mul_exp": "b" * 64, "relu": "f" * 64})
    whole = {"relu": "libk.so: relu goes through a pointer (call rax)"}
    add_session(tree, 2, facts=facts | {"driver": "560"}, code=code, ptxas=ptxas, whole=whole)
    build = commit(tree, tree.commits[2]).sections[0].build
    assert build.kernels.rows == [
        ("add_mul_exp", "b" * 12, "same code", "not recorded"),
        ("matmul", "c" * 12, "other code", "sm_90: 168 registers, 0 bytes spilled"),
        ("new", "d" * 12, "not recorded", "not recorded"),
        ("relu", Cell(text=f"{'e' * 12}, of the whole build: {whole['relu']}"), "not recorded", "not recorded"),
    ]
    (html,) = [rendered(made) for made in commit_facts.build(read(tree)) if tree.commits[2][:8] in made.name]
    assert "of the whole build: libk.so: relu goes through a pointer (call rax)" in html
    assert build.changed == [("driver", "550", "560")]
    assert build.against == tree.commits[0][:8]  # the second commit's is not known


def test_figures_of_code_that_differ(tree):
    name = "matmul.Cpu.track_instructions"
    edit(tree.results / "benchmarks.json", lambda data: data.update({name: {"type": "track", "version": "1"}}))
    axes = [["'native'"], ["'float32-8x8x8-avx2'"]]
    for index, value in {0: 1000.0, 1: 1000.0, 3: 1010.0}.items():
        row = [[value], axes, "1", 1767225600000, 1.0]
        edit(results_file(tree, index), lambda data, row=row: data["results"].update({name: row}))
    assert [len(commit(tree, tree.commits[index]).figures.rows) for index in range(4)] == [0, 0, 0, 1]
    ((of, *values),) = commit(tree, tree.commits[3]).figures.rows
    assert of == "matmul: instructions of a call, float32-8x8x8-avx2"
    assert values == ["1,000", "1,010", "+10 (1.00%)", tree.commits[1][:8]]
    (html,) = [rendered(made) for made in commit_facts.build(read(tree)) if tree.commits[3][:8] in made.name]
    assert "instructions of a call" in html and "More or fewer is not slower or faster" in html


def test_machine_code_beside_that_of_the_commit_before(tree, monkeypatch):
    code = tree.results / synthetic.MACHINE / "code"

    def add(index, **texts):
        listings = {f"matmul native {case}": listing.store(text, code) for case, text in texts.items()}
        add_session(tree, index, code={"matmul": f"{index}"}, listings=listings)

    add(0, sm_80="kernel:\n        FADD R1,R1,R2\n", sm_90="kernel:\n        EXIT\n", avx2="f:\n        ret\n")
    add(
        2,
        sm_80="kernel:\n        FADD R7,R7,R2\n",
        sm_90="kernel:\n        EXIT\n",
        avx2="f:\n        leave\n        ret\n",
    )
    page = commit(tree, tree.commits[2])
    ((_, against, (cpu, gpu)),) = page.code
    assert against == tree.commits[0][:8]
    assert [(of["name"], of["summary"]) for of in (cpu, gpu)] == [
        ("matmul native avx2", "1 line added, 0 removed"),
        ("matmul native sm_80", "only registers, labels and places on the stack differ"),
    ]
    assert [(row.kind, row.after.strip()) for row in cpu["rows"]] == [
        ("equal", "f:"),
        ("more", "leave"),
        ("equal", "ret"),
    ]
    monkeypatch.setattr(commit_facts, "MOST_LINES", 2)
    pages = {made.name: rendered(made) for made in commit_facts.build(read(tree)) if tree.commits[2][:8] in made.name}
    assert "1 more line" in pages[f"commit-{tree.commits[2][:8]}.html"] and "leave" in pages[page.code_href]
    shutil.rmtree(code)
    ((*_, lost),) = commit(tree, tree.commits[2]).code
    assert [of["summary"] for of in lost] == ["its machine code is not in these results"] * 2


def test_sources_that_a_commit_changed(tmp_path):
    files = {0: {"kernels/matmul/matmul.cpp": "a\n"}, 2: {"kernels/matmul/matmul.cpp": "<b>\n", "README": "x"}}
    tree = synthetic.build(tmp_path, files=files)
    settings = '[tool.kernel-velocity]\nsources = ["kernels/{kernel}/"]\n'
    (tree.repository / "pyproject.toml").write_text(settings)
    page = commit(tree, tree.commits[2])
    (source,) = page.sources
    assert (source.kernel, source.changed, source.further) == ("matmul", "2 changed lines", "")
    assert source.text.endswith("-a\n+<b>")
    (html,) = [rendered(made) for made in commit_facts.build(read(tree)) if tree.commits[2][:8] in made.name]
    assert "+&lt;b&gt;" in html
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
