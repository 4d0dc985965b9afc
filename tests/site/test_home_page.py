"""The home page: the last verdicts, what waits for somebody, what is silent, and the grid of kernels."""

import dataclasses
import json
import re
import shutil
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl

import git
import numpy as np
import pytest

from kernel_velocity.findings import last_night
from kernel_velocity.findings.finding import Kind, State
from kernel_velocity.findings.last_night import KeptVerdict
from kernel_velocity.results import lines
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.roofline.model import Level, Roofs
from kernel_velocity.site import model, report
from kernel_velocity.site.charts import svg
from kernel_velocity.site.pages import home as home_page
from kernel_velocity.site.pages import home_grid
from tests import synthetic
from tests.findings import nights
from tests.series.one_by_one import newest_change
from tests.site.pages import (
    affected,
    cases_of,
    commit,
    footnotes,
    home,
    keep,
    kernel,
    kernel_files,
    make_na,
    make_ragged,
    read,
    results_file,
    row_of,
    say_why,
)

WHEN = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)
ROOFS = Roofs(levels=(Level(name="DRAM", size=None, bandwidth=100e9),), peaks={"float32": 100e9})


def keep_verdict(tree, **changed):
    kept = KeptVerdict(machine="bench-1", when=WHEN, summary="clean", exit_status=0, measured=12)
    last_night.write(tree.results, dataclasses.replace(kept, **changed))


def decided(state, when):
    return (dataclasses.replace(nights.finding().decisions[0], state=state, when=when),)


def sessions(tree, *facts):
    """Keep what the machine was for the first commits, one each."""
    for index, (sha, said) in enumerate(zip(tree.commits, facts, strict=False)):
        path = tree.results / synthetic.MACHINE / f"{sha[:8]}-{synthetic.ENVIRONMENT}.json"
        lines.append_session(path, SessionFacts(began=100.0 + index, facts=said))


@pytest.mark.parametrize(("status", "tone"), [(0, "clean"), (10, "bad"), (2, "bad"), (11, "doubt"), (30, "doubt")])
def test_the_last_nights_verdict_is_a_line(tree, status, tone):
    keep_verdict(tree, exit_status=status, summary="2 suspects", failures=("case: wrong",))
    (night,) = home(tree).nights
    assert (night.summary, night.machine, night.when, night.tone) == (
        "2 suspects",
        "bench-1",
        "2026-11-22 03:00 UTC",
        tone,
    )
    assert (night.measured, night.failures) == ("12 series measured", ("case: wrong",))


def test_the_newest_night_is_said_first(tree):
    keep_verdict(tree)
    keep_verdict(tree, machine="bench-2", when=WHEN + timedelta(days=1), summary="1 suspect")
    assert [night.machine for night in home(tree).nights] == ["bench-2", "bench-1"]


def test_without_a_night_the_page_says_so_and_when_what_was_measured(tree):
    page = home(tree)
    assert (page.nights, page.unjudged) == ([], "No nightly run has finished yet.")
    assert [(machine, when) for machine, when, _ in page.measured] == [("bench-1", "2026-01-01 01:06 UTC")]
    assert page.newest.short == tree.commits[-1][:8]
    keep(tree)
    assert home(tree).unjudged.startswith("Nightly runs left findings here")


def test_a_night_that_measured_nothing_says_so_on_a_page_without_a_grid(tree):
    shutil.rmtree(tree.results / synthetic.MACHINE)
    templates = report.page_templates()

    def text():
        return templates.get_template("home.html").render(page=home_page.page(read(tree)))

    assert "last verdicts" not in text()
    finding = keep(tree)
    assert f'href="finding-{finding.id}.html"' in text() and "Nightly runs left findings here" in text()
    keep_verdict(tree, summary="a build failed: nothing was measured", exit_status=21, failures=("g++ is missing",))
    said = text()
    assert "a build failed: nothing was measured" in said and "g++ is missing" in said
    assert "No times recorded yet" in said and 'id="grid"' not in said


