"""The site as files: whole or not at all, safe against what people type, and honest about what it could not read."""

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import git
import pytest

from kernel_velocity.errors import HistoryError, ResultsError
from kernel_velocity.site import report, series_data
from kernel_velocity.site.pages import commit_facts, finding, home
from kernel_velocity.site.writer import read_data
from tests import large_tree, synthetic
from tests.commands import kv
from tests.site.pages import AUTHOR, HOSTILE, Tags, edit, keep, results_file

DATA_FILES = Path(__file__).parents[2] / "docs" / "reference" / "data-files.md"
ALWAYS = [  # pages that every site has
    *("compare.html", "findings.html", "index.html"),
    *("machines.html", "measurement.html", "roofline.html"),
]
UPLOT = "https://github.com/leeoniya/uPlot"
SVG = "http://www.w3.org/2000/svg"  # the name of a language, and no address


def write(tree, name="site", cache=None):
    out = tree.repository.parent / name
    return report.write_site(results=tree.results, repository=tree.repository, out=out, cache=cache), out


def pages(out):
    return sorted(path.name for path in out.glob("*.html"))


@pytest.fixture
def only(monkeypatch):
    """Return a function that leaves only some parts of a site."""

    def chosen(*parts):
        monkeypatch.setattr(report, "LARGE", parts)
        monkeypatch.setattr(report, "SMALL", ())
        monkeypatch.setattr(report.kernel, "parts", lambda _: [])

    return chosen


def test_pages_of_kernels_and_commits(tree):
    summary, out = write(tree)
    wanted = [*ALWAYS, "kernel-add_mul_exp-Cpu.html", "kernel-matmul-Cpu.html"]
    assert pages(out) == sorted(wanted + [f"commit-{sha[:8]}.html" for sha in tree.commits])
    assert (summary.pages, summary.commits, summary.series, summary.notes) == (len(ALWAYS) + 7, 5, 12, ())
    assert summary.index == (out / "index.html").resolve()
    for path in out.glob("*.html"):
        for target in re.findall(r'(?:href|src)="([^"#]*)', path.read_text(encoding="utf-8")):
            assert target in {"data:,", ""} or (out / target).is_file(), (path.name, target)
    for path in (out / "static").iterdir():
        text = path.read_text().replace(SVG, "").replace(UPLOT, "")
        assert "http" not in text and "url(" not in text, path.name


def test_pages_name_the_folder_of_findings(tree, only):
    only(finding.build_list, finding.build_pages)
    results = shutil.move(tree.results, tree.repository / "perf" / "measured")
    tree = replace(tree, results=Path(results))
    _, out = write(tree)
    assert "<code>perf/measured/findings</code>" in (out / "findings.html").read_text()
    keep(tree, id="slow")
    write(tree)
    assert "<code>perf/measured/findings/slow.toml</code>" in (out / "finding-slow.html").read_text()


def test_navigation_marks_the_page(tree):
    keep(tree, id="slow")
    _, out = write(tree)
    marked = {name: (name, "page") for name in ALWAYS if name != "measurement.html"}
    marked |= {"finding-slow.html": ("findings.html", "true")}
    marked |= {f"commit-{sha[:8]}.html": ("index.html#commits", "true") for sha in tree.commits}
    marked |= {f"kernel-{name}-Cpu.html": ("index.html#kernels", "true") for name in ("matmul", "add_mul_exp")}
    for name in pages(out):
        text = (out / name).read_text(encoding="utf-8")
        assert all(f'<a href="{page}"' in text for page in marked if page in ALWAYS), name
        current = re.findall(r'href="([\w.#]+)" aria-current="(\w+)"', text)
        assert current == ([marked[name]] if name in marked else []), name


