"""Writing a site: what did not change is neither made nor written; what a crash leaves, the next run mends."""

import json
from pathlib import Path

import numpy as np
import pytest

from kernel_velocity.errors import ResultsError
from kernel_velocity.site import report, series_data
from kernel_velocity.site.outputs import DataFile, Page
from kernel_velocity.site.writer import MANIFEST, Writer, json_bytes
from tests import large_tree


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def write(out, *made, makers="code", before_finish=lambda writer: None):
    """Write a site of pages and data files; return the names that were written, and those rendered."""
    rendered = []

    def render(page):
        rendered.append(page.name)
        return (page.context() if callable(page.context) else page.context)["text"]

    new = out.parent / "new"
    new.mkdir(exist_ok=True)
    writer = Writer(new=new, out=out, makers=makers)
    for each in made:
        if isinstance(each, Page):
            writer.page(each, render)
        else:
            writer.data(each)
    before_finish(writer)
    writer.finish()
    return writer.fresh, rendered


def page(name="index.html", text="one", inputs=None, template="t.html"):
    return Page(name=name, template=template, context=lambda: {"text": text}, inputs=inputs)


def test_a_page_that_comes_out_the_same_is_not_written(out):
    assert write(out, page()) == (["index.html"], ["index.html"])
    stamp = (out / "index.html").stat().st_mtime_ns
    assert write(out, page()) == ([], ["index.html"])
    assert (out / "index.html").stat().st_mtime_ns == stamp
    assert write(out, page(text="two")) == (["index.html"], ["index.html"])
    assert (out / "index.html").read_text() == "two"


def test_a_page_of_the_same_inputs_is_not_even_made(out):
    write(out, page(inputs="a"))
    assert write(out, page(inputs="a", text="never asked for")) == ([], [])
    assert write(out, page(inputs="b")) == ([], ["index.html"])  # made, and as it was
    assert write(out, page(inputs="b")) == ([], [])


@pytest.mark.parametrize(
    "change", [{"makers": "new code"}, {"template": "other.html"}, {"inputs": None}, {"inputs": "b"}]
)
def test_whatever_made_it_counts(out, change):
    write(out, page(inputs="a"))
    makers = change.pop("makers", "code")
    assert write(out, page(**{"inputs": "a", **change}), makers=makers)[1] == ["index.html"]


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("on"), lambda path: path.write_text("")])
def test_a_file_that_somebody_cut_short_or_removed_is_written_again(out, damage):
    write(out, page(inputs="a"))
    damage(out / "index.html")
    assert write(out, page(inputs="a")) == (["index.html"], ["index.html"])
    assert (out / "index.html").read_text() == "one"


def test_data_is_a_script_and_its_twin(out):
    value = {"a": np.array([1.5, np.nan]), "b": "</script>\u2028\ud800", 3: None}
    fresh, _ = write(out, DataFile(name="d", value=lambda: value, inputs="1"))
    assert fresh == ["data/d.json", "data/d.js"]
    text = (out / "data/d.json").read_text(encoding="utf-8")
    assert json.loads(text) == {"a": [1.5, None], "b": "</script>\u2028?", "3": None}
    assert (out / "data/d.js").read_text(encoding="utf-8") == f'KV.put("d",{text});\n'
    (out / "data/d.js").unlink()
    assert write(out, DataFile(name="d", value=value, inputs="1"))[0] == ["data/d.js"]
    assert write(out, DataFile(name="d", value=lambda: pytest.fail("made"), inputs="1"))[0] == []


def test_stale_files_go_and_nothing_else(out):
    write(out, page(), page(name="old.html"), DataFile(name="old", value=1))
    (out / "mine.html").write_text("mine")
    write(out, page())
    assert sorted(path.name for path in out.rglob("*") if path.is_file()) == ["index.html", "mine.html", MANIFEST]


def test_the_index_is_moved_last(out):
    moved = []

    def watch(writer):
        moved.extend(sorted(writer.fresh, key=lambda name: name == "index.html"))

    write(out, page(), page(name="a.html"), DataFile(name="d", value=1), before_finish=watch)
    assert moved[-1] == "index.html"


