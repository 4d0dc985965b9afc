"""The site as files: whole or not at all, safe against what people type, and honest about what it could not read."""

import html.parser
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernel_velocity.__main__ import main
from kernel_velocity.errors import HistoryError, ResultsError
from kernel_velocity.site import report
from tests import synthetic

HOSTILE = (
    "<script>window.pwned=1</script> \"quotes\" 'n' {{ 7*7 }} {% raw %} @name $x &amp; \N{ROCKET}\n\n"
    "</script><img src=x onerror=window.pwned=1> <!-- \u202eright to left\u202c",
    "}}]]></style>\"><svg onload=window.pwned=1>",
    "@subject{safe} $$\\frac{1}{2}$$ <b>bold</b>",
    "\u05e9\u05dc\u05d5\u05dd \u200f(RTL)",
    "back`tick ${alert(1)} \\u003c",
)  # fmt: skip
AUTHOR = 'O\'Brien &lt;b&gt; "{{ 7*7 }}" @name'  # git itself drops < and > from names

ALWAYS = [  # pages that every site has
    *("compare.html", "findings.html", "index.html"),
    *("machines.html", "measurement.html", "roofline.html"),
]


def write(tree, name="site"):
    out = tree.repository.parent / name
    return report.write_site(results=tree.results, repository=tree.repository, out=out), out


def pages(out):
    return sorted(path.name for path in out.glob("*.html"))


