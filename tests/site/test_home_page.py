"""The overview: what changed, what waits for somebody, what is silent, and a row for every test case."""

import dataclasses
import json
import re
import shutil
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl

import git
import pytest

from kernel_velocity.findings import store
from kernel_velocity.findings.finding import Kind, State
from kernel_velocity.findings.store import NightRecord
from kernel_velocity.roofline.model import MemoryLevel, Roofs
from kernel_velocity.roofline.roofs import Choice
from kernel_velocity.runner.session import PROVISIONAL
from kernel_velocity.site import model, report
from kernel_velocity.site.model import Unfinished
from kernel_velocity.site.pages import home as home_page
from kernel_velocity.site.pages import home_table
from kernel_velocity.site.pages.home_table import Stretch
from tests import large_tree, synthetic
from tests.golden import check_golden
from tests.site.pages import (
    GOLDEN,
    PARTS,
    add_session,
    affected,
    as_text,
    commit,
    edit,
    footnotes,
    home,
    keep,
    kernel_files,
    make_na,
    read,
    results_file,
    row_of,
    say_why,
)

WHEN = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)
ROOFS = Roofs(levels=(MemoryLevel(name="DRAM", size=None, bandwidth=100e9),), peaks={"float32": 100e9})
SMALL, LARGE = synthetic.CASES["matmul.Cpu.time_hot"]


def keep_verdict(tree, **changed):
    verdict = NightRecord(machine="bench-1", when=WHEN, summary="clean", exit_status=0, measured=12)
    store.write_night(tree.results, dataclasses.replace(verdict, **changed))


def spans(tree):
    """Return the spans of the one machine of a tree."""
    site = read(tree)
    (platform,) = site.platforms
    return home_table.SeriesTable(site, platform).spans


@pytest.mark.parametrize(("status", "tone"), [(0, "clean"), (10, "bad"), (2, "bad"), (11, "doubt"), (30, "doubt")])
def test_verdicts_newest_first(tree, status, tone):
    keep_verdict(tree, exit_status=status, summary="2 suspects", failures=("case: wrong",))
    keep_verdict(tree, machine="bench-2", when=WHEN + timedelta(days=1))
    newest, night = home(tree).nights
    assert (newest.machine, night.machine, night.when) == ("bench-2", "bench-1", "2026-11-22 03:00 UTC")
    assert (night.summary, night.tone, night.measured) == ("2 suspects", tone, "12 series measured")
    assert night.failures == ("case: wrong",)


def test_verdict_without_any_time(tree):
    shutil.rmtree(tree.results / synthetic.MACHINE)
    finding = keep(tree)
    keep_verdict(tree, summary="a build failed: nothing was measured", exit_status=21, failures=("g++ is missing",))
    text = report.page_templates().get_template("home.html").render(page=home_page.page(read(tree)))
    for shown in ("a build failed: nothing was measured", "g++ is missing", "No times recorded yet"):
        assert shown in text
    assert f'href="finding-{finding.id}.html"' in text and "<table" not in text


def test_verdict_that_cannot_be_read(tree):
    path = store.write_night(tree.results, NightRecord(machine="m", when=WHEN, summary="", exit_status=0, measured=0))
    path.write_text("{")
    (note,) = home(tree).notes
    assert "m.toml: not TOML: " in note


def test_answer_counts_every_row(tree):
    page = home(tree)
    (where,) = page.answer.where
    assert page.answer.parts == [("faster", "4 faster"), ("same", "4 without a baseline")]
    assert (where.base.short, where.newest.short) == (tree.commits[0][:8], tree.commits[4][:8])
    assert (where.span, where.measured) == ("last 4 commits", "8 of 8 series measured")
    assert len(page.rows) == 8 and "eager" not in {row.implementation for row in page.rows}
    assert [name for name, _ in row_of(page, SMALL).others] == ["eager"]


def test_single_commit_is_the_first(tree):
    for index in range(4):
        results_file(tree, index).unlink()
    (where,) = home(tree).answer.where
    assert (where.span, where.base, where.newest.short) == ("first commit", None, tree.commits[4][:8])


def edit_configuration(tree, **settings):
    synthetic.write_json(tree.repository / "asv.conf.json", {"version": 1, "project": "x", "repo": "."} | settings)


def test_first_look_is_marked(tree, tmp_path):
    def written(**more):
        out = tmp_path / "site"
        report.write_site(results=tree.results, repository=tree.repository, out=out, **more)
        return (out / "index.html").read_text()

    page = written(unfinished=Unfinished(1e9, "Round 1 of 8 is measured"))
    assert PROVISIONAL in page and 'data-until="1000000000"' in page
    assert re.search(r"Round 1 of 8 is measured. <span>Until \d\d:\d\d this page renews itself.</span>", page)
    assert PROVISIONAL not in written()