def test_a_verdict_that_cannot_be_read_is_a_note(tree):
    path = last_night.write(tree.results, KeptVerdict(machine="m", when=WHEN, summary="", exit_status=0, measured=0))
    path.write_text("{")
    (note,) = home(tree).notes
    assert "m.toml: not TOML: " in note


def test_open_findings_are_worst_first_with_what_is_needed_to_judge_them(tree):
    keep(tree, state=State.SUSPECT, id="huge-suspect", affected=affected(9.0))
    keep(tree, id="small", affected=affected(1.02))
    keep(tree, id="large", affected=affected(1.3))
    keep(tree, kind=Kind.VANISHED, state=State.NEW, id="gone", affected=affected(1.0))
    page = home(tree).findings
    assert [line.href for line in page.open] == [
        f"finding-{name}.html" for name in ("large", "small", "huge-suspect", "gone")
    ]
    line = page.open[0]
    assert (line.change, line.tone, line.kind, line.state) == ("time +30.0%", "slower", "regression", "confirmed")
    assert line.interval == "95% interval +28.7% to +31.3%, p 1e-05, 16 rounds a side"
    assert page.open[2].tone == "same"  # nothing that is not confirmed is coloured
    (commit,) = line.commits
    assert (commit.short, commit.author, commit.subject) == (
        tree.commits[2][:8],
        "Ada Lovelace",
        "Vectorise the inner loops",
    )
    assert commit.href == f"commit-{tree.commits[2][:8]}.html"


def test_the_machines_doing_improvements_and_decisions_stand_apart(tree):
    keep(tree, kind=Kind.ENVIRONMENT, state=State.ENVIRONMENT, id="env", commits=())
    keep(tree, kind=Kind.IMPROVEMENT, id="better")
    keep(tree, state=State.ACKNOWLEDGED, id="known", decisions=decided(State.ACKNOWLEDGED, WHEN))
    page = home(tree).findings
    assert page.open == []
    lists = (page.environment, page.improvements, page.decided, page.resolved)
    assert [[line["href"] for line in lines] for lines, _ in lists] == [
        ["finding-env.html"],
        ["finding-better.html"],
        ["finding-known.html"],
        [],
    ]


def test_what_was_resolved_is_shown_for_a_while(tree):
    for name, days in (("lately", 29), ("long-ago", 31)):
        when = WHEN - timedelta(days=days)
        keep(tree, state=State.RESOLVED, id=name, decisions=decided(State.RESOLVED, when))
    keep_verdict(tree)
    assert [line["href"] for line in home(tree).findings.resolved[0]] == ["finding-lately.html"]


def test_of_many_improvements_the_newest_are_listed_and_the_rest_counted(tree):
    for number in range(13):
        when = WHEN + timedelta(hours=number)
        keep(tree, kind=Kind.IMPROVEMENT, id=f"better-{number}", decisions=decided(State.CONFIRMED, when))
    listed, further = home(tree).findings.improvements
    assert (listed[0]["href"], len(listed), further) == ("finding-better-12.html", 10, "3 more")


def test_a_range_names_its_ends_and_a_commit_without_a_result_its_author(tree):
    with git.Repo(tree.repository) as repo:
        actor = git.Actor("Grace Hopper", "g@example.org")
        shas = [repo.index.commit(f"Unmeasured {n}", author=actor, committer=actor).hexsha for n in range(5)]
    keep(tree, state=State.SUSPECT, commits=(tree.commits[4], *shas))
    (line,) = home(tree).findings.open
    assert [(one.author, one.href) for one in line.commits] == [
        ("Ada Lovelace", f"commit-{tree.commits[4][:8]}.html"),
        ("Grace Hopper", ""),
    ]
    assert line.further == "first and last of 6 commits"


def test_a_commit_that_the_clone_does_not_have_is_named_so(tree):
    keep(tree, commits=("d" * 40,))
    (line,) = home(tree).findings.open
    assert line.commits[0].subject == "(not in this clone)"


