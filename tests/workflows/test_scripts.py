"""The scripts that the workflows run, in repositories and with files of our own: no runner is needed."""

import os
import shutil
import subprocess

import pytest

from kernel_velocity.statuses import OF_NIGHTS, Tone
from tests.commands import git
from tests.workflows.reading import ROOT, SCRIPTS

LEVELS = {Tone.CLEAN: "notice", Tone.DOUBT: "warning", Tone.BAD: "error"}  # of GitHub's annotations
REF = "us/kernels/.github/workflows/nightly.yml@refs/heads/main"


def script(name, *args, cwd=ROOT, **variables):
    """Run a script with these environment variables more. None removes one."""
    identity = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    identity |= {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    hidden = ("GIT_", "GITHUB_", "RUNNER_", "KV_")
    inherited = {name: text for name, text in os.environ.items() if not name.startswith(hidden)}
    command = [SCRIPTS / name, *map(str, args)]
    return subprocess.run(
        command, cwd=cwd, env={**inherited, **identity, **variables}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("status", [*OF_NIGHTS, 1, 130, 139])
def test_verdict_of_every_status(status, tmp_path):
    """Words and tone are those of the table. The job fails where somebody has to act."""
    (tmp_path / "summary.md").write_text("| series | change |\n")
    page = tmp_path / "page.md"
    page.write_text("before\n")
    done = script("verdict", int(status), tmp_path / "summary.md", GITHUB_STEP_SUMMARY=str(page))
    tone, words = (status.tone, status.words) if status in OF_NIGHTS else (Tone.BAD, "ended in a way it should not")
    assert done.returncode == (status if tone is Tone.BAD else 0)
    assert done.stdout == f"::{LEVELS[tone]} title=kernel-velocity::{words} (exit status {status})\n"
    assert page.read_text() == f"before\n**{words}** (exit status {status})\n\n| series | change |\n\n"


def test_verdict_without_summary(tmp_path):
    page = tmp_path / "page.md"
    assert script("verdict", 22, tmp_path / "none.md", GITHUB_STEP_SUMMARY=str(page)).returncode == 22
    assert "No summary was written" in page.read_text()


def test_verdict_of_a_long_summary_is_cut(tmp_path):
    (tmp_path / "summary.md").write_text("x" * 1_000_001)
    page = tmp_path / "page.md"
    assert script("verdict", 0, tmp_path / "summary.md", GITHUB_STEP_SUMMARY=str(page)).returncode == 0
    assert page.stat().st_size < 2**20
    assert "cut off here" in page.read_text()


@pytest.mark.parametrize(
    ("runner", "name"),
    [
        ("gpu-box_1.local", "gpu-box_1.local"),
        ("-our first  GPU!", "our-first-GPU"),
        ("..hidden", "hidden"),
    ],
)
def test_name_of_our_machine(runner, name):
    done = script("machine-name", RUNNER_ENVIRONMENT="self-hosted", RUNNER_NAME=runner)
    assert (done.returncode, done.stdout) == (0, f"{name}\n")
    from kernel_velocity.results.asv_file import MACHINE

    assert MACHINE.fullmatch(name)


def test_name_of_a_hosted_machine(tmp_path):
    cpu = tmp_path / "cpuinfo"
    cpu.write_text("processor\t: 0\nmodel name\t: Some(R) CPU E5 @ 2.00GHz\n\nmodel name\t: Other\n")
    done = script("machine-name", cpu, RUNNER_ENVIRONMENT="github-hosted", RUNNER_NAME="Hosted Agent 7")
    assert (done.returncode, done.stdout) == (0, "hosted-Some-R-CPU-E5-2.00GHz\n")


@pytest.mark.parametrize(
    "variables", [{}, {"RUNNER_ENVIRONMENT": "self-hosted"}, {"RUNNER_ENVIRONMENT": "self-hosted", "RUNNER_NAME": "!?"}]
)
def test_machine_without_name_is_refused(variables):
    done = script("machine-name", **variables)
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("ref", "is_run"),
    [
        (REF, True),
        (REF.replace("nightly", "pull-request-gpu"), True),
        (REF.replace("nightly", "pull-request"), False),
        (REF.replace("nightly", "mine"), False),
        (REF.replace("heads/main", "pull/7/merge"), False),  # the workflow as a request has it
        (REF.replace("heads/main", "heads/topic"), False),
        (REF.replace("us/", "stranger/"), False),
        (f"{REF} ", False),
        (None, False),
    ],
)
def test_runner_takes_only_our_workflows(ref, is_run):
    variables = {} if ref is None else {"GITHUB_WORKFLOW_REF": ref}
    done = script("job-started", KV_TRUSTED="us/kernels refs/heads/main", **variables)
    assert (done.returncode == 0) is is_run
    assert ("this runner takes no job of" in done.stderr) is not is_run


def test_runner_without_settings_takes_nothing():
    for ref, variables in (
        (REF, {}),
        ("/.github/workflows/nightly.yml@", {"KV_TRUSTED": " "}),
        (REF, {"KV_TRUSTED": "us/kernels"}),
    ):
        done = script("job-started", GITHUB_WORKFLOW_REF=ref, **variables)
        assert done.returncode == 1
        assert done.stderr.startswith("error: KV_TRUSTED is")


class Clones:
    """A repository, and clones of it as jobs have them."""

    git = staticmethod(git)

    def __init__(self, folder, origin):
        self.folder, self.count = folder, 0
        self.origin = shutil.copytree(origin, folder / "origin.git")

    def clone(self):
        self.count += 1
        self.git(self.folder, "clone", "-q", "origin.git", f"clone-{self.count}")
        return self.folder / f"clone-{self.count}"

    def run(self, where, *args, machine=None):
        variables = {"KV_MACHINE": machine} if machine else {}
        done = script("results-branch", *args, cwd=where, **variables)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def night(self, machine, **files):
        """Measure: return a clone whose results/ has these files (`__` stands for `/`), and the bundle."""
        clone = self.clone()
        self.run(clone, "restore", machine=machine)
        self.write(clone / "results", files)
        return clone, self.pack(clone, machine)

    def pack(self, clone, machine):
        bundle = clone / "results.bundle"
        self.run(clone, "pack", bundle, machine=machine)
        return bundle

    def write(self, folder, files):
        for name, text in files.items():
            path = folder / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def contents(self):
        """Return the files of the branch."""
        names = self.git(self.origin, "ls-tree", "-r", "--name-only", "results").splitlines()
        return {name: self.git(self.origin, "show", f"results:{name}") for name in names}


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    """A repository of one commit, which has what results/ holds on the main branch."""
    folder = tmp_path_factory.mktemp("origin")
    git(folder, "init", "-q", "-b", "main", "first")
    (folder / "first" / "results" / "sessions").mkdir(parents=True)
    for name in ("results/README.md", "results/sessions/01.gz"):
        (folder / "first" / name).write_text("main's\n")
    (folder / "first" / ".gitignore").write_text("/results/*\n!/results/README.md\n!/results/sessions/\n")
    git(folder / "first", "add", "-A")
    git(folder / "first", "commit", "-q", "-m", "one")
    git(folder, "clone", "-q", "--bare", "first", "origin.git")
    return folder / "origin.git"


@pytest.fixture
def clones(tmp_path, origin):
    return Clones(tmp_path, origin)


def test_results_of_two_machines_are_merged(clones):
    _, second = clones.night("gpu", gpu__a="1", list="x")
    _, two = clones.night("cpu", cpu__b="2", list="x")
    here = clones.clone()
    clones.run(here, "push", second, two)  # on the first night there is no branch: each began one
    assert clones.contents() == {"gpu/a": "1", "cpu/b": "2", "list": "x"}
    assert clones.git(here, "status", "--porcelain") == ""
    assert clones.git(here, "branch", "--show-current") == "main"  # the job's own files stay as they are
    third = clones.clone()
    clones.run(third, "restore")
    assert (third / "results" / "cpu" / "b").read_text() == "2"
    assert (third / "results" / "README.md").read_text() == "main's\n"
    assert not clones.night("gpu")[1].exists()  # nothing new


def test_results_left_by_a_cut_off_night_stay(clones):
    clone, bundle = clones.night("gpu", gpu__a="1", findings="open\n")
    clones.run(clones.clone(), "push", bundle)
    clones.write(clone / "results", {"gpu__a": "more rounds", "gpu__c": "3"})  # measured, and not kept
    clones.run(clones.clone(), "push", clones.night("cpu", cpu__b="2", findings="acknowledged\n")[1])
    clones.git(clone, "fetch", "-q")
    clones.run(clone, "restore", machine="gpu")
    results = clone / "results"
    assert [(results / name).read_text() for name in ("gpu/a", "gpu/c", "cpu/b", "findings")] == [
        "more rounds",
        "3",
        "2",
        "acknowledged\n",
    ]
    clones.run(clones.clone(), "push", clones.pack(clone, "gpu"))
    assert clones.contents() == {"gpu/a": "more rounds", "gpu/c": "3", "cpu/b": "2", "findings": "acknowledged"}


def test_conflicting_finding_costs_no_other_result(clones):
    _, second = clones.night("gpu", gpu__a="1", findings__x="of gpu\n", findings__y="1")
    _, two = clones.night("cpu", cpu__b="2", findings__x="of cpu\n", findings__z="2")
    done = script("results-branch", "push", second, two, cwd=clones.clone())
    assert done.returncode == 1
    assert done.stderr == "error: kept as the branch has it, the night said otherwise: findings/x\n"
    others = {"gpu/a": "1", "cpu/b": "2", "findings/y": "1", "findings/z": "2"}
    assert clones.contents() == {**others, "findings/x": "of gpu"}


@pytest.mark.slow
@pytest.mark.parametrize("decided", ["acknowledged\n", None])
def test_decisions_made_meanwhile_stay(decided, clones):
    clones.run(clones.clone(), "push", clones.night("gpu", findings__x="open\n", findings__y="open\n")[1])
    _, late = clones.night("gpu", gpu__a="1", findings__x="resolved\n")
    person, _ = clones.night("person")
    (person / "results" / "findings" / "x").unlink()
    clones.write(person / "results", {"findings__x": decided} if decided else {"findings__like-x": "open\n"})
    clones.run(clones.clone(), "push", clones.pack(person, "person"))
    done = script("results-branch", "push", late, cwd=clones.clone())
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.endswith("otherwise: findings/x\n")
    left = {"findings/x": decided.strip()} if decided else {"findings/like-x": "open"}  # no other name of x
    assert clones.contents() == {"gpu/a": "1", "findings/y": "open", **left}


def test_other_conflict_is_for_people(clones):
    _, second = clones.night("gpu", findings__x="of gpu\n", gpu__a="1")
    _, two = clones.night("cpu", findings__x="of cpu\n", gpu__a="2", cpu__b="2")
    clones.run(clones.clone(), "push", second)
    done = script("results-branch", "push", two, cwd=clones.clone())
    assert done.returncode == 1
    assert "conflict" in (done.stdout + done.stderr).lower()
    assert done.stderr.splitlines()[-1] == "error: branch results: not pushed, a person has to merge: gpu/a"
    assert clones.contents() == {"gpu/a": "1", "findings/x": "of gpu"}  # and nothing is overwritten


def test_temporary_files_are_left_out(clones):
    rest = {
        "kv-ab__1": "x",
        "kv-sessions__1": "x",
        "gpu__.a.json.123": "x",
        ".list.123": "x",
        "findings__.x.toml.1": "",
    }
    clones.run(clones.clone(), "push", clones.night("gpu", gpu__a="1", **rest)[1])
    assert clones.contents() == {"gpu/a": "1"}


def test_links_among_results_are_refused(clones):
    clone, _ = clones.night("gpu", gpu__a="1")
    (clone / "results" / "findings").symlink_to("../..")
    bundle = clones.pack(clone, "gpu")
    done = script("results-branch", "push", bundle, cwd=clones.clone())
    assert (done.returncode, done.stderr) == (1, "error: links among the results, where files are wanted: findings\n")
    clones.git(clone, "fetch", "-q", bundle, "night:night")
    clones.git(clone, "push", "-q", "origin", "night:results")  # as somebody who may write to it
    here = clones.clone()
    assert script("results-branch", "restore", cwd=here).returncode == 1
    assert not (here / "results" / "gpu").exists()


def test_night_without_results_packs_nothing(clones):
    clone = clones.clone()  # no folder for the bundle
    assert "nothing new" in clones.run(clone, "pack", ".asv/night/results.bundle", machine="gpu")
    assert list((clone / ".asv" / "night").iterdir()) == []
    clones.write(clone / "results", {"gpu__a": "1"})
    clones.run(clone, "pack", ".asv/night/results.bundle", machine="gpu")
    (clone / "results" / "gpu" / "a").unlink()
    clones.run(clone, "pack", ".asv/night/results.bundle", machine="gpu")
    assert list((clone / ".asv" / "night").iterdir()) == []  # that of the night before is not pushed again


def test_failed_packing_leaves_no_branch(clones, tmp_path):
    clone = clones.clone()
    clones.write(clone / "results", {"gpu__a": "1"})
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    git.write_text(f'#!/bin/sh\n[ "$1" != bundle ] || exit 7\nexec {shutil.which("git")} "$@"\n')
    git.chmod(0o755)
    done = script("results-branch", "pack", "b", cwd=clone, PATH=f"{git.parent}:{os.environ['PATH']}")
    assert done.returncode == 7
    assert clones.git(clone, "branch", "--format=%(refname:short)") == "main"


def test_journal_comes_back_to_its_machine(clones):
    _, other = clones.night("gpu-2", **{"gpu-2__a": "1", "..__.asv__journals__gpu-2-py3.json": "2"})
    first, bundle = clones.night("gpu", gpu__a="1", **{"..__.asv__journals__gpu-py3.json": "1"})
    clones.run(clones.clone(), "push", other, bundle)
    names = {"gpu/a", "gpu-2/a", "journals/gpu/gpu-py3.json", "journals/gpu-2/gpu-2-py3.json"}
    assert set(clones.contents()) == names
    fresh, late = clones.night("gpu", gpu__b="2")
    assert [path.name for path in (fresh / ".asv" / "journals").iterdir()] == ["gpu-py3.json"]
    assert not (fresh / "results" / "journals").exists()
    clones.run(clones.clone(), "push", late)
    assert set(clones.contents()) == names | {"gpu/b"}  # another machine's is not lost where it was not fetched
    journal = first / ".asv" / "journals" / "gpu-py3.json"
    journal.write_text("newer")
    clones.git(first, "fetch", "-q")
    clones.run(first, "restore", machine="gpu")
    assert journal.read_text() == "newer"  # what is here stays
    clones.run(clones.clone(), "push", clones.pack(first, "gpu"))
    assert clones.contents()["journals/gpu/gpu-py3.json"] == "newer"


@pytest.mark.slow
def test_refused_push_is_an_error(clones):
    _, bundle = clones.night("gpu", gpu__a="1")
    hook = clones.origin / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    done = script("results-branch", "push", bundle, cwd=clones.clone())
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: branch results: not pushed; the results are in")


def test_unknown_arguments_are_refused(clones):
    clone = clones.clone()
    for args in ((), ("keep",), ("pack",), ("push",), ("restore", "x")):
        done = script("results-branch", *args, cwd=clone)
        assert (done.returncode, done.stdout) == (2, ""), args
        assert done.stderr.startswith("error: results-branch")
