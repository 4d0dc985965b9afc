"""Sites of results trees that other people's asv suites left: plain trends, and why nothing can be shown."""

import json
import re
import shutil
import subprocess
import sys

import pytest

from kernel_velocity.site import report
from kernel_velocity.site.writer import read_data
from tests import foreign_tree, synthetic
from tests.commands import kv
from tests.site.browser import change, hover, show
from tests.site.site_inspection import FEW, kind_of, reading
from tests.site.sites import site_of

CHANGED = 12  # of 24 commits, where `io.Csv.time_read` gets slower


@pytest.fixture(scope="module")
def foreign_site(tmp_path_factory):
    return site_of(foreign_tree.build(tmp_path_factory.mktemp("foreign")))


@pytest.fixture
def foreign(foreign_site, tmp_path):
    """The tree, to be damaged: results of its own, everybody's repository."""
    tree, _ = foreign_site
    shutil.copytree(tree.results, tmp_path / "results")
    return synthetic.Tree(tree.repository, tmp_path / "results", tree.commits)


def words(path):
    """Return the text of a page, without its scripts."""
    return re.sub(r"\s+", " ", re.sub(r"(?s)<script.*?</script>|<[^>]*>", " ", path.read_text(encoding="utf-8")))


def write(tree):
    """Return status, output and notes of `kv report`."""
    out = tree.results.parent / "site"
    return kv("report", "--results", tree.results, "--repository", tree.repository, "--out", out)


def test_every_benchmark_has_a_trend_without_a_note(foreign):
    status, out, err = write(foreign)
    assert (status, err) == (0, "")
    assert out.startswith("19 series over 24 commits")


def test_pages_have_values_in_their_units_and_no_kernels(foreign_site):
    tree, out = foreign_site
    assert not (out / "roofline.html").exists() and not (out / "measurement.html").exists()
    home = words(out / "index.html")
    for value in (
        "344 bytes",
        "140 MB",
        "core.track_errors 0 to 3.00 errors",  # the first card: no change is larger
        "track_errors 3.00 errors 0 to 3.00 errors",
        "3.00 errors",
        "-2.50",
        "core.sparse.Solve 1, lu, None time_solve",
    ):
        assert value in home, value
    pages = [words(path) for path in (*out.glob("kernel-*.html"), *out.glob("commit-*.html"), out / "index.html")]
    assert not any(word in page for page in pages for word in ("GFLOPS", "roof", "cache benefit"))
    commit = words(out / f"commit-{tree.commits[CHANGED][:8]}.html")
    assert "5 slower" in commit
    assert "io.Csv 1000, c time_read" in commit
    assert "51.0% slower change point, not re-measured" in words(out / "kernel-io.Csv.html")


RATES = {
    "k.track_copy": ("GB/s", [], 100.0),  # falls to half: worse
    "k.track_latency": ("ms", [], 100.0),  # falls to half: better
    "k.track_threads": ("threads", [], 8.0),  # falls to half: nobody knows
    "k.track_score": ("points", [], 8.0),  # stated in the section: less is better
    "k.track_gain": ("points", [], 8.0),  # stated by its author: more is better
}


@pytest.fixture(scope="module")
def rates_site(tmp_path_factory):
    tree = foreign_tree.build(tmp_path_factory.mktemp("rates"), suite=RATES)
    (tree.repository / "kernel-velocity.toml").write_text('[better]\n"*_score" = "lower"\n')
    listed = json.loads((tree.results / "benchmarks.json").read_text())
    listed["k.track_gain"]["higher_is_better"] = True
    synthetic.write_json(tree.results / "benchmarks.json", listed)
    for sha in tree.commits[CHANGED:]:
        (path,) = tree.results.glob(f"*/{sha[:8]}-*.json")
        data = json.loads(path.read_text())
        for row in data["results"].values():
            row[0][0] /= 2
        path.write_text(json.dumps(data))
    return site_of(tree)


def test_direction_of_a_series_decides_what_is_slower(rates_site):
    tree, out = rates_site
    home = read_data(out / "data" / "home.js")
    rows = {row["state"]: (row["better"], row["changes"][0]["verdict"]) for row in home["rows"]}
    assert rows == {
        "track_copy": ("higher", "slower"),
        "track_latency": ("lower", "faster"),
        "track_threads": ("neither", "lower"),
        "track_score": ("lower", "faster"),
        "track_gain": ("higher", "slower"),
    }
    page = words(out / "index.html")
    assert "2 slower , 2 faster , 1 lower" in page and "▼ slower: 2 ▲ faster: 2 ◇ higher or lower: 1" in page
    assert "k.track_copy: 50." in words(out / "feed.xml") and "× lower" not in page
    assert "2 slower, 2 faster, 1 lower" in words(out / f"commit-{tree.commits[CHANGED][:8]}.html")


def test_direction_is_that_of_the_browser_too(rates_site, tab):
    tree, out = rates_site
    show(tab, out, "compare.html", a=tree.commits[0][:12], b=tree.commits[-1][:12])
    assert tab.locator("#summary").text_content() == "5 test cases compared: 2 slower, 2 faster, 1 lower."
    worse = tab.locator("#rows td.slower").all_inner_texts()
    assert len(worse) == 2 and all(re.match(r"(49|50)\.\d% lower", cell) for cell in worse)
    show(tab, out, "kernel-k.html", state="track_copy")
    tip, _ = hover(tab, "", CHANGED)
    assert "% lower" in tip