def test_changes_are_told_over_days_and_since_the_last_tag(tree):
    with git.Repo(tree.repository) as repo:
        repo.create_tag("v1", ref=tree.commits[1])
        repo.create_tag("today", ref=tree.commits[4])  # of the newest commit: tells nothing
    (grid,) = home(tree).grids
    assert [(span.name, span.base.sha[:8] if span.base else "") for span in grid.spans] == [
        ("1 day", tree.commits[3][:8]),
        ("7 days", ""),
        ("30 days", ""),
        ("since v1", tree.commits[1][:8]),
    ]
    assert grid.too_young == "Nothing measured is old enough for: 7 days, 30 days."
    day, week, month, tag = row_of(grid, "matmul", "native").changes
    assert (day.text[0], day.tone) == ("≈", "same")
    assert (week.text, month.text) == ("–", "–")
    assert (tag.text, tag.tone) == ("2.51x faster", "faster")
    assert row_of(grid, "matmul", "eager").changes[3].tone == "same"


def test_days_are_counted_from_when_a_commit_joined_the_history(tree):
    """The last but one was written on the second day, and waited: it is a day older than the last all the same."""
    with git.Repo(tree.repository) as repo:
        actor = git.Actor("Ada Lovelace", "somebody@example.org")
        parents, shas = [], []
        for written, joined in ((1, 1), (20, 20), (2, 21), (22, 22)):
            dates = {"author_date": f"2026-03-{written:02}T12:00:00", "commit_date": f"2026-03-{joined:02}T12:00:00"}
            made = repo.index.commit("c", parent_commits=parents, author=actor, committer=actor, head=False, **dates)
            parents, shas = [made], [*shas, made.hexsha]
        repo.head.reset(made, working_tree=False)
    for index, sha in enumerate(shas):
        synthetic.write_commit(tree.results, sha, index)
    (grid,) = home(tree).grids
    day, week, month, _ = grid.spans
    assert (day.base.sha, week.base.sha, month.base) == (shas[2], shas[0], None)
    assert next(date for _, _, date in grid.bases) == "2026-03-21"


def test_what_ended_before_a_tag_has_not_changed_since(tree):
    with git.Repo(tree.repository) as repo:
        repo.create_tag("v1", ref=tree.commits[3])
    for index in (3, 4):
        make_na(tree, index, "matmul.Cpu.time_hot", list(synthetic.CASES["matmul.Cpu.time_hot"]), ("native",))
    (grid,) = home(tree).grids
    row = row_of(grid, "matmul", "native")
    assert row.figures.commit == tree.commits[2]
    assert (row.changes[0].tone, row.changes[3].text) == ("faster", "–")
    assert row_of(grid, "matmul", "eager").changes[3].tone == "same"


def test_a_tag_that_was_not_measured_is_compared_with_what_was_measured_before_it(tree):
    with git.Repo(tree.repository) as repo:
        repo.create_tag("v1", ref=tree.commits[2])
    (results_file(tree, 2)).unlink()
    (grid,) = home(tree).grids
    assert (grid.spans[3].name, grid.spans[3].base.sha) == ("since v1", tree.commits[1])


def test_a_row_that_is_compared_with_another_commit_says_with_which(tree):
    make_na(tree, 3, "matmul.Cpu.time_hot", ["float32-256x256x256"], ("native",))
    (grid,) = home(tree).grids
    row = row_of(grid, "matmul", "native")
    assert footnotes(grid, row.changes[0]) == [f"1 day: against {tree.commits[2][:8]}"]
    assert row_of(grid, "matmul", "eager").changes[0].marks == ()


def test_a_test_case_that_is_new_does_not_hide_the_change_of_the_others(tree):
    for index in range(4):
        make_na(tree, index, "matmul.Cpu.time_hot", ["float32-256x256x256"], ("native",))
    (grid,) = home(tree).grids
    cell = row_of(grid, "matmul", "native").changes[0]
    assert cell.text.endswith(("faster", "slower"))
    assert footnotes(grid, cell) == ["change of 1 of 2 test cases"]


