"""Page data: golden files of what every kind of page says, and the facts planted in the synthetic tree."""

import dataclasses
import json
from pathlib import Path
from urllib.parse import parse_qsl

import git
import pytest

from kernel_velocity.site import model, text
from kernel_velocity.site.charts.small import sparkline
from kernel_velocity.site.outputs import Page
from kernel_velocity.site.pages import commit as commit_page
from kernel_velocity.site.pages import home as home_page
from kernel_velocity.site.pages import kernel as kernel_page
from kernel_velocity.site.text import Footnotes
from tests import synthetic
from tests.golden import check_golden
from tests.series.one_by_one import everything

GOLDEN = Path(__file__).parent / "golden"


def site_data(tree):
    return everything(tree)


def kernel_pages(tree):
    """Return the pages of the kernels."""
    return [made.context()["page"] for made in kernel_page.build(read(tree)) if isinstance(made, Page)]


def kernel_data(tree, name):
    """Return a data file of the kernels' pages."""
    return next(made.value() for made in kernel_page.build(read(tree)) if made.name == name)


def read(tree):
    return model.read(tree.results, tree.repository)


def home(tree):
    return home_page.page(read(tree))


def commit(tree, sha):
    return commit_page.Maker.of(read(tree)).page(sha)


def row_of(grid, kernel, implementation):
    (row,) = [row for row in grid.rows if (row.kernel, row.implementation) == (kernel, implementation)]
    return row


def rows_of(page):
    """Return every row of a commit's page, those that changed first."""
    return [*page.changed, *(row for section in page.sections for fold in section.folds for row in fold.rows)]


def as_text(page):
    return json.dumps(dataclasses.asdict(page), indent=1, ensure_ascii=False) + "\n"


def of(pages, name):
    (page,) = [page for page in pages if page.name == name]
    return page


def test_home_golden(tree, accept):
    check_golden(GOLDEN / "home.json", as_text(home(tree)), accept=accept)


def test_kernel_golden(tree, accept):
    page = of(kernel_pages(tree), "kernel-matmul-Cpu.html")
    check_golden(GOLDEN / "kernel.json", as_text(page), accept=accept)


def test_kernel_data_golden(tree, accept):
    data = kernel_data(tree, "kernel-add_mul_exp-Cpu")
    check_golden(GOLDEN / "kernel_data.json", json.dumps(data, indent=1, ensure_ascii=False) + "\n", accept=accept)


def test_commit_golden(tree, accept):
    check_golden(GOLDEN / "commit.json", as_text(commit(tree, tree.commits[3])), accept=accept)


def cells(tree, sha):
    """Return the cells of add_mul_exp's larger case at a commit by implementation."""
    page = of(kernel_pages(tree), "kernel-add_mul_exp-Cpu.html")
    (table,) = [table for table in page.sections[0].tables if table.case == "float32-5M"]
    (row,) = [row for row in table.rows if row.commit.short == sha[:8]]
    return page.sections[0], dict(zip(table.implementations, row.cells, strict=True))


def asked(href):
    """Return the file that a link names, and what it asks that page for."""
    file, _, said = href.partition("#")
    return file, dict(parse_qsl(said, keep_blank_values=True))


@pytest.mark.parametrize("name", ["bench-1", "a&b=c#d +%2e", "\N{ROCKET} \u05e9\u05dc\u05d5\u05dd", ""])
def test_a_link_to_a_kernels_page_says_what_it_is_to_show(name):
    choice = {"state": "hot", "machine": name, "environment": f"{name}-py3.11", "case": f"float32-{name}"}
    assert asked(text.kernel_href("matmul", "Cpu", **choice)) == ("kernel-matmul-Cpu.html", choice)
    assert text.kernel_href("matmul", "Cpu") == "kernel-matmul-Cpu.html"


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


def test_footnotes_that_differ_in_counts_of_rounds_are_one():
    notes = Footnotes()
    first = notes.marks(("contended in 3 of 8 rounds (busy)", "need 7 rounds, have 2", "driver 3 of 8"))
    assert first == (1, 2, 3)
    assert notes.marks(("contended in 12 of 12 rounds (busy)",)) == (1,)
    assert notes.marks(("contended in 1 of 8 rounds",)) == (4,)
    assert notes.marks(("need 7 rounds, have 5", "driver 4 of 8")) == (2, 5)
    assert notes.texts == (
        "contended in 3 to 12 of 8 to 12 rounds (busy)",
        "need 7 rounds, have 2 to 5",
        "driver 3 of 8",
        "contended in 1 of 8 rounds",
        "driver 4 of 8",
    )


def test_the_planted_step_is_called_faster_at_its_commit_only(tree):
    tones = [cells(tree, sha)[1]["native"].tone for sha in tree.commits]
    assert tones == ["", "same", "faster", "same", "same"]
    step = cells(tree, tree.commits[synthetic.STEP_AT])[1]["native"]
    assert step.change == "2.51x faster"
    assert cells(tree, tree.commits[synthetic.STEP_AT])[1]["eager"].tone == "same"