def test_tracked_errors_are_on_their_kernel(tree):
    """track_max_error: a value, n/a and failed. Zero, which no time is."""
    _, before = write(tree, "before")
    name = "matmul.Cpu.track_max_error"
    params = [["'eager'", "'native'"], ["'float32-256x256x256'", "'float32-512x512x512'"]]
    entry = {"name": name, "type": "track", "unit": "1", "version": "1", "params": params}
    edit(tree.results / "benchmarks.json", lambda data: data.update({name: entry}))
    for path in (tree.results / synthetic.MACHINE).glob("*-*.json"):
        row = [[0, 1.5e-7, None, float("nan")], params, "1", 1767225600000, 1.0]
        edit(path, lambda data, row=row: data["results"].update({name: row}))
    summary, after = write(tree, "after")
    assert summary.notes == ()
    assert pages(before) == pages(after)
    for page in pages(before):
        texts = [(folder / page).read_text() for folder in (before, after)]
        assert (texts[0] == texts[1]) == (page != "kernel-matmul-Cpu.html"), page
        assert ('<option value="error"' in texts[1]) == (page == "kernel-matmul-Cpu.html")
    values = [read_data(path)["value"] for path in sorted((after / "data").glob("error-*.js"))]
    assert sorted(values) == [[0.0] * 5, [1.5e-7] * 5]


def test_crash_leaves_the_old_site(tree, only):
    _, out = write(tree)
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    results_file(tree, 0).unlink()

    def broken(_site):
        raise RuntimeError("no index today")

    only(home.build, broken)
    with pytest.raises(RuntimeError):
        write(tree)
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before
    assert not list(out.glob(".new-*"))


def test_leftovers_of_killed_reports(tree, only):
    only()
    out = tree.repository.parent / "site"
    dead, busy, mine = (out / name for name in (".new-dead", ".new-busy", "mine"))
    for folder in (dead, busy, mine):
        folder.mkdir(parents=True)
        (folder / "x").write_text("x")
        if folder != busy:
            os.utime(folder, (1.0, 1.0))
    write(tree)
    assert [folder.exists() for folder in (dead, busy, mine)] == [False, True, True]


def test_hostile_text_stays_text(tmp_path):
    """Commit messages, authors, machines, test cases: no page has an element or attribute that it has not usually."""
    plain = synthetic.build(tmp_path / "plain")
    _, out = write(plain)
    usual = {}
    for path in out.glob("*.html"):
        kind, page = path.name.partition("-")[0], Tags(path.read_text(encoding="utf-8"))
        tags, attributes = usual.get(kind, (set(), set()))
        usual[kind] = (tags | page.tags | {"pre", "dl", "ol", "li", "sup"}, attributes | page.attributes)
    tree = synthetic.build(tmp_path, messages=HOSTILE, author=AUTHOR, machine="<i>bench")
    for path in tree.results.rglob("*.json*"):
        path.write_text(path.read_text().replace("float32-5M", "<b>{{5M}}</b>"))
    _, out = write(tree)
    for path in out.glob("*.html"):
        page = Tags(path.read_text(encoding="utf-8"))
        tags, attributes = usual[path.name.partition("-")[0]]
        assert page.tags <= tags, (path.name, page.tags - tags)
        assert page.attributes <= attributes, (path.name, page.attributes - attributes)
    index = Tags((out / "index.html").read_text(encoding="utf-8")).text
    for name in (*(message.partition("\n")[0] for message in HOSTILE), AUTHOR, "<i>bench"):
        assert name in index
    first, third = (
        Tags((out / f"commit-{sha[:8]}.html").read_text(encoding="utf-8")).text for sha in tree.commits[:3:2]
    )
    assert HOSTILE[0].partition("\n\n")[2] in first and "<b>{{5M}}</b>" in third


def test_site_without_results(tree):
    shutil.rmtree(tree.results)
    tree.results.mkdir()
    (tree.results / "README.md").write_text("what lies here")
    with pytest.raises(ResultsError, match="results: no results: `kv track` measures, or name asv's results directory"):
        write(tree)
    assert not (tree.repository.parent / "site").exists()