def test_no_tag_at_all_is_said(tree):
    (grid,) = home(tree).grids
    assert (grid.spans[3].name, grid.spans[3].tag) == ("since a tag", home_grid.NO_TAG)
    assert grid.too_young.endswith("since a tag.")


def test_efficiency_is_the_mean_over_the_test_cases(tree, monkeypatch):
    monkeypatch.setattr(model.Site, "roofs", lambda *_: ROOFS)
    (grid,) = home(tree).grids
    # 3 FLOP and 12 bytes an element: 25 GFLOPS are attainable, native does 12.5
    row = row_of(grid, "add_mul_exp", "native")
    assert row.figures.efficiency == pytest.approx(0.5, rel=0.01)
    assert re.fullmatch(r"(49|50)\.\d%", row.efficiency.text)
    # the compute-bound matmul is at 12.5 of the peak's 100 GFLOPS
    assert grid.roof.startswith("matmul Cpu hot 12.") and "(native), add_mul_exp Cpu hot" in grid.roof


def test_without_ceilings_there_is_no_efficiency_and_a_reason(tree):
    (grid,) = home(tree).grids
    row = row_of(grid, "matmul", "native")
    assert (row.efficiency.text, grid.roof) == ("–", "")
    assert footnotes(grid, row.efficiency) == [
        "no efficiency: no ceilings of this machine's Cpu are recorded (`make track` measures them)"
    ]


def test_without_benchmarks_json_there_are_no_rates_and_reasons(tree, monkeypatch):
    monkeypatch.setattr(model.Site, "roofs", lambda *_: ROOFS)
    (tree.results / "benchmarks.json").unlink()
    (grid,) = home(tree).grids
    row = row_of(grid, "matmul", "native")
    assert (row.rate.text, row.efficiency.text, row.sparkline) == ("–", "–", "")
    assert footnotes(grid, row.rate)[-1].startswith("no rate: benchmarks.json")
    assert footnotes(grid, row.efficiency)[0].startswith("no efficiency: benchmarks.json")


def test_thin_data_has_a_footnote(tree):
    synthetic.write_commit(tree.results, tree.commits[4], 4, rounds=3)
    (grid,) = home(tree).grids
    assert footnotes(grid, row_of(grid, "matmul", "native").rate) == ["need 8 rounds, have 3"]


def test_what_failed_says_why(tree):
    path = results_file(tree, 4)
    data = json.loads(path.read_text())
    values = data["results"]["matmul.Cpu.time_hot"][0]
    values[2] = values[3] = None  # native
    path.write_text(json.dumps(data))
    (grid,) = home(tree).grids
    row = row_of(grid, "matmul", "native")
    assert (row.rate.text, row.rate.tone, row.sparkline) == ("failed", "failed", "")
    assert footnotes(grid, row.rate)[0].startswith("failed: the commit did not build")


def test_a_machine_that_is_quiet_for_a_week_is_named(tree):
    folder = tree.results / "bench-2"
    synthetic.write_json(folder / "machine.json", synthetic.machine_json("bench-2"))
    path = synthetic.write_commit(tree.results, tree.commits[0], 0, machine="bench-2", telemetry=False)
    path.write_text(path.read_text().replace("1767225600000", str(1767225600000 - 10 * 86400_000)))
    stale, vanished, doubt = home(tree).silence
    assert stale == ["bench-2: nothing measured of any of its series for 10.0 days"]
    assert doubt.startswith("Days are counted up to bench-1, 2026-01-01 01:06 UTC: 10.0 days after any other machine")
    keep_verdict(tree, machine="bench-3", when=datetime(2026, 1, 1, tzinfo=UTC))  # two clocks say so
    assert home(tree).silence == (stale, vanished, "")


