"""Adjusted times that are kept from report to report are those of a first one, to the last bit."""

import itertools
import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from kernel_velocity.engine.telemetry import GAUGES, parse
from kernel_velocity.names import CONTROLS
from kernel_velocity.past import adjusted
from kernel_velocity.past.layout import ADJUSTED
from kernel_velocity.past.packing import ROUND
from kernel_velocity.stats import adjust
from tests import large_tree, synthetic
from tests.past.test_past import check, read

COMMITS = 9


@pytest.fixture(scope="module", params=["gauges", "controls"])
def built(request, tmp_path_factory):
    """A tree of 20 series: with gauges, or without, where the controls tell. All rounds felt the same neighbour."""
    folder = tmp_path_factory.mktemp(request.param)
    shape = large_tree.Shape(commits=COMMITS, series=20, telemetry=True)
    commits = large_tree.build(folder, shape)
    for path in (folder / "results").rglob("*.jsonl"):
        feel(path, with_gauge=request.param == "gauges")
    return synthetic.Tree(repository=folder / "repository", results=folder / "results", commits=commits)


def feel(path, *, with_gauge):
    """Slow all rounds of a launch down alike, and asv's medians with them. The gauge, if there is one, tells of it."""
    stored = path.parents[1] / f"{path.stem}.json"
    chance = np.random.default_rng(sum(path.stem.encode()))
    factors = dict(zip(range(8), np.exp(chance.normal(0, 0.05, 8)).tolist(), strict=True))
    lines = [parse(line) for line in path.read_text().splitlines()]
    seconds = {}
    for line in lines:
        factor = factors[int(line["l"].partition("-")[0])]
        line["e"] *= factor
        seconds.setdefault((line["b"], *line["p"]), []).append(line["e"])
        line.pop("j", None)
        if with_gauge:
            line["j"] = 2.5e-5 * factor
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    data = json.loads(stored.read_text())
    for name, row in data["results"].items():
        pairs = itertools.product(*([json.loads(literal.replace("'", '"')) for literal in axis] for axis in row[1]))
        row[0] = [np.median(seconds[name, *pair]) if (name, *pair) in seconds else None for pair in pairs]
        row[5:7] = None, None  # asv's intervals are of other rounds
    stored.write_text(json.dumps(data))


@pytest.fixture(autouse=True, scope="module")
def grows_early():
    """Let the basis grow at 3, 4, 6 and 9 commits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adjust, "GROWTH", 2)
        patch.setattr(adjust, "ALWAYS_ANEW", 2)
        yield


def files_of(tree, index):
    """Return the files of a commit, with where they are put aside."""
    stem = f"{tree.commits[index][:8]}-{large_tree.ENVIRONMENT}"
    folder = tree.results / large_tree.MACHINE
    return [(path, tree.results.parent / path.name) for path in (folder / f"{stem}.json", beside(tree, index))]


def beside(tree, index):
    stem = f"{tree.commits[index][:8]}-{large_tree.ENVIRONMENT}"
    return tree.results / large_tree.MACHINE / "telemetry" / f"{stem}.jsonl"


def withhold(tree, indices):
    for path, aside in itertools.chain.from_iterable(files_of(tree, index) for index in indices):
        path.rename(aside)


def bring_back(tree, indices):
    for path, aside in itertools.chain.from_iterable(files_of(tree, index) for index in indices):
        aside.rename(path)


def without_one_series(path):
    """Remove the rounds of a series from telemetry."""
    lines = path.read_text().splitlines(keepends=True)
    gone = json.loads(lines[0])["p"]
    path.write_text("".join(line for line in lines if json.loads(line)["p"] != gone))


def measured_again(path):
    """Let every round have felt something else."""
    feel(path, with_gauge='"j"' in path.read_text())


def times(site):
    """Return the adjusted times of a site's layout, by series and commit."""
    layout = site.past.layout
    return {
        (key, layout.commits[layout.commit[slot]]): [layout.columns[name][slot].tobytes() for name in ADJUSTED]
        for number, key in enumerate(layout.keys)
        for slot in range(*layout.part(number, on_line=False).indices(len(layout.commit)))
    }


# Without shrinking: a counterexample would be looked for in hundreds of trees, for minutes
@settings(max_examples=8, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    arrivals=st.permutations(range(COMMITS)),
    cuts=st.lists(st.integers(1, COMMITS), max_size=4),
    changes=st.lists(
        st.tuples(st.integers(0, COMMITS - 1), st.sampled_from([measured_again, without_one_series])), max_size=2
    ),
)
def test_earlier_reports_change_no_bit(built, arrivals, cuts, changes):
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(built.results, Path(folder) / "results")
        tree = synthetic.Tree(repository=built.repository, results=Path(folder) / "results", commits=built.commits)
        withhold(tree, arrivals)
        for first, last in itertools.pairwise([0, *sorted(cuts), COMMITS]):
            bring_back(tree, arrivals[first:last])
            read(tree)
        for index, change in changes:
            change(beside(tree, index))
        site = check(tree)  # and as it is computed without arrays, digests or a cache
        expected = times(site)
        assert sum(any(value != told_nan() for value in values) for values in expected.values()) > 40
        shutil.rmtree(tree.results.parent / ".asv")
        fresh = read(tree)
        assert times(fresh) == expected
        assert fresh.past.adjustments.fits == site.past.adjustments.fits != {}
        assert fresh.past.adjustments.digests == site.past.adjustments.digests


