"""The large trees that a site's cost is measured on: the same bytes every time, and what asv itself writes."""

import json
import math

import pytest
from asv.results import Results

from tests import large_tree, measure_report

SHAPE = large_tree.Shape(commits=20, series=40, rounds=3, telemetry=True)


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_tree_is_reproducible(tmp_path):
    one, other = (large_tree.build(tmp_path / name, SHAPE) for name in ("one", "other"))
    assert one == other
    assert len(set(one)) == 20
    assert contents(tmp_path / "one" / "results") == contents(tmp_path / "other" / "results")


def test_tree_has_steps_and_failures(tmp_path):
    commits = large_tree.build(tmp_path, SHAPE)
    folder = tmp_path / "results" / large_tree.MACHINE
    outcomes = []
    for sha in commits:
        path = folder / f"{sha[:8]}-{large_tree.ENVIRONMENT}.json"
        stored = Results.load(str(path), large_tree.MACHINE)
        assert stored.commit_hash == sha
        outcomes.append(
            [value for name in SHAPE.benchmarks for value in stored.get_result_value(name, large_tree.PARAMS)]
        )
        assert len((folder / "telemetry" / f"{path.stem}.jsonl").read_text().splitlines()) == 3 * sum(
            value is not None and not math.isnan(value) for value in outcomes[-1]
        )
    assert any(value is None for values in outcomes for value in values)
    assert any(value is not None and math.isnan(value) for value in outcomes[0])
    assert not any(value is not None and math.isnan(value) for value in outcomes[-1])
    true = large_tree.true_times(SHAPE)
    ratios = true[1:] / true[:-1]
    assert ((ratios < 0.99) | (ratios > 1.01)).sum() > 20


@pytest.mark.slow
def test_measure_report(tmp_path, capsys, monkeypatch):
    large_tree.build(tmp_path / "tree", large_tree.Shape(commits=3, series=20))
    monkeypatch.setattr("sys.argv", ["measure_report", str(tmp_path / "tree"), "--turns", "1"])
    measure_report.main()
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in lines if line.startswith("| `")] == [
        "`report` from nothing",
        "`asv publish`",
        "`report` with one more commit",
    ]
    assert (tmp_path / "tree/html/index.html").exists()
    names = [json.loads((tmp_path / "tree/site/data/commits.json").read_text())["commits"][-1]["page"]]
    assert (tmp_path / "tree/site" / names[0]).exists()