def test_not_applicable_and_failed_are_told_apart_with_their_reasons(tree):
    section, before = cells(tree, tree.commits[2])
    _, broken = cells(tree, tree.commits[3])
    assert (before["triton"].text, broken["triton"].text) == ("n/a", "failed")
    assert section.footnotes[before["triton"].marks[0] - 1].startswith("n/a: the test case was not asked for")
    assert section.footnotes[broken["triton"].marks[0] - 1].startswith("failed: the commit did not build, or")


@pytest.mark.parametrize(
    ("commit", "more", "shown"),
    [
        (3, {"error": "wrong by 3e-2"}, "failed: wrong by 3e-2"),
        (2, {"error": "no Triton", "skipped": True}, "n/a: no Triton"),
    ],
)
def test_a_known_reason_is_shown(tree, commit, more, shown):
    stem = f"{tree.commits[commit][:8]}-{synthetic.ENVIRONMENT}"
    line = {"b": "add_mul_exp.Cpu.time_hot", "p": ["triton", "float32-5M"], "t": 1.0, **more}
    path = tree.results / synthetic.MACHINE / "telemetry" / f"{stem}.failures.jsonl"
    path.write_text(json.dumps(line) + "\n")
    section, found = cells(tree, tree.commits[commit])
    assert section.footnotes[found["triton"].marks[0] - 1] == shown


def test_every_number_of_a_cell_has_its_unit(tree):
    cell = cells(tree, tree.commits[0])[1]["native"]
    assert cell.text == "5.00 GFLOPS"
    assert cell.detail == "4.98 to 5.01 GFLOPS · 3.00 ms"


def test_without_benchmarks_json_the_times_are_shown(tree):
    (tree.results / "benchmarks.json").unlink()
    cell = cells(tree, tree.commits[0])[1]["native"]
    assert (cell.text, cell.detail) == ("3.00 ms", "3.00 ms to 3.01 ms")
    assert quantities(tree, "kernel-add_mul_exp-Cpu.html") == ("µs", "speed-up")


def quantities(tree, name):
    return tuple(quantity for quantity, _ in of(kernel_pages(tree), name).quantities)


def test_traffic_is_offered_for_the_element_wise_kernel_only(tree):
    assert quantities(tree, "kernel-add_mul_exp-Cpu.html") == ("GFLOPS", "GB/s", "µs", "speed-up")
    assert quantities(tree, "kernel-matmul-Cpu.html") == ("GFLOPS", "µs", "speed-up")


def test_machines_are_shown_apart(tree):
    synthetic.write_json(tree.results / "bench-2" / "machine.json", synthetic.machine_json("bench-2"))
    synthetic.write_commit(tree.results, tree.commits[0], 0, machine="bench-2")
    assert [grid.place.machine for grid in home(tree).grids] == ["bench-1", "bench-2"]
    page = of(kernel_pages(tree), "kernel-matmul-Cpu.html")
    assert [len(section.tables[0].rows) for section in page.sections] == [5, 1]
    assert [place.machine for place in page.places] == ["bench-1", "bench-2"]
    assert len({section.anchor for section in page.sections}) == 2
    first = commit(tree, tree.commits[0])
    assert (len(first.sections), first.several) == (2, True)
    assert commit(tree, tree.commits[1]).several is False


def test_a_series_that_the_newest_commit_did_not_measure_says_when_it_was(tree):
    path = tree.results / synthetic.MACHINE / f"{tree.commits[-1][:8]}-{synthetic.ENVIRONMENT}.json"
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


def test_a_commit_whose_parent_was_not_measured_says_what_it_is_compared_with(tree):
    (tree.results / synthetic.MACHINE / f"{tree.commits[1][:8]}-{synthetic.ENVIRONMENT}.json").unlink()
    page = commit(tree, tree.commits[2])
    assert "is not always its parent" in page.lead
    assert page.heads[0] == "speed, against the one before"
    assert f"against {tree.commits[0][:8]}: its parent has no time of it" in page.footnotes
    assert page.parents == ((tree.commits[1][:8], ""),)
    assert page.older == (tree.commits[0][:8], f"commit-{tree.commits[0][:8]}.html")


def test_a_commit_where_everything_failed_says_so(tree):
    path = tree.results / synthetic.MACHINE / f"{tree.commits[-1][:8]}-{synthetic.ENVIRONMENT}.json"
    data = json.loads(path.read_text())
    for row in data["results"].values():
        row[0] = None
    path.write_text(json.dumps(data))
    page = commit(tree, tree.commits[-1])
    assert page.lead.startswith("Nothing could be measured: the commit did not build")
    assert {row.cell.text for row in page.changed} == {"failed"}
    assert page.sections[0].lead == "8 of 8 series changed distinctly: 8 without a time now"


