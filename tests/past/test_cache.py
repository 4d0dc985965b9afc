"""Answers that reports store for one another, and the code that they depend on."""

import sys
from pathlib import Path

import pytest

from kernel_velocity.past import cache
from kernel_velocity.past.cache import Answers


def every(_):
    return True


def test_answers_until_their_code_changes(tmp_path):
    answers = Answers(tmp_path, "1")
    assert answers.get(["a"]) == {}
    answers.put({"a": b"1", "b": b""}, keep=every)
    assert Answers(tmp_path, "1").get(["b", "a", "c"]) == {"a": b"1", "b": b""}
    newer = Answers(tmp_path, "2")
    assert newer.get(["a"]) == {}
    newer.put({"c": b"3"}, keep=every)
    assert newer.get("abc") == {"c": b"3"}
    assert answers.get(["a"]) == {}


def test_answers_of_more_keys_than_one_query(tmp_path):
    many = {str(number): str(number).encode() for number in range(2 * cache._AT_ONCE + 1)}
    answers = Answers(tmp_path, "1")
    answers.put(many, keep=every)
    assert answers.get(many) == many


def test_unwanted_answers_are_removed(tmp_path):
    answers = Answers(tmp_path, "1")
    answers.put({"a": b"1", "b": b"2"}, keep=every)
    answers.put({"c": b"3"}, keep="bc".__contains__)
    assert answers.get("abc") == {"b": b"2", "c": b"3"}


@pytest.mark.parametrize("content", [b"", b"not a database", b"SQLite format 3\0" + bytes(200)])
def test_damaged_file_has_no_answers(tmp_path, content):
    (tmp_path / cache.FILE_NAME).write_bytes(content)
    answers = Answers(tmp_path, "1")
    assert answers.get(["a"]) == {}
    answers.put({"a": b"1"}, keep=every)
    assert answers.get(["a"]) == ({} if content else {"a": b"1"})


def test_code_digest_of_a_room(tmp_path):
    def digests(number, **texts):
        folder = tmp_path / str(number)
        for name, text in {"stats/a.py": "", "site/b.py": "", "units.py": "", **texts}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        return [cache.code(*rooms, package=folder) for rooms in (("stats",), ("site", "stats"), ())]

    before = digests(1)
    changes = [{"stats/a.py": "1"}, {"site/b.py": "1"}, {"units.py": "1"}]
    changed = [
        [new != old for new, old in zip(digests(2 + n, **change), before, strict=True)]
        for n, change in enumerate(changes)
    ]
    assert changed == [[True, True, True], [False, True, True], [False, False, True]]


def test_code_digest_covers_all_imports():
    names = [name for name in sys.modules if name.startswith("kernel_velocity.")]
    loaded = {Path(path) for name in names if (path := getattr(sys.modules[name], "__file__", None))}
    assert len(loaded) > 100 and loaded <= set(cache._PACKAGE.rglob("*.py"))