def test_a_series_that_no_longer_applies_is_named_until_a_finding_says_so(tree):
    make_na(tree, 4, "matmul.Cpu.time_hot", ["float32-512x512x512"], ("native",))
    say_why(tree, 4, ["native", "float32-512x512x512"], benchmark="matmul.Cpu.time_hot", skipped=True)
    _, (text,), _ = home(tree).silence
    assert text == (
        "bench-1: matmul has had no value of matmul.Cpu.time_hot native float32-512x512x512 "
        f"since {tree.commits[4][:8]}, the last at {tree.commits[3][:8]}"
    )
    parts = {"case": "float32-512x512x512", "environment": "hosttorch-py3.11", "method": "a1b2c3d4"}
    keep(tree, kind=Kind.VANISHED, state=State.NEW, affected=affected(1.0, **parts))
    assert home(tree).silence[1] == []


def test_two_machines_under_one_name_are_told(tree):
    sessions(tree, {"cpu": "EPYC"}, {"cpu": "Xeon"}, {"cpu": "Xeon"})
    (note,) = home(tree).notes
    assert note.startswith("bench-1: results of 2 different machines under one name (CPU: EPYC, then Xeon)")


def test_so_they_are_where_asv_alone_measured(tree):
    for index, sha in enumerate(tree.commits):
        path = tree.results / synthetic.MACHINE / f"{sha[:8]}-{synthetic.ENVIRONMENT}.json"
        facts = {"cpu": ("EPYC", "Xeon")[index % 2], "num_cpu": "2"}
        path.write_text(json.dumps(data := json.loads(path.read_text()) | {"params": facts}))
    wanted = "bench-1: results of 2 different machines under one name (CPU: EPYC, then Xeon)"
    for _ in range(2):  # from the cache, too
        found = read(tree)
        (note,) = home_page.page(found)["notes"]
        assert note.startswith(wanted)
    assert [facts.facts["cpu"] for _, facts in found.hardware("bench-1")] == ["EPYC", "Xeon"] * 2 + ["EPYC"]
    path.write_text(json.dumps(data | {"params": {"cpu": "EPYC", "num_cpu": "4"}}))
    assert "(CPUs: 2, then 4)" in home(tree).notes[1]
    sessions(tree, {"cpu": "epyc"})
    sessions(tree, {"cpu": "epyc"}, {"cpu": "other"})
    (note,) = home(tree).notes  # what sessions say counts
    assert "(CPU: epyc, then other)" in note


def test_another_limit_of_the_same_gpu_is_no_other_machine(tree):
    sessions(tree, {"gpu": "H100; power limit, mW 700000"}, {"gpu": "H100; power limit, mW 500000"})
    assert home(tree).notes == []


def test_results_of_another_project_are_one_clear_line(tree):
    for path in tree.results.rglob("*.json"):
        path.write_text(path.read_text().replace(".Cpu.time_hot", ".suite.time_foo"))
    page = home(tree)
    assert page.grids == []
    assert page.foreign.startswith("results/ has results, but none that belong here")
    assert page.notes


def test_results_of_a_deleted_benchmark_are_a_note(tree):
    path = tree.results / "benchmarks.json"
    data = json.loads(path.read_text())
    del data["matmul.Cpu.time_hot"]
    path.write_text(json.dumps(data))
    page = home(tree)
    assert {row.kernel for row in page.grids[0].rows} == {"add_mul_exp"}
    assert any("matmul.Cpu.time_hot is no longer in benchmarks.json" in note for note in page.notes)


def test_one_commit_is_a_page_too(tmp_path):
    page = home(synthetic.build(tmp_path, messages=synthetic.MESSAGES[:1]))
    row = row_of(page.grids[0], "matmul", "native")
    assert (row.rate.text, row.sparkline, {cell.text for cell in row.changes}) == ("5.00 GFLOPS", "", {"–"})


def test_filters_offer_what_there_is_and_nothing_where_there_is_one_of_it(tree):
    assert [(name, choices) for name, _, choices in home(tree).filters] == [
        ("kernel", ["add_mul_exp", "matmul"]),
        ("implementation", ["eager", "native", "triton"]),
    ]