class Tags(html.parser.HTMLParser):
    """Collects elements and their attributes, and the text between."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text = set(), set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.text += data


def test_the_site_has_an_index_and_a_page_for_every_kernel_and_commit(tree):
    summary, out = write(tree)
    wanted = [*ALWAYS, "kernel-add_mul_exp-Cpu.html", "kernel-matmul-Cpu.html"]
    assert pages(out) == sorted(wanted + [f"commit-{sha[:8]}.html" for sha in tree.commits])
    assert (summary.pages, summary.commits, summary.series, summary.notes) == (len(ALWAYS) + 7, 5, 12, ())
    assert summary.index == (out / "index.html").resolve()


def test_tracked_errors_are_shown_by_their_kernel_and_change_no_other_page(tree):
    """track_max_error: a value, n/a and failed; zero, which no time is."""
    _, before = write(tree, "before")
    name = "matmul.Cpu.track_max_error"
    params = [["'eager'", "'native'"], ["'float32-256x256x256'", "'float32-512x512x512'"]]
    benchmarks = tree.results / "benchmarks.json"
    entry = {"name": name, "type": "track", "unit": "1", "version": "1", "params": params}
    benchmarks.write_text(json.dumps({**json.loads(benchmarks.read_text()), name: entry}))
    for path in (tree.results / synthetic.MACHINE).glob("*-*.json"):
        data = json.loads(path.read_text())
        data["results"][name] = [[0, 1.5e-7, None, float("nan")], params, "1", 1767225600000, 1.0]
        path.write_text(json.dumps(data))
    summary, after = write(tree, "after")
    assert summary.notes == ()
    assert pages(before) == pages(after)
    for page in pages(before):
        texts = [re.sub(r"\bp\d+\b", "", (folder / page).read_text()) for folder in (before, after)]  # Bokeh counts on
        assert (texts[0] == texts[1]) == (page != "kernel-matmul-Cpu.html"), page
        assert ('<option value="error"' in texts[1]) == (page == "kernel-matmul-Cpu.html")
    values = [json.loads(path.read_text())["value"] for path in sorted((after / "data").glob("error-*.json"))]
    assert sorted(values) == [[0.0] * 5, [1.5e-7] * 5]


SVG = "http://www.w3.org/2000/svg"  # the name of a language, and no address


def test_nothing_is_fetched_from_elsewhere_and_every_link_leads_somewhere(tree):
    _, out = write(tree)
    for path in out.glob("*.html"):
        for target in re.findall(r'(?:href|src)="([^"#]*)', path.read_text(encoding="utf-8")):
            assert target in {"data:,", ""} or (out / target).is_file(), (path.name, target)
    for path in (out / "static").iterdir():
        text = "" if path.name == "bokeh.min.js" else path.read_text().replace(SVG, "")
        assert "http" not in text and "url(" not in text, path.name


def test_two_runs_write_the_same_pages(tree):
    one, other = write(tree, "one")[1], write(tree, "two")[1]
    for name in ("index.html", f"commit-{tree.commits[0][:8]}.html"):
        assert (one / name).read_bytes() == (other / name).read_bytes()


def test_pages_that_are_no_longer_made_go_and_nothing_else(tree):
    _, out = write(tree)
    (out / "mine.html").write_text("kept")
    (out / "kernel-mine-Cpu.html").write_text("kept")
    (tree.results / synthetic.MACHINE / f"{tree.commits[0][:8]}-{synthetic.ENVIRONMENT}.json").unlink()
    write(tree)
    assert f"commit-{tree.commits[0][:8]}.html" not in pages(out)
    assert f"commit-{tree.commits[1][:8]}.html" in pages(out)
    assert (out / "mine.html").read_text() == (out / "kernel-mine-Cpu.html").read_text() == "kept"
    assert not list(out.glob(".new-*"))


def test_a_list_that_names_files_outside_removes_nothing(tree):
    _, out = write(tree)
    victim = out.parent / "victim.txt"
    victim.write_text("alive")
    (out / "site.json").write_text(json.dumps(["../victim.txt", str(victim), "static", "gone.html"]))
    write(tree)
    assert victim.read_text() == "alive"
    assert (out / "static").is_dir()


@pytest.mark.parametrize("text", ["{", "7", "[1]"])
def test_a_damaged_list_is_an_error_that_says_what_to_do(tree, text):
    _, out = write(tree)
    (out / "site.json").write_text(text)
    with pytest.raises(ResultsError, match=r"site.json: .*remove the folder"):
        write(tree)


def test_a_crash_while_pages_are_made_leaves_the_old_site_whole(tree, monkeypatch):
    _, out = write(tree)
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    (tree.results / synthetic.MACHINE / f"{tree.commits[0][:8]}-{synthetic.ENVIRONMENT}.json").unlink()

    def broken(_found):
        raise RuntimeError("no index today")

    monkeypatch.setattr(report.home, "build", broken)
    with pytest.raises(RuntimeError):
        write(tree)
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before
    assert not list(out.glob(".new-*"))


def test_what_killed_reports_left_is_removed_and_one_that_writes_is_left_alone(tree, monkeypatch):
    monkeypatch.setattr(report, "MODULES", ())
    out = tree.repository.parent / "site"
    dead, busy, mine = (out / name for name in (".new-dead", ".new-busy", "mine"))
    for folder in (dead, busy, mine):
        folder.mkdir(parents=True)
        (folder / "x").write_text("x")
    for folder in (dead, mine):
        os.utime(folder, (1.0, 1.0))
    write(tree)
    assert [folder.exists() for folder in (dead, busy, mine)] == [False, True, True]


def test_what_people_type_is_shown_and_never_becomes_a_page(tmp_path):
    tree = synthetic.build(tmp_path, messages=HOSTILE, author=AUTHOR)
    _, out = write(tree)
    plain, _ = write(synthetic.build(tmp_path / "plain")), None
    harmless = {}
    for path in plain[1].glob("*.html"):
        kind = path.name.partition("-")[0]
        found = Tags(path.read_text(encoding="utf-8"))
        tags, attributes = harmless.get(kind, (set(), set()))
        harmless[kind] = (tags | found.tags | {"pre", "dl"}, attributes | found.attributes)
    for path in out.glob("*.html"):
        text = path.read_text(encoding="utf-8")
        found = Tags(text)
        tags, attributes = harmless[path.name.partition("-")[0]]
        assert found.tags <= tags, (path.name, found.tags - tags)
        assert found.attributes <= attributes, (path.name, found.attributes - attributes)
        assert "pwned=1</script>" not in text
    index = Tags((out / "index.html").read_text(encoding="utf-8")).text
    for message in HOSTILE:
        assert message.partition("\n")[0] in index
    assert AUTHOR in index
    commit = Tags((out / f"commit-{tree.commits[0][:8]}.html").read_text(encoding="utf-8")).text
    assert HOSTILE[0].partition("\n\n")[2] in commit


def test_machines_and_parameters_are_data_too(tmp_path):
    tree = synthetic.build(tmp_path, machine="<i>bench")
    for path in (tree.results / "<i>bench").glob("*.json"):
        path.write_text(path.read_text().replace("float32-5M", "<b>{{5M}}</b>"))
    write(tree)
    for path in (tmp_path / "site").glob("*.html"):
        found = Tags(path.read_text(encoding="utf-8"))
        assert not found.tags & {"i", "b"}, path.name
    text = Tags((tmp_path / "site" / "index.html").read_text(encoding="utf-8")).text
    assert "<i>bench" in text
    for name in ("kernel-add_mul_exp-Cpu.html", f"commit-{tree.commits[0][:8]}.html"):
        assert "<b>{{5M}}</b>" in Tags((tmp_path / "site" / name).read_text(encoding="utf-8")).text


def test_no_results_at_all_is_a_page_that_says_how_to_get_some(tree):
    shutil.rmtree(tree.results)
    tree.results.mkdir()
    (tree.results / "README.md").write_text("what lies here")
    summary, out = write(tree)
    assert pages(out) == ALWAYS
    assert "make track" in (out / "index.html").read_text()
    assert (summary.series, summary.notes) == (0, ())


def test_results_of_a_commit_that_is_gone_are_named_and_kept(tree):
    path = synthetic.write_commit(tree.results, "d" * 40, 1)
    summary, out = write(tree)
    assert summary.notes == ("results of commits that the repository does not have are kept, not shown: dddddddd",)
    assert path.exists()
    assert "dddddddd are kept" not in (out / "index.html").read_text()
    assert "not shown: dddddddd" in (out / "index.html").read_text()
    assert "commit-dddddddd.html" not in pages(out)


def test_a_shallow_clone_is_named(tree, tmp_path):
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "--depth", "3", tree.repository.as_uri(), str(clone)], check=True)
    summary = report.write_site(results=tree.results, repository=clone, out=tmp_path / "site")
    gone, shallow = summary.notes
    assert gone.endswith(f"{tree.commits[0][:8]}, {tree.commits[1][:8]}") or gone.count(",") >= 2
    assert shallow == "the clone is shallow, so trends may begin too late: run `git fetch --unshallow`"
    assert summary.commits == 3


def run(*argv):
    out, err = io.StringIO(), io.StringIO()
    status = main(argv, out, err)
    return status, out.getvalue(), err.getvalue()


def arguments(tree, **changes):
    given = {"results": tree.results, "repository": tree.repository, "out": tree.repository.parent / "site"} | changes
    return ["report", *(text for name, value in given.items() for text in (f"--{name}", str(value)))]


def test_the_command_ends_with_the_page(tree):
    status, out, err = run(*arguments(tree))
    page = (tree.repository.parent / "site" / "index.html").as_uri()
    assert (status, out, err) == (0, f"12 series over 5 commits: {page}\n", "")


def test_the_command_prints_a_line_for_what_it_could_not_read(tree):
    (tree.results / "benchmarks.json").write_text("")
    status, out, err = run(*arguments(tree))
    assert status == 0
    assert out.startswith("12 series over 5 commits")
    assert err == "note: benchmarks.json: empty file; times are shown, GFLOPS need it (`asv run` writes it again)\n"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"results": "{empty}/none"}, "error: {empty}/none: no such directory"),
        ({"repository": "/"}, "error: /: no git repository"),
        ({"out": "/dev/null"}, "error: /dev/null: a folder for the site is wanted, this is a file"),
        ({"colour": "red"}, "error: unrecognized arguments: --colour red"),
    ],
)
def test_what_cannot_work_is_one_line_and_status_2(tree, tmp_path, change, complaint):
    here = {name: text.replace("{empty}", str(tmp_path)) for name, text in change.items()}
    status, out, err = run(*arguments(tree, **here))
    assert (status, out) == (2, "")
    assert err.startswith(complaint.replace("{empty}", str(tmp_path)))
    assert err.count("\n") == 1


@pytest.mark.parametrize("text", ["", "{}", '{"machine": "m", "cpu": "\\ud800"}'])
def test_no_description_of_a_machine_can_take_the_site_down(tree, text):
    (tree.results / synthetic.MACHINE / "machine.json").write_text(text)
    summary, out = write(tree)
    assert summary.series == 12
    assert len(summary.notes) == ("cpu" not in text)
    assert synthetic.MACHINE in (out / "index.html").read_text()


@pytest.mark.parametrize("text", [b"\xff\xfe{", b'{"version": "x"}', b"\x00"])
def test_no_results_file_can_take_the_site_down(tree, text):
    broken = tree.results / synthetic.MACHINE / f"{tree.commits[0][:8]}-{synthetic.ENVIRONMENT}.json"
    broken.write_bytes(text)
    summary, _ = write(tree)
    assert (summary.series, summary.commits) == (12, 4)
    (note,) = summary.notes
    assert broken.name in note and "\n" not in note


def test_errors_by_kind(tree, tmp_path):
    with pytest.raises(ResultsError):
        report.write_site(results=tmp_path / "nowhere", repository=tree.repository, out=tmp_path / "site")
    with pytest.raises(HistoryError):
        report.write_site(results=tree.results, repository=tmp_path, out=tmp_path / "site")


def test_as_a_program_it_is_the_same(tree):
    done = subprocess.run([sys.executable, "-m", "kernel_velocity", *arguments(tree)], capture_output=True, check=True)
    assert done.stderr == b""
    assert done.stdout.decode().startswith("12 series over 5 commits: file://")


def test_tables_are_made_in_one_place():
    templates = Path(__file__).parents[2] / "html_templates"
    assert [path.name for path in templates.glob("*.html") if "<table" in path.read_text()] == ["parts.html"]