def test_cards_of_a_kernel_and_commit_are_one(tree):
    edit_configuration(tree, show_commit_url="https://example.org/commit/")
    page = home(tree)
    assert [(card.name, card.change, card.tone, card.lasted) for card in page.cards] == [
        ("add_mul_exp", "2.50× faster", "faster", ""),
        ("matmul", "2.50× faster", "faster", ""),
    ]
    card = page.cards[1]
    assert (card.case, card.others, card.further) == (SMALL, [f"{LARGE} 2.50× faster"], 0)
    assert (card.commit.short, card.commit.author) == (tree.commits[2][:8], "Ada Lovelace")
    assert (card.times, card.diff) == ("6.72 ms → 2.69 ms", f"https://example.org/commit/{tree.commits[2]}")
    assert [(line.slower, line.faster) for line in page.commits] == [(0, 0), (0, 0), (0, 4), (0, 0), (0, 0)]
    assert page.commits[2].largest == "add_mul_exp float32-5M 2.50× faster"
    edit_configuration(tree, show_commit_url="javascript:alert(1)//")
    assert {card.diff for card in home(tree).cards} == {""}


def test_change_that_was_undone_comes_last(tmp_path):
    shape = large_tree.Shape(commits=45, series=20)
    small, large = (large_tree.PAIRS.index(("native", case)) for case in ("float32-1M", "float32-5M"))
    steps = [(22, 1.1, small), (34, 1 / 1.1, small), (30, 1 / 1.05, large)]
    truth = [large_tree.Change(at=at, factor=factor, series=(series,)) for at, factor, series in steps]
    commits = large_tree.build(tmp_path, shape, truth)
    tree = synthetic.Tree(tmp_path / "repository", tmp_path / "results", commits)
    page = home(tree)
    first, last, back = (commits[at][:8] for at in (22, 33, 34))
    lasted = f"for 12 commits ({first}..{last}), back since {back}"
    assert [(card.case, card.tone, card.lasted) for card in page.cards] == [
        ("float32-5M", "faster", ""),
        ("float32-1M", "slower", lasted),
    ]
    feed, *_ = home_page.build(read(tree))
    titles = [entry.title for entry in feed.context["feed"]["entries"]]
    assert len(titles) == 2 and titles[0].endswith(lasted)  # at the time of its end
    ends = {line.line.short: (line.slower, line.faster, line.back) for line in page.commits}
    assert (ends[first], ends[back]) == ((1, 0, 0), (0, 0, 1))
    assert [row.change.detail.partition(", ")[2] for at in (22, 34) for row in commit(tree, commits[at]).rows] == [
        lasted,
        f"takes back the change since {first}",
    ]
    assert row_of(page, "float32-1M").changes[0].tone == "unchanged"
    assert page.answer.parts == [("faster", "1 faster"), ("unchanged", "9 unchanged")]


def test_finding_stands_on_the_card_of_its_change(tree):
    keep(tree, id="other-way", affected=affected(1.1, **PARTS))
    keep(tree, Kind.IMPROVEMENT, id="same", affected=affected(0.4, **PARTS))
    keep(tree, Kind.IMPROVEMENT, State.EXPECTED, id="decided", commits=(tree.commits[4],))
    page = home(tree)
    assert [card.finding for card in page.cards] == [None, ("finding-same.html", "confirmed", True)]
    assert [line.href for line in page.findings] == ["finding-other-way.html"]


def test_findings_without_a_card_the_surest_and_largest_first(tree):
    keep(tree, state=State.SUSPECT, id="huge-suspect", affected=affected(9.0))
    keep(tree, id="small", affected=affected(1.02))
    keep(tree, id="large", affected=affected(1.3))
    lines = home(tree).findings
    assert [line.href for line in lines] == ["finding-large.html", "finding-small.html", "finding-huge-suspect.html"]
    assert lines[0].commits[0].href == f"commit-{tree.commits[2][:8]}.html"


def test_range_names_its_ends(tree):
    with git.Repo(tree.repository) as repo:
        actor = git.Actor("Grace Hopper", "g@example.org")
        shas = [repo.index.commit(f"Unmeasured {n}", author=actor, committer=actor).hexsha for n in range(5)]
    keep(tree, state=State.SUSPECT, commits=(tree.commits[4], *shas), anchor=tree.commits[0])
    (line,) = home(tree).findings
    (cause,) = line.commits
    assert cause.words == f"one of 6 commits, {tree.commits[0][:8]}..{shas[-1][:8]}"
    assert (cause.href, cause.author, cause.subject) == (line.href, "", "")
    keep(tree, state=State.SUSPECT, commits=(shas[0],))
    (only,) = home(tree).findings[0].commits
    assert only.words == f"{shas[0][:8]} Unmeasured 0 (Grace Hopper)"