def test_note_of_a_missing_commit(tree):
    path = synthetic.write_commit(tree.results, "d" * 40, 1)
    summary, out = write(tree)
    assert summary.notes == ("results of commits that the repository does not have are kept, not shown: dddddddd",)
    assert path.exists()
    assert "not shown: dddddddd" in (out / "index.html").read_text()
    assert "commit-dddddddd.html" not in pages(out)


def arguments(tree, **changes):
    options = {"results": tree.results, "repository": tree.repository, "out": tree.repository.parent / "site"} | changes
    return ["report", *(text for name, value in options.items() for text in (f"--{name}", str(value)))]


def test_command_prints_notes_and_the_page(tree):
    (tree.results / "benchmarks.json").write_text("")
    note = "note: benchmarks.json: empty file; values are shown, units and GFLOPS need it (`asv run` writes it again)\n"
    page = (tree.repository.parent / "site" / "index.html").as_uri()
    assert kv(*arguments(tree)) == (0, f"12 series over 5 commits: {page}\n", note)


@pytest.mark.parametrize(
    ("change", "complaint", "error"),
    [
        ({"results": "{empty}/none"}, "error: {empty}/none: no such directory", ResultsError),
        ({"repository": "/"}, "error: /: no git repository", HistoryError),
        ({"out": "/dev/null"}, "error: /dev/null: a folder for the site is wanted, this is a file", ResultsError),
        ({"colour": "red"}, "error: unrecognized arguments: --colour red", None),
    ],
)
def test_usage_error_is_one_line(tree, tmp_path, change, complaint, error):
    here = {name: text.replace("{empty}", str(tmp_path)) for name, text in change.items()}
    status, out, err = kv(*arguments(tree, **here))
    assert (status, out) == (2, "")
    assert err.startswith(complaint.replace("{empty}", str(tmp_path)))
    assert err.count("\n") == 1
    if error is not None:
        paths = {"results": tree.results, "repository": tree.repository, "out": tmp_path / "site"}
        with pytest.raises(error):
            report.write_site(**{**paths, **{name: Path(text) for name, text in here.items()}})


@pytest.mark.parametrize(
    ("machine", "results"),
    [(b"", b"\xff\xfe{"), (b"{}", b'{"version": "x"}'), (b'{"machine": "m", "cpu": "\\ud800"}', b"\x00")],
)
def test_damaged_file_is_a_note(tree, machine, results):
    damaged = {tree.results / synthetic.MACHINE / "machine.json": machine, results_file(tree, 0): results}
    for path, text in damaged.items():
        path.write_bytes(text)
    summary, _ = write(tree)
    assert (summary.series, summary.commits) == (12, 4)
    names = [path.name for path, text in damaged.items() if b"cpu" not in text]  # a strange name is no damage
    assert len(summary.notes) == len(names)
    assert all(any(name in note for note in summary.notes) for name in names)
    assert not any("\n" in note for note in summary.notes)


def test_docs_name_every_data_file(whole_tree, tmp_path):
    patterns = re.findall(r"`([a-z]+(?:-[a-zA-Z0-9<> -]*)?)`", DATA_FILES.read_text(encoding="utf-8"))
    compiled = [re.compile(re.sub("<[^>]*>", ".+", pattern)) for pattern in patterns]
    report.write_site(results=whole_tree.results, repository=whole_tree.repository, out=tmp_path)
    names = {path.stem for path in (tmp_path / "data").glob("*.js")}
    assert {"home", "rounds-index", "fits-0"} <= names
    assert [name for name in sorted(names) if not any(pattern.fullmatch(name) for pattern in compiled)] == []


def test_tables_are_made_in_one_place():
    assert [path.name for path in report.TEMPLATES.glob("*.html") if "<table" in path.read_text()] == ["parts.html"]


# ---- one more report -----------------------------------------------------------------------------------------------