@pytest.mark.parametrize("count", range(8))
def test_a_crash_at_any_moment_of_moving_is_mended_by_the_next_run(out, monkeypatch, count):
    old = [page(text="old", inputs="a"), page(name="gone.html"), DataFile(name="d", value=1, inputs="a")]
    new = [page(text="new", inputs="b"), page(name="more.html", inputs="b"), DataFile(name="d", value=2, inputs="b")]
    write(out, *old)
    moves = iter(range(count))
    replace, unlink = Path.replace, Path.unlink

    def one_more(act):
        def acting(self, *args, **more):
            if next(moves, None) is None:
                raise OSError("killed")
            return act(self, *args, **more)

        return acting

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", one_more(replace))
        patch.setattr(Path, "unlink", one_more(unlink))
        try:
            write(out, *new)
        except OSError:
            assert (out / "index.html").read_text() in ("old", "new")
    write(out, *new)
    assert {path.name: path.read_text() for path in out.rglob("*.*") if path.suffix in (".html", ".json", ".js")} == {
        "index.html": "new",
        "more.html": "one",
        "d.json": "2",
        "d.js": 'KV.put("d",2);\n',
        MANIFEST: (out / MANIFEST).read_text(),
    }


def test_a_list_of_names_alone_is_the_list_of_an_older_version(out):
    (out / MANIFEST).write_text('["index.html", "old.html"]')
    for name in ("index.html", "old.html"):
        (out / name).write_text("one")
    assert write(out, page(inputs="a"))[0] == ["index.html"]
    assert not (out / "old.html").exists()


@pytest.mark.parametrize("entry", ["7", "[1]", '["1", 2, 3]', "{}", '[1, "d"]'])
def test_an_entry_that_says_nothing_is_written_again(out, entry):
    write(out, page())
    (out / MANIFEST).write_text(f'{{"format": 2, "files": {{"index.html": {entry}}}}}')
    assert write(out, page())[0] == ["index.html"]


@pytest.mark.parametrize("text", ["{", "7", "[1]", '{"files": []}', "{}", '"a"'])
def test_a_damaged_list_is_an_error_that_says_what_to_do(out, text):
    (out / MANIFEST).write_text(text)
    with pytest.raises(ResultsError, match=r"site.json: .*remove the folder"):
        write(out, page())


def test_a_link_out_of_the_site_is_not_followed(out):
    (out.parent / "elsewhere").mkdir()
    (out.parent / "elsewhere/victim.html").write_text("alive")
    (out / "data").symlink_to(out.parent / "elsewhere")
    (out / MANIFEST).write_text('["data/victim.html", "../elsewhere/victim.html", "/etc/passwd", ""]')
    write(out, page())
    assert (out.parent / "elsewhere/victim.html").read_text() == "alive"


def test_what_json_cannot_hold_is_an_error():
    with pytest.raises(TypeError):
        json_bytes({"a": object()})


def test_one_more_commit_makes_and_writes_what_it_touches(tmp_path, monkeypatch):
    """Counts, not times: of 40 series in two benchmarks, the new commit measured one benchmark."""
    monkeypatch.setattr(report, "MODULES", (series_data,))
    shape = large_tree.Shape(commits=8, series=40)
    commits = large_tree.build(tmp_path, shape)
    newest = tmp_path / "results" / large_tree.MACHINE / f"{commits[-1][:8]}-{large_tree.ENVIRONMENT}.json"
    data = json.loads(newest.read_text())
    newest.unlink()

    def write_site():
        out = tmp_path / "site"
        return report.write_site(results=tmp_path / "results", repository=tmp_path / "repository", out=out)

    first = write_site()
    # The series, the newest entries of the two benchmarks, the list of the series, and the commits
    assert (first.read, first.made, first.series) == (7, 44, 40)
    again = write_site()
    assert (again.read, again.made, again.written) == (0, 2, 0)
    del data["results"][shape.benchmarks[1]]
    newest.write_text(json.dumps(data))
    more = write_site()
    assert (more.read, more.made) == (1, 1 + 2)
    assert more.written == 2 * (1 + 1)  # JSON and script of the newest entries and of the commits, but not of the list
