"""Writing a site: what did not change is neither made nor written. What a crash leaves, the next run mends."""

import json
from pathlib import Path

import numpy as np
import pytest

from kernel_velocity.errors import ResultsError
from kernel_velocity.site import writer
from kernel_velocity.site.writer import MANIFEST, DataFile, Page, Writer, json_bytes, read_data


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def write(out, *made, makers="code", before_finish=lambda writer: None):
    """Write a site of pages and data files. Return the names that were written, and those rendered."""
    rendered = []

    def render(page):
        rendered.append(page.name)
        return page.context()["text"]

    new = out.parent / "new"
    new.mkdir(exist_ok=True)
    writer = Writer(new=new, out=out, makers=makers)
    for part in made:
        if isinstance(part, Page):
            writer.page(part, render)
        else:
            writer.data(part)
    before_finish(writer)
    writer.finish()
    return writer.fresh, rendered


def page(name="index.html", text="one", inputs=None, template="t.html"):
    return Page(name=name, template=template, context=lambda: {"text": text}, inputs=inputs)


def test_unchanged_page_is_not_written(out):
    assert write(out, page()) == (["index.html"], ["index.html"])
    stamp = (out / "index.html").stat().st_mtime_ns
    assert write(out, page()) == ([], ["index.html"])
    assert (out / "index.html").stat().st_mtime_ns == stamp
    assert write(out, page(text="two")) == (["index.html"], ["index.html"])
    assert (out / "index.html").read_text() == "two"


def test_page_of_the_same_inputs_is_not_made(out):
    write(out, page(inputs="a"))
    assert write(out, page(inputs="a", text="never asked for")) == ([], [])
    assert write(out, page(inputs="b")) == ([], ["index.html"])  # made, and as it was
    assert write(out, page(inputs="b")) == ([], [])


@pytest.mark.parametrize(
    "change", [{"makers": "new code"}, {"template": "other.html"}, {"inputs": None}, {"inputs": "b"}]
)
def test_page_of_other_inputs_is_made(out, change):
    write(out, page(inputs="a"))
    makers = change.pop("makers", "code")
    assert write(out, page(**{"inputs": "a", **change}), makers=makers)[1] == ["index.html"]


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("on"), lambda path: path.write_text("")])
def test_damaged_file_is_written_again(out, damage):
    write(out, page(inputs="a"))
    damage(out / "index.html")
    assert write(out, page(inputs="a")) == (["index.html"], ["index.html"])
    assert (out / "index.html").read_text() == "one"


@pytest.mark.parametrize("is_packed", [False, True])
def test_data_is_a_script_with_json(out, is_packed, monkeypatch):
    monkeypatch.setattr(writer, "_PACKED", 0 if is_packed else 1000)
    value = {"a": np.array([1.5, np.nan]), "b": "</script>\u2028\ud800", 3: None}
    fresh, _ = write(out, DataFile(name="d", value=lambda: value, inputs="1"))
    assert fresh == ["data/d.js"]
    assert read_data(out / "data/d.js") == {"a": [1.5, None], "b": "</script>\u2028?", "3": None}
    text = (out / "data/d.js").read_text(encoding="utf-16" if is_packed else "utf-8")
    assert text.startswith('KV.put("d",{"size":' if is_packed else 'KV.put("d",{"a":[1.5,null]')
    assert text.endswith(");\n")
    assert write(out, DataFile(name="d", value=lambda: pytest.fail("made"), inputs="1"))[0] == []
    with pytest.raises(TypeError):
        json_bytes({"a": object()})


def test_stale_files_are_removed(out):
    write(out, page(), page(name="old.html"), DataFile(name="old", value=1))
    (out / "mine.html").write_text("mine")
    write(out, page())
    assert sorted(path.name for path in out.rglob("*") if path.is_file()) == ["index.html", "mine.html", MANIFEST]


@pytest.mark.parametrize("count", range(8))
def test_crash_while_moving_is_mended(out, monkeypatch, count):
    old = [page(text="old", inputs="a"), page(name="gone.html"), DataFile(name="d", value=1, inputs="a")]
    new = [page(text="new", inputs="b"), page(name="more.html", inputs="b"), DataFile(name="d", value=2, inputs="b")]
    write(out, *old)
    moves, moved = iter(range(count)), []
    replace, unlink = Path.replace, Path.unlink

    def one_more(act):
        def acting(self, *args, **more):
            if next(moves, None) is None:
                raise OSError("killed")
            moved.append(self.name)
            return act(self, *args, **more)

        return acting

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", one_more(replace))
        patch.setattr(Path, "unlink", one_more(unlink))
        try:
            write(out, *new)
        except OSError:
            assert (out / "index.html").read_text() in ("old", "new")
            assert "index.html" not in moved or "more.html" in moved  # which it links to
    write(out, *new)
    assert {path.name: path.read_text() for path in out.rglob("*.*") if path.suffix in (".html", ".json", ".js")} == {
        "index.html": "new",
        "more.html": "one",
        "d.js": 'KV.put("d",2);\n',
        MANIFEST: (out / MANIFEST).read_text(),
    }


@pytest.mark.parametrize("entry", ["7", "[1]", '["1", 2, 3]', "{}", '[1, "d"]'])
def test_unusable_entry_is_written_again(out, entry):
    write(out, page())
    (out / MANIFEST).write_text(f'{{"format": 2, "files": {{"index.html": {entry}}}}}')
    assert write(out, page())[0] == ["index.html"]


@pytest.mark.parametrize("text", ["{", "7", "[1]", '{"files": []}', "{}", '"a"'])
def test_damaged_manifest_is_an_error(out, text):
    (out / MANIFEST).write_text(text)
    with pytest.raises(ResultsError, match=r"site.json: .*remove the folder"):
        write(out, page())


def test_files_outside_are_left_alone(out):
    (out.parent / "elsewhere").mkdir()
    (out.parent / "elsewhere/victim.html").write_text("alive")
    (out / "link").symlink_to(out.parent / "elsewhere")
    names = ("link/victim.html", "../elsewhere/victim.html", "/etc/passwd", "")
    (out / MANIFEST).write_text(json.dumps({"format": 2, "files": {name: [1, "d", ""] for name in names}}))
    write(out, page())
    assert (out.parent / "elsewhere/victim.html").read_text() == "alive"
