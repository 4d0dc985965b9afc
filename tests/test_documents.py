"""Files of strangers: what is no regular file, or too large, is refused before it is opened."""

import os
from pathlib import Path

import pytest

from kernel_velocity import documents
from kernel_velocity.documents import contents_of, lines_of
from kernel_velocity.results import lines, reader
from tests import synthetic


def pipe(path):
    os.mkfifo(path)  # nobody writes to it: whoever opened it would wait


def large(path):
    path.touch()
    os.truncate(path, documents.MOST_BYTES + 1)  # without a block on the disk


MADE = [
    (pipe, "a regular file is wanted, got a pipe"),
    (large, "a file of at most 67,108,864 bytes is wanted, got 67,108,865"),
    (os.mkdir, "Is a directory"),
    (lambda path: path.symlink_to("/dev/zero"), "a regular file is wanted, got a device or socket"),
]


def opened(self, *args, strange):
    assert self != strange, "it was opened"
    return open(self, *args)  # noqa: PTH123


@pytest.fixture(params=MADE, ids=["pipe", "large", "folder", "device"])
def strange(request, monkeypatch):
    """What makes a strange file in place of another, and what is said of it. Opening it fails the test."""
    make, complaint = request.param

    def replaced(path):
        path.unlink(missing_ok=True)
        make(path)
        monkeypatch.setattr(Path, "open", lambda self, *args: opened(self, *args, strange=path))

    return replaced, complaint


def test_only_regular_files_of_bounded_size_are_opened(tmp_path, strange):
    make, complaint = strange
    make(tmp_path / "a.json")
    for read in (contents_of, lines_of, documents.read):
        with pytest.raises(OSError, match=complaint) as raised:
            read(tmp_path / "a.json")
        assert raised.value.filename == str(tmp_path / "a.json")


def test_line_ends_and_malformed_bytes(tmp_path):
    (tmp_path / "a").write_bytes(b"a\r\nb\rc\xff\n")
    assert lines_of(tmp_path / "a") == "a\nb\nc\ufffd\n"


@pytest.mark.parametrize("name", ["results", "telemetry", "machine"])
def test_strange_file_of_a_tree_is_one_line(tree, strange, name):
    make, complaint = strange
    folder = tree.results / synthetic.MACHINE
    path = folder / f"{tree.commits[-1][:8]}-{synthetic.ENVIRONMENT}.json"
    replaced = {"results": path, "telemetry": lines.beside(path, lines.ROUNDS), "machine": folder / "machine.json"}[
        name
    ]
    make(replaced)
    notes = []
    file = reader.read_file(path, notes)
    reader.read_machine(folder, notes)
    assert len(notes) == 1 and complaint in notes[0] and replaced.name in notes[0]
    assert (file is None) == (name == "results") and bool(file and file.rounds) == (name == "machine")


def test_file_of_too_many_lines_is_left_out_and_not_replaced(tree, monkeypatch):
    path = next((tree.results / synthetic.MACHINE).glob("*-*.json"))
    beside, notes = lines.beside(path, lines.ROUNDS), []
    before = beside.read_bytes()
    count = before.count(b"\n")
    monkeypatch.setattr(lines, "MOST_LINES", count)
    assert lines.read_rounds(beside, notes) and notes == []
    monkeypatch.setattr(lines, "MOST_LINES", count - 1)
    assert lines.read_rounds(beside, notes) == {}
    assert len(notes) == 1 and f"at most {count - 1} lines are wanted, got {count}; it is left out" in notes[0]
    with pytest.raises(OSError, match="lines are wanted"):
        lines.remove_rounds(path, ["matmul.Cpu.time_hot"])
    assert beside.read_bytes() == before