def test_its_data_are_numbers(tree, monkeypatch):
    monkeypatch.setattr(model.Site, "roofs", lambda *_: ROOFS)
    keep(tree)
    keep_verdict(tree)
    data, _ = home_page.build(read(tree))
    value = json.loads(json.dumps(data.value, allow_nan=False))
    (grid,) = value["grid"]
    (row,) = [row for row in grid["rows"] if (row["kernel"], row["implementation"]) == ("matmul", "native")]
    assert (row["device"], row["state"], row["commit"]) == ("Cpu", "hot", tree.commits[4])
    assert row["gflops"] == pytest.approx(12.5, rel=0.01)
    assert row["changes"] == [pytest.approx(1, rel=0.02), None, None, None]
    assert grid["spans"][0] == {"name": "1 day", "against": tree.commits[3]}
    assert (value["verdicts"][0]["when"], value["findings"][0]["culprit"]) == (WHEN.isoformat(), tree.commits[2])


def test_fifty_kernels_by_four_by_three_machines_stay_below_a_megabyte(tree, monkeypatch):
    monkeypatch.setattr(model.Site, "roofs", lambda *_: ROOFS)
    page = home_page.page(read(tree))
    (grid,) = page["grids"]
    (row, *_) = [row for row in grid["rows"] if (row["kernel"], row["implementation"]) == ("matmul", "native")]
    line = svg.sparkline([1.0, 100.0] * 16, "GFLOPS")
    cells = [dataclasses.replace(row["rate"], text="≈ 12.3% faster", marks=(1, 2))] * 4
    full = row | {"kernel": "a_kernel_with_a_name", "sparkline": line, "changes": cells, "efficiency": cells[0]}
    large = page | {"grids": [grid | {"rows": [full] * 50 * 4}] * 3}
    text = report.page_templates().get_template("home.html").render(page=large)
    static = report.TEMPLATES / "static"
    beside = sum((static / name).stat().st_size for name in ("style.css", "home.css", "home.js"))
    assert text.count("<tr data-kernel") == 600
    assert len(text.encode()) + beside < 1e6


def asked(href):
    """Return the file that a link names, and what it asks that page for."""
    file, _, said = href.partition("#")
    return file, dict(parse_qsl(said, keep_blank_values=True))


def test_every_link_to_a_trend_asks_for_the_place_and_state_that_it_speaks_of(tree):
    synthetic.write_json(tree.results / "bench-2" / "machine.json", {"machine": "bench-2", "version": 1})
    for index in (0, 2):
        synthetic.write_commit(tree.results, tree.commits[index], index, machine="bench-2")
    place = {"environment": synthetic.ENVIRONMENT, "state": "hot"}
    grids = home(tree).grids
    assert [grid.place.machine for grid in grids] == ["bench-1", "bench-2"]
    for grid in grids:
        for row in grid.rows:
            assert asked(row.href) == (f"kernel-{row.kernel}-Cpu.html", {"machine": grid.place.machine, **place})
    page = commit(tree, tree.commits[2])
    assert {row.machine for row in page.changed} == {"bench-1", "bench-2"}
    for row in page.changed:
        wanted = {"machine": row.machine, "case": row.case, **place}
        assert asked(row.href) == (f"kernel-{row.kernel}-Cpu.html", wanted)
    for section in page.sections:
        for fold in section.folds:
            assert asked(fold.href) == (f"kernel-{fold.kernel}-Cpu.html", {"machine": section.place.machine, **place})


def test_machines_are_shown_apart(tree):
    synthetic.write_json(tree.results / "bench-2" / "machine.json", synthetic.machine_json("bench-2"))
    synthetic.write_commit(tree.results, tree.commits[0], 0, machine="bench-2")
    assert [grid.place.machine for grid in home(tree).grids] == ["bench-1", "bench-2"]
    page = kernel(tree)
    assert [len(section.tables[0].rows) for section in page.sections] == [5, 1]
    assert [place.machine for place in page.places] == ["bench-1", "bench-2"]
    assert len({section.anchor for section in page.sections}) == 2
    first = commit(tree, tree.commits[0])
    assert (len(first.sections), first.several) == (2, True)
    assert commit(tree, tree.commits[1]).several is False


