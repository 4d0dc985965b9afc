"""Built sites that the tests share, each with its tree. Nobody may change them."""

from datetime import UTC, datetime

import git
import pytest

from kernel_velocity.findings import store
from kernel_velocity.findings.store import NightRecord
from kernel_velocity.site import report
from tests import synthetic
from tests.findings import evidenced
from tests.site import machine_records


def written(tree):
    """Write the site of a tree beside it. Return the report's summary and the folder of the site."""
    out = tree.repository.parent / "site"
    return report.write_site(results=tree.results, repository=tree.repository, out=out), out


def site_of(tree):
    return tree, written(tree)[1]


@pytest.fixture(scope="session")
def site(built):
    """The synthetic tree as it is."""
    return site_of(built)


@pytest.fixture(scope="session")
def whole_site(whole_tree):
    """Two machines, two devices, both cache states, and everything else that pages can show."""
    return site_of(whole_tree)


@pytest.fixture(scope="session")
def hostile_site(hostile_tree):
    """The same with names that want to be code."""
    return site_of(hostile_tree)


@pytest.fixture(scope="session")
def evidence_site(tmp_path_factory):
    """Findings of every kind with evidence, and the findings, a regression first."""
    tree = synthetic.build(tmp_path_factory.mktemp("evidence"))
    findings = evidenced.write(tree)
    return *site_of(tree), findings


@pytest.fixture(scope="session")
def measured_site(tmp_path_factory):
    """Sessions, ceilings of two numbers of threads (the newest commit's is 2), a tag, a commit beside the line."""
    tree = synthetic.build(tmp_path_factory.mktemp("measured"))
    for index in range(5):
        machine_records.add_session(tree, index, threads="2" if index == 4 else "1", governor=f"governor {index // 2}")
    for index, threads in ((0, 1), (2, 1), (4, 2)):
        machine_records.add_ceilings(tree, index, threads=threads, peak_float32=(90 - 8 * index) * 1e9)
    with git.Repo(tree.repository) as repo:
        repo.create_tag("v1", ref=tree.commits[1])
        moment = "2026-01-02T12:00:00"
        side = repo.index.commit(
            "Release",
            parent_commits=[repo.commit(tree.commits[1])],
            head=False,
            author_date=moment,
            commit_date=moment,
        )
    synthetic.write_commit(tree.results, side.hexsha, 2)
    return site_of(synthetic.Tree(tree.repository, tree.results, (*tree.commits, side.hexsha)))


@pytest.fixture(scope="session")
def empty_site(tmp_path_factory):
    """One commit, of which a night could measure nothing."""
    tree = synthetic.build(tmp_path_factory.mktemp("empty"), messages=synthetic.MESSAGES[:1])
    for path in tree.results.glob("*/*.json"):
        path.unlink()
    moment = datetime(2026, 3, 2, 3, 0, tzinfo=UTC)
    night = NightRecord(machine="bench-1", when=moment, summary="1 build failed", exit_status=21, measured=0)
    store.write_night(tree.results, night)
    return site_of(tree)


@pytest.fixture(scope="session")
def integer_site(tmp_path_factory):
    """The larger test case of matmul is of int8."""
    tree = synthetic.build(tmp_path_factory.mktemp("integers"))
    for path in [tree.results / "benchmarks.json", *(tree.results / synthetic.MACHINE).rglob("*-*.json*")]:
        text = path.read_text().replace("float32-512x512x512", "int8-512x512x512")
        path.write_text(synthetic.without_checksums(text))
    machine_records.add_ceilings(tree, 0)
    return site_of(tree)
