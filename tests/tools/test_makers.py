"""What a report keeps is thrown away when any code that it was made by changes."""

import sys
from pathlib import Path

import pytest

from tools import makers, report, report_cache


@pytest.mark.parametrize("name", ["tools/units.py", "tools/offline/pack.py", "benchmarks/harness/statistics/trend.py"])
def test_any_source_counts(tmp_path, name):
    digests = []
    for number, text in enumerate(("a = 1", "a = 2")):
        path = tmp_path / str(number) / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
        digests.append(makers.digest(tmp_path / str(number)))
    assert digests[0] != digests[1]


def test_all_that_a_report_imports_counts():
    root = Path(report.__file__).parents[1]
    loaded = {
        Path(module.__file__)
        for name, module in sys.modules.items()
        if name.startswith("tools.") and module.__file__  # a folder of templates has none
    }
    engine = [name for name in sys.modules if name.startswith("benchmarks.harness.")]
    wanted = loaded | {Path(sys.modules[name].__file__) for name in engine}
    assert root / "benchmarks/harness/statistics/__init__.py" in wanted and root / "tools/report.py" in wanted
    assert wanted <= set(makers.sources())


def test_the_cache_and_the_list_of_made_files_are_of_that_code(monkeypatch, tmp_path):
    def kept():
        return report_cache._identity(tmp_path, tmp_path), report._makers()

    before = kept()
    assert kept() == before
    monkeypatch.setattr(makers, "digest", lambda: "another")
    assert not set(kept()) & set(before)
