"""The pages of findings: what they say of each kind and state, the evidence, the commands."""

import json
import re
import shlex
from dataclasses import replace
from types import SimpleNamespace

import git
import pytest

from kernel_velocity.__main__ import _Parser
from kernel_velocity.ab import bisect
from kernel_velocity.findings import evidence, finding, store
from kernel_velocity.findings.finding import Kind, State
from kernel_velocity.past.past import Past
from kernel_velocity.results import git as history
from kernel_velocity.results import identity
from kernel_velocity.results.measurement import SeriesKey
from kernel_velocity.site.pages import finding as finding_page
from kernel_velocity.site.pages.finding import DAY, REASON, decisions, headline, looks
from tests import large_tree, synthetic
from tests.ab.simulated_machine import Machine
from tests.commands import kv
from tests.findings import evidenced, nights
from tests.site.pages import Tags, read, rendered
from tests.site.sites import written


@pytest.fixture(scope="module")
def findings_of_every_kind(evidence_site):
    """A tree with findings of every kind, the findings, and their pages by id."""
    tree, _, targets = evidence_site
    return tree, targets, {page.context["page"]["finding"].id: page for page in finding_page.build_pages(read(tree))}


def words_of(page):
    return " ".join(Tags(rendered(page)).text.split())


def test_only_confirmed_speed_can_be_expected(findings_of_every_kind):
    targets = findings_of_every_kind[1]
    offered = {target.id for target in targets if any(" expect " in text for _, text in decisions(target))}
    speeds = (Kind.REGRESSION, Kind.IMPROVEMENT)
    assert (
        offered
        == {target.id for target in targets if target.state is State.CONFIRMED and target.kind in speeds}
        != set()
    )


def test_commands_are_accepted(findings_of_every_kind, tmp_path):
    """In every state: those that decide are run, the one that measures is parsed."""
    tree, targets, _ = findings_of_every_kind
    done = set()
    for target in targets:
        for _, command in (*decisions(target), *looks(target)):
            words = shlex.split(command.replace(DAY, "2099-12-31").replace(REASON, "because"))
            assert words[0] == "kv"
            if words[1] == "bisect":
                parser = _Parser()
                bisect.add_arguments(parser)
                parsed = parser.parse_args(words[2:])
                assert (parsed.good, parsed.case) == (target.anchor, target.worst.identity.case)
            else:
                results = tmp_path / f"{target.id}-{words[2]}"
                store.write(results, target)
                assert kv(*words[1:], "--results", results, "--repository", tree.repository)[0] == 0, command
                if words[2] == "expect":
                    assert store.read(results).findings[0].state is State.EXPECTED
            done.add(" ".join(words[1:3]) if words[1] == "findings" else words[1])
    assert done == {"findings acknowledge", "findings expect", "findings reopen", "findings show", "bisect"}


def test_range_is_expected_as_a_whole(findings_of_every_kind):
    tree, targets, _ = findings_of_every_kind
    wide = replace(targets[0], commits=tree.commits[1:4])
    text = next(text for _, text in decisions(wide) if " expect " in text)
    line = git.Repo(tree.repository).git.rev_list(shlex.split(text)[3], "--first-parent").split()
    assert sorted(line) == sorted(tree.commits[1:4])


def test_evidence_that_cannot_be_read(tree):
    (target, *_) = evidenced.write(tree)
    path = evidence.path_of(tree.results, target.id, synthetic.MACHINE)
    path.write_text("{")
    summary, out = written(tree)
    assert any(str(path) in note for note in summary.notes)
    text = Tags((out / finding.finding_href(target.id)).read_text(encoding="utf-8")).text
    assert "Not all of it could be read" in text and "not JSON" in text


def test_rerun_without_rounds(tree):
    target, stored = evidenced.regression(tree, machine=Machine(speed=dict.fromkeys(tree.commits[2:], 1.1)))
    assert not stored.reruns[0].is_adjusted
    none = replace(
        stored.reruns[0], sides=(replace(stored.reruns[0].sides[0], began=(), seconds=(), flags=()),) * 2, looks=()
    )
    store.write(tree.results, target)
    evidence.add(tree.results, target.id, "m", replace(stored, reruns=(none, stored.reruns[1]), left_out=7))
    (page,) = finding_page.build_pages(read(tree))
    text = words_of(page)
    assert "as measured: no gauge was recorded" in text and "7 further re-runs not shown" in text
    assert text.count("Time per call of each round") == 1


def test_files_of_a_suspected_commit(tree):
    section = 'built-from = ["kernels"]\nsources = ["kernels/{kernel}"]\n'
    (tree.repository / "kernel-velocity.toml").write_text(section)
    repo = git.Repo(tree.repository)
    for name in ("kernels/matmul/matmul.cpp", "kernels/_native/abi.h", "README.md", "kernels/add_mul_exp/x.cpp"):
        path = tree.repository / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        repo.index.add([name])
    commit = repo.index.commit("Touch four files").hexsha
    store.write(tree.results, replace(evidenced.regression(tree)[0], commits=(commit,)))
    (page,) = finding_page.build_pages(read(tree))
    (suspect,) = page.context["page"]["suspected"]
    assert (suspect["own"], suspect["shared"]) == (["kernels/matmul/matmul.cpp"], ["kernels/_native/abi.h"])
    assert suspect["others"] == "2 other files, which matmul is not built from" and suspect["line"].href == ""
    assert history.changed_lines(tree.repository, [tree.commits[0], commit])[tree.commits[0]] == ()