def test_a_commit_beside_the_line_has_a_page_against_its_parent_and_no_place_on_a_trend(tree):
    with git.Repo(tree.repository) as repo:
        side = repo.index.commit("Side", parent_commits=[repo.commit(tree.commits[1])], head=False).hexsha
    synthetic.write_commit(tree.results, side, 2)
    page = commit(tree, side)
    assert page.lead.startswith("It is not on the first-parent line of HEAD")
    assert [row.implementation for row in page.changed] == ["native"] * 4
    assert {row.cell.tone for row in page.changed} == {"faster"}
    assert {row.best.detail for row in page.changed} <= {sha[:8] for sha in tree.commits[:2]}
    assert all(line.short != side[:8] for line in home(tree).commits)
    (note,) = read(tree).notes
    assert note.endswith(side[:8])


def test_the_home_page_counts_what_it_does_not_list(tree, monkeypatch):
    monkeypatch.setattr(home_page, "RECENT", 3)
    page = home(tree)
    assert len(page.commits) == 3
    assert page.further == "2 older commits on the kernels' pages"


@pytest.mark.parametrize("values", [[], [1.0]])
def test_one_commit_is_no_trend(values):
    assert sparkline(values, "GFLOPS") is None


def test_a_sparkline_starts_from_zero():
    line = sparkline([5.0, 10.0], "GOPS")
    assert (line.path, line.end) == ("M3 14l114 -11", (117, 3))
    assert line.label == "from 5.00 GOPS to 10.0 GOPS over 2 commits"


def test_a_sparkline_of_many_commits_shows_the_newest_and_says_so():
    line = sparkline([1.0] * 1000 + [4.0] * 31 + [8.0], "GFLOPS")
    assert line.path.startswith("M3 14l") and line.path.count(" ") == 32 + 30
    assert line.label == "from 4.00 GFLOPS to 8.00 GFLOPS over the last 32 of 1,032 commits"


def make_na(tree, index, name, cases, implementations=synthetic.IMPLEMENTATIONS):
    """Overwrite values of a commit with n/a, as asv stores what was not asked for."""
    path = tree.results / synthetic.MACHINE / f"{tree.commits[index][:8]}-{synthetic.ENVIRONMENT}.json"
    data = json.loads(path.read_text())
    row = data["results"][name]
    pairs = [(one, case) for one in synthetic.IMPLEMENTATIONS for case in synthetic.CASES[name]]
    for place, (one, case) in enumerate(pairs):
        if case in cases and one in implementations:
            row[0][place] = float("nan")
    path.write_text(json.dumps(data))


def test_what_was_never_asked_for_takes_no_room(tree):
    """Cases of another tier and devices that the machine lacks are n/a in every results file."""
    for index in range(5):
        make_na(tree, index, "matmul.Cpu.time_hot", list(synthetic.CASES["matmul.Cpu.time_hot"]))
        make_na(tree, index, "add_mul_exp.Cpu.time_hot", ["float32-500k"])
    assert [page.kernel for page in kernel_pages(tree)] == ["add_mul_exp"]
    (grid,) = home(tree).grids
    assert {row.kernel for row in grid.rows} == {"add_mul_exp"}
    assert row_of(grid, "add_mul_exp", "native").rate.detail == ""
    page = commit(tree, tree.commits[0])
    (section,) = page.sections
    assert {row.case for row in rows_of(page)} == {"float32-5M"}
    assert section.left_out == ("add_mul_exp.Cpu.time_hot: not measured: float32-500k",)


def test_a_commit_that_measured_nothing_has_a_page_without_tables(tree):
    for name, cases in synthetic.CASES.items():
        make_na(tree, 4, name, list(cases))
    page = commit(tree, tree.commits[4])
    assert (page.sections, page.changed) == ((), ())
    assert page.lead == "Every value recorded for it is n/a: there was nothing to measure."
    kernel = of(kernel_pages(tree), "kernel-matmul-Cpu.html")
    assert [len(table.rows) for table in kernel.sections[0].tables] == [4, 4]


def test_a_case_that_the_newest_commit_was_not_asked_for_is_not_in_the_mean_and_says_when_it_was(tree):
    make_na(tree, 4, "matmul.Cpu.time_hot", ["float32-512x512x512"])
    (grid,) = home(tree).grids
    native = row_of(grid, "matmul", "native").rate
    assert native.detail == "of 1 of 2 test cases"
    (mark,) = native.marks
    assert grid.footnotes[mark - 1] == f"float32-512x512x512: measured last at {tree.commits[3][:8]}"
    assert grid.newest.short == tree.commits[4][:8]


def test_a_change_without_intervals_is_not_confirmed(tree):
    for index in (1, 2):
        synthetic.write_commit(tree.results, tree.commits[index], index, rounds=2)
    step = cells(tree, tree.commits[2])[1]["native"]
    assert step.change.startswith("≈ 2.")
    assert step.tone == "same"


def test_memory_is_shown_in_units_where_asv_wrote_bytes(tree):
    path = tree.results / synthetic.MACHINE / "machine.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"ram": "25276510208"}))
    details = dict(home(tree).grids[0].place.details)
    assert details == {"cpu": "Imaginary 9000", "CPUs": "2", "os": "Linux 6.1", "memory": "23.5 GiB"}
    path.write_text(path.read_text().replace("25276510208", "9" * 400))
    assert dict(home(tree).grids[0].place.details)["memory"] == "9" * 400
