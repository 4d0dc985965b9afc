"""What a report keeps is thrown away when any code that it was made by changes."""

import sys
from pathlib import Path

import pytest

from kernel_velocity.series import cache
from kernel_velocity.site import report


@pytest.mark.parametrize("name", ["units.py", "offline/pack.py", "harness/statistics/trend.py"])
def test_any_source_counts(tmp_path, name):
    digests = []
    for number, text in enumerate(("a = 1", "a = 2")):
        path = tmp_path / str(number) / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
        digests.append(cache.digest(tmp_path / str(number)))
    assert digests[0] != digests[1]


def test_all_that_a_report_imports_counts():
    names = [name for name in sys.modules if name.startswith("kernel_velocity.")]
    loaded = {Path(path) for name in names if (path := getattr(sys.modules[name], "__file__", None))}
    assert len(loaded) > 100 and loaded <= set(cache.sources())


def test_the_cache_and_the_list_of_made_files_are_of_that_code(monkeypatch, tmp_path):
    def kept():
        return cache._identity(tmp_path, tmp_path), report._makers()

    before = kept()
    assert kept() == before
    monkeypatch.setattr(cache, "digest", lambda: "another")
    assert not set(kept()) & set(before)