def test_name_that_no_file_can_have_has_a_page(foreign):
    suite = {"a/../b <i>.time it": ("seconds", [], 1e-3)}
    for path in foreign.results.glob("*/*-*.json"):
        data = json.loads(path.read_text())
        path.write_text(
            json.dumps(data | {"results": {name: [[value], [], "v"] for name, (_, _, value) in suite.items()}})
        )
    synthetic.write_json(foreign.results / "benchmarks.json", foreign_tree.benchmarks_json(suite))
    assert write(foreign)[0] == 0
    (page,) = (foreign.results.parent / "site").glob("kernel-*.html")
    assert re.fullmatch(r"kernel-[0-9a-f]{16}\.html", page.name)
    assert page.name in (foreign.results.parent / "site" / "index.html").read_text()


def test_trend_tip_and_comparison_in_a_browser(foreign_site, tab):
    tree, out = foreign_site
    show(tab, out, "kernel-io.Csv.html", case="1000, c")
    tip, _ = hover(tab, "", CHANGED)
    assert re.search(r"1[12]\.\d ms", tip) and "slower" in tip and "undefined" not in tip
    assert tab.locator("fieldset").is_hidden()
    change(tab, lambda: tab.select_option("select[name=state]", "peakmem_read"))
    tip, _ = hover(tab, "", CHANGED)
    assert "70.0 MB" in tip or "140 MB" in tip
    show(tab, out, "kernel-core.html", state="track_errors")
    assert "3.00 errors" in hover(tab, "", CHANGED)[0]
    show(tab, out, "compare.html", a=tree.commits[CHANGED - 1][:12], b=tree.commits[CHANGED][:12])
    summary = tab.locator("#summary").text_content()
    assert "slower than A in the geometric mean of 14 test cases; of all " in summary
    first, *_ = tab.locator("#rows tbody tr").all_inner_texts()
    assert "core" in first and "0 to 3.00 errors" in first and f"by {tree.commits[CHANGED][:8]}" in first
    text = tab.locator("#rows").text_content()
    assert "70.0 MB" in text and "3.00 errors" in text and "µs" in text


def damage_version(data):
    data["version"] = 1


def damage_rows(data):
    data["results"] = dict.fromkeys(data["results"], 7)


def damage_commit(data):
    data["commit_hash"] = data["commit_hash"][::-1]


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (damage_version, "results version 1 is unknown, 2 is wanted"),
        (damage_rows, "row: a list is wanted, got '7'; it is left out (and 191 more of this kind)"),
        (damage_commit, "results of commits that the repository does not have are kept, not shown: "),
    ],
)
def test_tree_of_which_nothing_can_be_shown(foreign, damage, complaint):
    for path in foreign.results.glob("*/*-*.json"):
        data = json.loads(path.read_text())
        damage(data)
        path.write_text(json.dumps(data))
    status, out, err = write(foreign)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {foreign.results}: none of its results can be shown: ") and complaint in err
    assert err.count("\n") == 1
    assert not (foreign.results.parent / "site").exists()


def test_empty_files_are_one_note(foreign):
    for path in sorted(foreign.results.glob("*/*-*.json"))[:20]:
        path.write_text("")
    status, out, err = write(foreign)
    assert (status, err.count("\n")) == (0, 1)
    assert "empty file; it is left out (and 19 more of this kind)" in err
    assert "over 4 commits" in out


def test_gone_benchmarks_are_one_note(foreign):
    benchmarks = foreign.results / "benchmarks.json"
    data = json.loads(benchmarks.read_text())
    benchmarks.write_text(json.dumps({name: entry for name, entry in data.items() if not name.startswith("core")}))
    _, _, err = write(foreign)
    assert err == (
        "note: core.Tree.mem_node is no longer in benchmarks.json: 288 values of 5 such benchmarks kept, not shown\n"
    )


@pytest.mark.slow
def test_tree_of_the_real_asv(tmp_path):
    """Benchmarks of every kind that asv discovers, measured by `asv run` in the running Python."""
    repository = tmp_path / "repository"
    (commit,) = synthetic.make_repository(repository, ("Begin",), "Ada", files={0: {"x.py": "1"}})
    suite = repository / "benchmarks"
    suite.mkdir()
    (suite / "__init__.py").write_text("")
    (suite / "shapes.py").write_text(
        "import time\n"
        "def time_plain(): pass\n"
        "def track_count(): return 3\n"
        "track_count.unit = 'things'\n"
        "def mem_list(): return [0] * 100\n"
        "class Axes:\n"
        "    params = ([1, 2], ['a'], [None, 0.5])\n"
        "    param_names = ['n', 'text', 'x']\n"
        "    def peakmem_all(self, n, text, x): return bytearray(n * 1000)\n"
        "    def time_all(self, n, text, x): sum(range(1000 * n))\n"
        "def timeraw_import(): return 'import json'\n"
    )
    configuration = {"version": 1, "repo": ".", "project": "x", "branches": ["HEAD"], "benchmark_dir": "benchmarks"}
    synthetic.write_json(repository / "asv.conf.json", configuration | {"environment_type": "existing"})
    asv = [sys.executable, "-m", "asv"]
    subprocess.run(
        [*asv, "machine", "--yes"], cwd=repository, check=True, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    )
    command = [
        *asv,
        "run",
        "-E",
        f"existing:{sys.executable}",
        "--set-commit-hash",
        commit,
        "--quick",
        "--record-samples",
    ]
    done = subprocess.run(command, cwd=repository, check=False, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    assert done.returncode == 0
    out = tmp_path / "site"
    summary = report.write_site(results=repository / "results", repository=repository, out=out)
    assert (summary.series, summary.notes) == (12, ())
    assert "3.00 things" in words(out / "index.html")


@pytest.mark.slow
def test_every_page_is_right(foreign_site, chromium):
    _, out = foreign_site
    with reading(chromium) as reader:
        reader.crawl(out, most=FEW)
    assert reader.complaints == []
    assert {kind_of(name) for name in reader.pages} == {kind_of(path.name) for path in out.glob("*.html")}