def site_of(tree, name, cache):
    """Return the files of a site but for its static ones."""
    _, out = write(tree, name, tree.repository.parent / cache)
    made = (path for path in out.rglob("*") if path.is_file() and path.parent.name != "static")
    return {str(path.relative_to(out)): path.read_bytes() for path in made}


def check_as_from_nothing(tree):
    """Compare a site that is brought up to date with one that is made from nothing."""
    got = site_of(tree, "site", "cache")
    for name in ("fresh", "fresh_cache"):
        shutil.rmtree(tree.repository.parent / name, ignore_errors=True)
    fresh = site_of(tree, "fresh", "fresh_cache")
    # a series' inputs are numbered in the order in which the cache met them
    assert got.keys() == fresh.keys()
    assert {name for name in got if got[name] != fresh[name]} <= {"site.json"}


def measure_again(data):
    for row in data["results"].values():
        row[0] = [value and value / 2 for value in row[0]]


def test_update_in_any_order(tree, only):
    only(home.build, commit_facts.build)
    paths = [results_file(tree, index) for index in (4, 1, 3, 0, 2)]
    for path in paths:
        path.rename(path.with_suffix(".later"))
    for path in paths:
        path.with_suffix(".later").rename(path)
        site_of(tree, "site", "cache")
    check_as_from_nothing(tree)


def test_update_is_as_from_nothing(tree, only):
    only(home.build, commit_facts.build)
    site_of(tree, "site", "cache")
    edit(results_file(tree, 1), measure_again)
    check_as_from_nothing(tree)
    with git.Repo(tree.repository) as repo:
        repo.create_tag("v1", ref=tree.commits[2])
        side = repo.index.commit("Release", parent_commits=[repo.commit(tree.commits[1])], head=False)
    check_as_from_nothing(tree)
    synthetic.write_commit(tree.results, side.hexsha, 2)
    check_as_from_nothing(tree)
    keep(tree)
    check_as_from_nothing(tree)


def test_update_of_a_neighbour(tmp_path, only):
    """Where no verdict changes, a new commit changes the page of the one before it, which links to it, and no other."""
    only(home.build, commit_facts.build)
    shape = large_tree.Shape(commits=14, series=20)
    commits = large_tree.build(tmp_path, shape, [])
    tree = synthetic.Tree(tmp_path / "repository", tmp_path / "results", commits)
    newest = tree.results / large_tree.MACHINE / f"{commits[-1][:8]}-{large_tree.ENVIRONMENT}.json"
    newest.rename(newest.with_suffix(".later"))
    before = site_of(tree, "site", "cache")
    newest.with_suffix(".later").rename(newest)
    after = site_of(tree, "site", "cache")
    changed = {name for name in after if name.startswith("commit-") and before.get(name) != after[name]}
    assert changed == {f"commit-{sha[:8]}.html" for sha in commits[-2:]}


def test_update_writes_what_changed(tmp_path, only):
    """Counts, not times: of 40 series in two benchmarks, the new commit measured one benchmark."""
    only(series_data.build)
    shape = large_tree.Shape(commits=24, series=40)
    commits = large_tree.build(tmp_path, shape, changes=())  # a young level would learn from the other benchmark
    newest = tmp_path / "results" / large_tree.MACHINE / f"{commits[-1][:8]}-{large_tree.ENVIRONMENT}.json"
    data = json.loads(newest.read_text())
    newest.unlink()
    paths = {"results": tmp_path / "results", "repository": tmp_path / "repository", "out": tmp_path / "site"}
    first = report.write_site(**paths)
    # The series, the newest entries of the two benchmarks, the list of the series, and the commits
    assert (first.read, first.made, first.series) == (23, 44, 40)
    again = report.write_site(**paths)
    assert (again.read, again.made, again.written) == (0, 2, 0)
    del data["results"][shape.benchmarks[1]]
    newest.write_text(json.dumps(data))
    more = report.write_site(**paths)
    assert (more.read, more.made) == (1, 1 + 2)
    assert more.written == 1 + 1  # the newest entries and the commits, but not the list