def test_span_since_a_tag(tree):
    with git.Repo(tree.repository) as repo:
        repo.create_tag("v1", ref=tree.commits[3])
        repo.create_tag("today", ref=tree.commits[4])  # nothing lies behind it
    for index in (3, 4):
        make_na(tree, index, "matmul.Cpu.time_hot", [SMALL, LARGE], ("native",))
    assert spans(tree) == (Stretch("last 4 commits", 0), Stretch("7 days", -1), Stretch("since v1", 3))
    page = home(tree)
    row = row_of(page, SMALL)  # it ended before the tag
    assert footnotes(page, row.time) == [f"measured last at {tree.commits[2][:8]}"]
    assert [cell.text for cell in row.changes] == ["2.50× faster", "–"]
    assert row_of(page, "float32-5M").changes[1].text == "unchanged"
    results_file(tree, 3).unlink()  # what was measured before the tag counts
    assert row_of(home(tree), "float32-5M").changes[1].text == "unchanged"


def test_span_of_many_commits(tree, monkeypatch):
    monkeypatch.setattr(home_table, "RECENT", 2)
    assert spans(tree)[0] == Stretch("last 2 commits", 2)
    assert (home(tree).cards, home(tree).answer.parts[0]) == ([], ("unchanged", "4 unchanged"))


def test_row_shows_its_limit_and_speedup(tree, monkeypatch):
    monkeypatch.setattr(model.Site, "roof_choice", lambda *_: Choice(roofs=ROOFS))
    monkeypatch.setattr(home_table, "FASTEST", "eager")
    page = home(tree)
    row = row_of(page, SMALL)
    assert (row.time.text, row.time.detail, row.speedup) == ("2.69 ms", "12.5 GFLOPS", "3.12×")
    assert row.share[:3] == (7, "12.4%", "float32 peak")
    assert [float(number) for number in row.order.split()][:3] == pytest.approx([2.69e-3, 0.125, 3.12], rel=0.01)


def test_row_that_failed_comes_first(tree):
    def fail(data):
        data["results"]["matmul.Cpu.time_hot"][0][3] = None  # the second case of native

    edit(results_file(tree, 4), fail)
    shutil.rmtree(results_file(tree, 4).parent / "telemetry")
    page = home(tree)
    row = page.rows[0]
    assert (row.case, row.time.text, row.time.tone) == (LARGE, "failed", "failed")
    assert footnotes(page, row.time)[0].startswith("failed: the commit did not build")
    assert (page.answer.parts[:2], page.answer.tone) == ([("failed", "1 failed"), ("faster", "3 faster")], "failed")


def test_silent_machine(tree):
    folder = tree.results / "bench-2"
    synthetic.write_json(folder / "machine.json", synthetic.machine_json("bench-2"))
    path = synthetic.write_commit(tree.results, tree.commits[0], 0, machine="bench-2", telemetry=False)
    path.write_text(path.read_text().replace("1767225600000", str(1767225600000 - 10 * 86400_000)))
    stale, doubt = home(tree).silence
    assert stale == ["bench-2: nothing measured of any of its series for 10.0 days"]
    assert doubt.startswith("Days are counted up to bench-1, 2026-01-01 01:06 UTC: 10.0 days after any other machine")
    keep_verdict(tree, machine="bench-3", when=datetime(2026, 1, 1, tzinfo=UTC))  # two clocks say so
    assert home(tree).silence == (stale, "")


def add_hardware(tree, *facts):
    for index, texts in enumerate(facts):
        add_session(tree, index, facts=texts)


def test_two_machines_under_one_name(tree):
    add_hardware(tree, {"cpu": "EPYC"}, {"cpu": "Xeon"}, {"cpu": "Xeon"})
    (note,) = home(tree).notes
    assert note.startswith("bench-1: the cpu changed: EPYC, then Xeon.")


def test_two_machines_where_asv_alone_measured(tree):
    for index in range(5):
        params = {"cpu": ("EPYC", "Xeon")[index % 2], "num_cpu": "2"}
        edit(results_file(tree, index), lambda data, params=params: data.update(params=params))
    for _ in range(2):  # from the cache, too
        site = read(tree)
        (note,) = home_page.page(site)["notes"]
        assert note.startswith("bench-1: two machines seem to share this name: the cpu was EPYC and Xeon in turn.")
    edit(results_file(tree, 4), lambda data: data.update(params={"cpu": "EPYC", "num_cpu": "4"}))
    assert "the num_cpu changed: 2, then 4" in home(tree).notes[1]
    add_hardware(tree, {"cpu": "epyc"}, {"cpu": "other"})
    (note,) = home(tree).notes  # what sessions say counts
    assert "the cpu changed: epyc, then other" in note


