"""The text of every kind of page and badge, as it was when somebody last looked at it and accepted it."""

from pathlib import Path

import git
import pytest

from kernel_velocity.site import report
from tests import synthetic
from tests.findings import evidenced
from tests.golden import check_golden
from tests.site import machine_records
from tests.site.pages import Tags

GOLDEN = Path(__file__).parent / "golden"
PAGES = {
    "whole": ("index", "findings", "machines", "roofline", "measurement", "compare", "kernel-matmul-Cpu", "commit-2"),
    "evidence": ("index", "commit-3", "finding-regression", "finding-environment", "finding-vanished"),
    "measured": ("machines", "roofline", "index", "kernel-add_mul_exp-Cpu", "commit-1", "commit-5"),
    "empty": ("index", "findings", "machines", "roofline", "measurement", "compare"),
}


@pytest.fixture(scope="module")
def sites(tmp_path_factory, whole_tree):
    """Sites by name, each with its commits."""

    def written(tree):
        out = tmp_path_factory.mktemp("golden") / "site"
        report.write_site(results=tree.results, repository=tree.repository, out=out)
        return out, tree.commits

    evidence = synthetic.build(tmp_path_factory.mktemp("evidence"))
    evidenced.write(evidence)
    return {
        "whole": written(whole_tree),
        "evidence": written(evidence),
        "measured": written(measured(tmp_path_factory.mktemp("measured"))),
        "empty": written(empty(tmp_path_factory.mktemp("empty"))),
    }


def measured(folder):
    """Return a tree with sessions, ceilings of two numbers of threads, a tag, and a commit beside the line."""
    tree = synthetic.build(folder)
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
    return synthetic.Tree(tree.repository, tree.results, (*tree.commits, side.hexsha))


def empty(folder):
    tree = synthetic.build(folder, messages=synthetic.MESSAGES[:1])
    for path in tree.results.glob("*/*.json"):
        path.unlink()
    return tree


@pytest.mark.parametrize(("site", "page"), [(site, page) for site, pages in PAGES.items() for page in pages])
def test_page(sites, accept, site, page):
    out, commits = sites[site]
    kind, _, rest = page.partition("-")
    name = page
    if kind == "commit":
        name = f"commit-{commits[int(rest)][:8]}"
    elif kind == "finding":
        name = sorted(out.glob(f"finding-*{rest}*.html"))[0].stem
    text = "\n".join(Tags((out / f"{name}.html").read_text(encoding="utf-8")).lines)
    for place, sha in enumerate(commits):
        text = text.replace(sha, f"<commit {place}>").replace(sha[:12], f"<{place}>").replace(sha[:8], f"<{place}>")
    check_golden(GOLDEN / f"{site}-{page}.txt", text + "\n", accept=accept)


def test_badge(sites, accept):
    check_golden(GOLDEN / "badge.svg.txt", (sites["evidence"][0] / "badge-matmul-Cpu.svg").read_text(), accept=accept)
