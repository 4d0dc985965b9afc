"""Every page that tells of a change names the commits that can have caused it, and one alone only where it is alone."""

import pytest

from kernel_velocity.site import model, report
from kernel_velocity.verdict.ranges import NO_COMMIT, CommitRange
from tests import foreign_tree, large_tree, synthetic
from tests.site.pages import commit, home, kernel_files, words
from tests.site.sites import site_of

SUITE = {"io.Csv.time_read": ("seconds", [["10"]], 2e-3)}
STEP = 12  # the commit that is 1.5 times slower
UNMEASURED = range(10, 14)


def sparse(folder, url="https://example.org/x/commit/"):
    """Build a tree of 24 commits of which four around the step are not measured."""
    tree = foreign_tree.build(folder, 2 * STEP, SUITE)
    for number in UNMEASURED:
        for path in (tree.results / foreign_tree.MACHINE).glob(f"{tree.commits[number][:8]}-*"):
            path.unlink()
    synthetic.write_json(tree.repository / "asv.conf.json", {"version": 1, "project": "x", "show_commit_url": url})
    return tree


@pytest.fixture(scope="module")
def gap(tmp_path_factory):
    return sparse(tmp_path_factory.mktemp("gap"))


def named(tree):
    good, bad = tree.commits[9], tree.commits[14]
    return good, bad, f"one of 5 commits, {good[:8]}..{bad[:8]}"


def test_every_page_names_the_range_and_no_author(gap):
    good, bad, phrase = named(gap)
    (card,) = home(gap).cards
    assert card.commit.words == phrase and card.commit.author == card.commit.subject == ""
    assert card.commit.href == f"commit-{bad[:8]}.html#causes"
    assert card.diff == f"https://example.org/x/compare/{good}...{bad}"
    assert card.narrow == f"kv track --range {good[:12]}..{bad[:12]}"
    assert (card.data.good, card.data.bad, card.data.candidates) == (good, bad, gap.commits[10:15])
    (row,) = [line for line in home(gap).commits if line.largest]
    assert (row.line.short, row.cause) == (bad[:8], f"by {phrase}")
    _, out = site_of(gap)
    feed = (out / "feed.xml").read_text()
    assert phrase in feed and "Ada" not in feed
    files = kernel_files(gap)
    (mark,) = [mark for mark in files["kernel-io.Csv"].value()["marks"] if mark["kind"] == "change"]
    assert phrase in mark["text"] and mark["candidates"] == gap.commits[10:15]
    text = words(files["kernel-io.Csv.html"])
    assert text.count(phrase) == 2  # as the last change, and among the events


def test_page_of_the_commit_lists_the_range(gap):
    good, bad, phrase = named(gap)
    page = commit(gap, bad)
    (row,), (causes,) = page.rows, page.causes
    assert row.cause.words == causes.words == phrase
    assert [end.short for end in causes.ends] == [good[:8], bad[:8]]
    assert [line.short for line in causes.commits] == [sha[:8] for sha in gap.commits[10:15]]
    assert causes.commits[0].href == f"https://example.org/x/commit/{gap.commits[10]}"  # it has no page
    assert causes.commits[0].subject.endswith("10th time") and causes.commits[-1].href == f"commit-{bad[:8]}.html"
    assert page.against == (good[:8], "4 commits between not measured")
    assert commit(gap, gap.commits[15]).against == (bad[:8], "the commit before")


def test_comparison_names_the_range(tab, gap):
    good, bad, phrase = named(gap)
    _, out = site_of(gap)
    for name in (f"commit-{bad[:8]}.html", f"compare.html#a={good[:12]}&b={gap.commits[20][:12]}"):
        tab.goto((out / name.partition("#")[0]).as_uri() + "".join(name.partition("#")[1:]))
        assert tab.locator("#rows tbody td").first.inner_text().splitlines()[-1] == f"by {phrase}"


def test_search_leads_from_an_unmeasured_cause_to_the_list(gap):
    _, bad, _ = named(gap)
    (words_,) = report.search_words(model.read(gap.results, gap.repository))
    (entry,) = [entry for entry in words_.value["entries"] if entry[0].startswith(gap.commits[STEP][:8])]
    assert entry == [f"{gap.commits[STEP][:8]} Change the kernels, for the 12th time (not measured, one of 5 commits)",
                     f"commit-{bad[:8]}.html#causes"]  # fmt: skip


def test_only_possible_commit_is_named_with_its_author(tmp_path, monkeypatch):
    messages = [f"Commit {number}" for number in range(2 * STEP)]

    def repository(folder, _):
        return synthetic.make_repository(folder, messages, "Grace Hopper", files={STEP: {"io.c": "int x;"}})

    monkeypatch.setattr(large_tree, "make_repository", repository)
    tree = sparse(tmp_path)
    section = tree.repository / "kernel-velocity.toml"
    section.write_text('built-from = ["io.c"]\n')
    (card,) = home(tree).cards
    assert card.commit.words == f"{tree.commits[STEP][:8]} Commit {STEP} (Grace Hopper)"
    assert (card.narrow, card.diff) == ("", f"https://example.org/x/commit/{tree.commits[STEP]}")
    assert card.commit.href == f"commit-{tree.commits[14][:8]}.html#causes"  # it has no page of its own
    section.write_text('built-from = ["other.c"]\n')
    assert home(tree).cards == []
    (mark,) = [mark for mark in kernel_files(tree)["kernel-io.Csv"].value()["marks"] if mark["kind"] == "change"]
    assert NO_COMMIT in mark["text"]


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://gitlab.example.org/x/-/commit/", "https://gitlab.example.org/x/-/compare/a...b"),
        ("https://git.example.org/x/commit/?id=", ""),
        ("https://bitbucket.example.org/x/commits/", ""),
    ],
)
def test_comparison_of_the_code_host_where_its_form_is_known(tmp_path, url, address):
    tree = sparse(tmp_path, url)
    site = model.read(tree.results, tree.repository)
    assert site.compare_url(CommitRange(good="a", bad="b", commits=())) == address


def test_command_measures_in_turns_where_all_is_measured(tmp_path):
    tree = synthetic.build(tmp_path)
    site = model.read(tree.results, tree.repository)
    (key,) = [key for key in site.keys if (key.implementation, key.case) == ("native", "float32-5M")]
    between = CommitRange(good=tree.commits[0], bad=tree.commits[2], commits=tree.commits[1:3])
    good, bad = between.good[:12], between.bad[:12]
    bisect = f"kv bisect add_mul_exp.Cpu.time_hot {good} {bad} --implementation native --case float32-5M"
    assert site.narrowing(key, between, rises=True) == bisect
    assert site.narrowing(key, between, rises=False) == f"kv track --range {good}..{bad} --again 1"