def test_one_gpu_with_another_power_limit(tree):
    add_hardware(tree, {"gpu": "H100; power limit, mW 700000"}, {"gpu": "H100; power limit, mW 500000"})
    assert home(tree).notes == []
    assert read(tree).platforms[0].details[0] == ("GPU", "H100")


def test_results_of_another_project(tree):
    for path in tree.results.glob("*/*-*.json"):  # of another clone
        path.write_text(path.read_text().replace(json.loads(path.read_text())["commit_hash"], "d" * 40))
    page = home(tree)
    assert (page.rows, page.answer) == ([], None)
    assert page.foreign.startswith("results/ has results, but none that belong here")
    assert page.notes


def test_note_of_a_deleted_benchmark(tree):
    edit(tree.results / "benchmarks.json", lambda data: data.pop("matmul.Cpu.time_hot"))
    page = home(tree)
    assert {row.kernel for row in page.rows} == {"add_mul_exp"}
    assert any("matmul.Cpu.time_hot is no longer in benchmarks.json" in note for note in page.notes)


def test_home_data_golden(tree, monkeypatch, accept):
    monkeypatch.setattr(model.Site, "roof_choice", lambda *_: Choice(roofs=ROOFS))
    keep(tree)
    keep_verdict(tree)
    _, data, _ = home_page.build(read(tree))
    check_golden(GOLDEN / "home_data.json", as_text(data.value), accept=accept)


def test_links_to_a_trend_name_machine_and_state(tree):
    synthetic.write_json(tree.results / "bench-2" / "machine.json", {"machine": "bench-2", "version": 1})
    for index in (0, 2):
        synthetic.write_commit(tree.results, tree.commits[index], index, machine="bench-2")

    def check(cell, machine, **more):
        file, _, query = cell.href.partition("#")
        wanted = {"machine": machine, "environment": synthetic.ENVIRONMENT, "state": "hot", **more}
        assert (file, dict(parse_qsl(query))) == (
            f"kernel-{getattr(cell, 'kernel', None) or cell.name}-Cpu.html",
            wanted,
        )

    rows, page = home(tree).rows, commit(tree, tree.commits[2])
    assert {row.machine for row in rows} == {row.machine for row in page.rows} == {"bench-1", "bench-2"}
    for row in (*rows, *home(tree).cards, *page.rows):
        check(row, getattr(row, "machine", None) or row.data.machine, case=row.case)


def test_series_without_a_value_of_the_newest_commit(tree):
    def only_one(data):
        row = data["results"]["matmul.Cpu.time_hot"]
        row[0], row[1] = row[0][2:3], [["'native'"], [repr(SMALL)]]
        row[5:] = [row[5][2:3], row[6][2:3]]

    edit(results_file(tree, 4), only_one)
    page = home(tree)
    assert page.answer.where[0].measured == "5 of 8 series measured"
    assert footnotes(page, row_of(page, LARGE).time) == [f"measured last at {tree.commits[3][:8]}"]
    assert row_of(page, SMALL).time.marks == ()
    triton = row_of(page, SMALL, "triton").time  # which failed before
    assert (triton.text, footnotes(page, triton)[0][:7]) == ("failed", "failed:")


def test_never_measured_has_no_row(tree):
    """Cases of another tier and devices that the machine lacks are n/a in every results file."""
    for index in range(5):
        make_na(tree, index, "matmul.Cpu.time_hot", list(synthetic.CASES["matmul.Cpu.time_hot"]))
        make_na(tree, index, "add_mul_exp.Cpu.time_hot", ["float32-500k"])
    assert [name for name in kernel_files(tree) if name.endswith(".html")] == ["kernel-add_mul_exp-Cpu.html"]
    assert {(row.kernel, row.case) for row in home(tree).rows} == {("add_mul_exp", "float32-5M")}


def test_implementation_that_nobody_measured_has_no_row(tree):
    """Beside measured ones of its test case. With a reason for it, there is a row that says so."""
    cases = list(synthetic.CASES["matmul.Cpu.time_hot"])

    def rows():
        return [row.case for row in home(tree).rows if (row.kernel, row.implementation) == ("matmul", "native")]

    for index in range(5):
        make_na(tree, index, "matmul.Cpu.time_hot", cases, ["native"])
    assert rows() == []
    say_why(tree, 4, ["native", cases[0]], error="no compiler", skipped=True)
    assert rows() == cases[:1]


def test_pure_noise_is_coloured_nowhere(tmp_path):
    large_tree.build(tmp_path, large_tree.Shape(commits=30, series=100, telemetry=True), changes=())
    site = model.read(tmp_path / "results", tmp_path / "repository")
    page = home_page.page(site)
    assert page["cards"] == [] and {tone for tone, _ in page["answer"]["parts"]} == {"unchanged"}