def test_a_series_that_the_newest_commit_did_not_measure_says_when_it_was(tree):
    path = results_file(tree, -1)
    data = json.loads(path.read_text())
    row = data["results"]["matmul.Cpu.time_hot"]
    row[0], row[1] = row[0][:1], [["'eager'"], ["'float32-256x256x256'"]]
    row[5:] = [row[5][:1], row[6][:1]]
    path.write_text(json.dumps(data))
    (grid,) = home(tree).grids
    rate = row_of(grid, "matmul", "eager").rate
    (mark,) = rate.marks
    assert grid.footnotes[mark - 1] == f"float32-512x512x512: measured last at {tree.commits[3][:8]}"
    assert rate.detail == "of 1 of 2 test cases"
    native = row_of(grid, "matmul", "native").rate  # nothing of it at the newest commit
    assert [grid.footnotes[mark - 1] for mark in native.marks] == [f"measured last at {tree.commits[3][:8]}"]
    assert native.text == "12.5 GFLOPS"


def test_the_home_page_counts_what_it_does_not_list(tree, monkeypatch):
    monkeypatch.setattr(home_page, "RECENT", 3)
    page = home(tree)
    assert len(page.commits) == 3
    assert page.further == "2 older commits on the kernels' pages"


def test_what_was_never_asked_for_takes_no_room(tree):
    """Cases of another tier and devices that the machine lacks are n/a in every results file."""
    for index in range(5):
        make_na(tree, index, "matmul.Cpu.time_hot", list(synthetic.CASES["matmul.Cpu.time_hot"]))
        make_na(tree, index, "add_mul_exp.Cpu.time_hot", ["float32-500k"])
    assert [name for name in kernel_files(tree) if name.endswith(".html")] == ["kernel-add_mul_exp-Cpu.html"]
    (grid,) = home(tree).grids
    assert {row.kernel for row in grid.rows} == {"add_mul_exp"}
    assert row_of(grid, "add_mul_exp", "native").rate.detail == ""
    page = commit(tree, tree.commits[0])
    (section,) = page.sections
    assert cases_of(page) == {"float32-5M"}
    assert section.left_out == ["add_mul_exp.Cpu.time_hot: not measured: float32-500k"]


def test_a_case_that_the_newest_commit_was_not_asked_for_is_not_in_the_mean_and_says_when_it_was(tree):
    make_na(tree, 4, "matmul.Cpu.time_hot", ["float32-512x512x512"])
    (grid,) = home(tree).grids
    native = row_of(grid, "matmul", "native").rate
    assert native.detail == "of 1 of 2 test cases"
    (mark,) = native.marks
    assert grid.footnotes[mark - 1] == f"float32-512x512x512: measured last at {tree.commits[3][:8]}"
    assert grid.newest.short == tree.commits[4][:8]


def test_memory_is_shown_in_units_where_asv_wrote_bytes(tree):
    path = tree.results / synthetic.MACHINE / "machine.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"ram": "25276510208"}))
    details = dict(home(tree).grids[0].place.details)
    assert details == {"cpu": "Imaginary 9000", "CPUs": "2", "os": "Linux 6.1", "memory": "23.5 GiB"}
    path.write_text(path.read_text().replace("25276510208", "9" * 400))
    assert dict(home(tree).grids[0].place.details)["memory"] == "9" * 400


def test_changes_over_days_are_those_of_the_newest_value_that_old(tree):
    make_ragged(tree)
    found = read(tree)
    when = home_grid.dates(found)
    every = [found.series(key) for key in found.keys]
    spans = home_grid.spans_of(found, when, 4, every)
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