@pytest.mark.parametrize("unknown", [None, "2.9.0"])
def test_trend_of_the_last_environment(unknown):
    """As texts, 2.13.0 comes before 2.9.0."""
    parts = dict.fromkeys(("machine", "case", "version"), "m")
    parts |= {"benchmark": "matmul.Cpu.time_hot", "implementation": "native"}
    new, old = (SeriesKey(environment=f"hosttorch-py3.11-torch{name}", **parts) for name in ("2.13.0", "2.9.0"))
    times = {new: 2e9, old: None if unknown else 1e9}
    past = SimpleNamespace(keys=(new, old), last_measured=times.get)
    assert [*Past.slots.func(past).values()] == [new]


def test_finding_says_what_today_does_not_hold(tmp_path):
    """A lasting change, one that is back, one that the values deny, and one that is too small for them."""
    shape, case = large_tree.Shape(commits=40, series=20), "float32-{}M".format
    natives = {size: large_tree.PAIRS.index(("native", case(size))) for size in (1, 5, 10, 50)}
    steps = [(20, 1.05, 1), (20, 1.05, 5), (28, 1 / 1.05, 5)]
    truth = [large_tree.Change(at=at, factor=factor, series=(natives[size],)) for at, factor, size in steps]
    commits = large_tree.build(tmp_path, shape, truth)
    tree = synthetic.Tree(tmp_path / "repository", tmp_path / "results", commits)
    site = read(tree)

    def claiming(ratio, *sizes):
        series = []
        for size in sizes:
            (key,) = [key for key in site.keys if (key.implementation, key.case) == ("native", case(size))]
            series.append(finding.Affected(identity=identity.of(key, None), ratio=ratio))
        at = {"commits": commits[20:21], "anchor": commits[19], "bad": commits[20]}
        return nights.finding(affected=tuple(series), **at)

    def note(*args):
        return site.today(claiming(*args))

    lasted = f"it lasted for 8 commits ({commits[20][:8]}..{commits[27][:8]}), back since {commits[28][:8]}."
    assert note(1.05, 1) == "" == note(1.005, 50)
    assert note(1.05, 1, 5) == f"In 1 of 2 series {lasted}"
    assert re.fullmatch(
        r"In 2 of 2 series the values recorded by now show no change there \(within [12]\.\d%\)\.", note(1.05, 10, 50)
    )
    assert "no change there" in note(0.95, 50)  # the other way

    store.write(tree.results, claiming(1.05, 1, 5))
    folders = ["--results", str(tree.results), "--repository", str(tree.repository)]

    def printed(*argv):
        status, out, err = kv("findings", *argv, *folders)
        assert (status, err) == (0, "")
        return out

    assert f"{claiming(1.05).id}: In 1 of 2 series {lasted}" in printed("list").splitlines()
    assert f"  today:     In 1 of 2 series {lasted}" in printed("show", claiming(1.05).id).splitlines()
    assert [record["today"] for record in json.loads(printed("list", "--json"))] == [note(1.05, 1, 5)]


def test_many_suspected_commits(tree):
    with git.Repo(tree.repository) as repo:
        commits = [repo.index.commit(f"Commit {number}").hexsha for number in range(13)]
    store.write(tree.results, replace(evidenced.regression(tree)[0], commits=tuple(commits)))
    (page,) = finding_page.build_pages(read(tree))
    shown = page.context["page"]
    assert [target["line"].subject for target in shown["suspected"]] == [f"Commit {number}" for number in range(3, 13)]
    assert shown["further"] == "and 3 earlier commits"


def test_merge_touches_what_it_brought(tree):
    repo = git.Repo(tree.repository)
    base = repo.head.commit
    (tree.repository / "side.txt").write_text("x")
    repo.index.add(["side.txt"])
    other = repo.index.commit("On the side", parent_commits=[base], head=False)
    merge = repo.index.commit("Merge", parent_commits=[base, other])
    assert history.changed_lines(tree.repository, [merge.hexsha]) == {merge.hexsha: (("side.txt", "1", "0"),)}


def test_chart_of_a_rerun(findings_of_every_kind):
    tree, *_ = findings_of_every_kind
    machine = Machine(speed=dict.fromkeys(tree.commits[2:], 1.02), noise=0.03)
    for rerun in evidenced.regression(tree, machine=machine)[1].reruns:
        rounds = finding_page.rounds_chart(rerun)
        dots = [tuple(map(float, pair)) for pair in re.findall(r"translate\(([\d.]+)%, ([\d.]+)%\)", rounds)]
        assert len(dots) == 2 * rerun.rounds
        assert all(0 < x < 100 and 0 < y < 100 for x, y in dots)


def test_headline_without_series(findings_of_every_kind):
    assert headline(replace(findings_of_every_kind[1][0], affected=())).startswith("matmul: no series known")