def told_nan():
    return np.float64("nan").tobytes()


def test_new_commit_reads_its_own_rounds_until_basis_grows(built, tmp_path, monkeypatch):
    shutil.copytree(built.results, tmp_path / "results")
    tree = synthetic.Tree(repository=built.repository, results=tmp_path / "results", commits=built.commits)
    withhold(tree, range(4, COMMITS))
    read(tree)
    counts = []
    whole = adjusted.read
    monkeypatch.setattr(adjusted, "read", lambda *args: counts.append(np.count_nonzero(args[-1][:-1])) or whole(*args))
    costs = []
    for index in range(4, COMMITS):
        before, _ = times(read(tree)), counts.clear()
        bring_back(tree, [index])
        site = read(tree)
        moved = {pair for pair, value in before.items() if times(site)[pair] != value}
        costs.append((site.past.adjustments.computed > 20, sum(counts) > 20, bool(moved)))
    assert costs == [(False,) * 3, (True,) * 3, (False,) * 3, (False,) * 3, (True,) * 3]


def move(path, hours):
    """Let a commit's rounds have been measured so much later."""
    lines = [parse(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**line, "t": line["t"] + 3600 * hours}) + "\n" for line in lines))


def test_basis_is_in_order_of_time_then_sha(built, tmp_path):
    shutil.copytree(built.results, tmp_path / "results")
    tree = synthetic.Tree(repository=built.repository, results=tmp_path / "results", commits=built.commits)
    withhold(tree, [8])
    pairs = itertools.combinations(range(8), 2)
    tied = next(pair for pair in pairs if tree.commits[pair[0]] > tree.commits[pair[1]])
    *first, last = (index for index in reversed(range(8)) if index not in tied)
    order = [*first, *tied, last]  # the basis of 8 commits are 6: one of the two is the last of it
    for rank, index in enumerate(order):
        move(beside(tree, index), (5 if index in tied else rank) - index)
    check(tree)


@pytest.mark.parametrize("index", [0, 7])  # of the basis of the 8 commits, and behind it
def test_controls_in_another_file_of_the_commit(built, tmp_path, index):
    shutil.copytree(built.results, tmp_path / "results")
    tree = synthetic.Tree(repository=built.repository, results=tmp_path / "results", commits=built.commits)
    withhold(tree, [8])
    ours = [path for path, _ in files_of(tree, index)]
    theirs = [path.with_name(f"again{path.suffix}") for path in ours]
    for path, other in zip(ours, theirs, strict=True):
        shutil.copy(path, other)
    remove_controls(*ours)
    before = times(check(tree))
    for other in theirs:
        other.unlink()
    after = times(check(tree))
    has_gauges = '"j"' in ours[1].read_text()
    assert (
        any(before[pair] != value for pair, value in after.items() if pair[0].implementation == "native") != has_gauges
    )


def test_swapped_controls_are_adjusted_anew(built, tmp_path):
    shutil.copytree(built.results, tmp_path / "results")
    tree = synthetic.Tree(repository=built.repository, results=tmp_path / "results", commits=built.commits)
    check(tree)
    for path, _ in files_of(tree, 0):
        text = path.read_text().replace("eager", "?").replace("compile", "eager").replace("?", "compile")
        path.write_text(text)
    check(tree)


def test_rounds_digest_does_not_depend_on_the_file():
    first, other = np.zeros(5, ROUND), np.zeros(3, ROUND)
    first["entry"], other["entry"] = (0, 0, 3, 3, 3), 1
    for rounds in (first, other):
        rounds["launch"], rounds["estimate"] = np.arange(len(rounds)) % 3, 1e-3
        for name in GAUGES:
            rounds[name] = np.nan
    first["launch"][2:] = other["launch"]
    first["memory_gauge"][1] = 1e-5
    made, wanted = adjusted.new_adjustments(first, 4), adjusted.new_adjustments(other, 2)
    assert made["rounds_digest"][3] == wanted["rounds_digest"][1]
    assert len({*made["rounds_digest"].tolist(), *wanted["rounds_digest"].tolist()}) == 3  # of none, and of two values
    assert made["is_gauged"].tolist() == [True, False, False, False]
    assert np.isnan(made["adjusted"]).all() and not made["source_digest"].any()


def remove_controls(results, telemetry):
    """Leave out the values of the controls: those of the first axis' first entries."""
    lines = [line for line in telemetry.read_text().splitlines(keepends=True) if not is_control(*json.loads(line)["p"])]
    telemetry.write_text("".join(lines))
    data = json.loads(results.read_text())
    for row in data["results"].values():
        axis = [name for name in row[1][0] if not is_control(name.strip("'"))]
        first = (len(row[1][0]) - len(axis)) * len(row[1][1])  # eager and compile are the first two
        row[1][0] = axis
        for column, values in enumerate(row):
            if column not in (1, 2) and isinstance(values, list):
                row[column] = values[first:]
    results.write_text(json.dumps(data))


def is_control(implementation, *_):
    return implementation in CONTROLS
