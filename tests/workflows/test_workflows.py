"""What the workflows may and may not do: whose code runs where, with which rights, and that what they call exists."""

import itertools
import os
import re
import shlex
import subprocess

import pytest

from kernel_velocity.__main__ import COMMANDS, parse
from kernel_velocity.ab import session
from kernel_velocity.findings.report import FORMATS
from tests.commands import git
from tests.workflows.expressions import holds
from tests.workflows.reading import (
    ACTION,
    ACTION_PATHS,
    PATHS,
    ROOT,
    SCRIPTS,
    WORKFLOWS,
    action_steps,
    jobs,
    run_step,
    steps,
)

US, STRANGER = "us/kernels", "stranger/kernels"
LABEL = "measure-on-gpu"
OWN_MACHINE = [(file, name, job) for file, name, job in jobs() if "self-hosted" in job["runs-on"]]
IN_ACTIONS = [(where, {}, step) for where, step in action_steps()]
SCRIPT_STEPS = [(where, job, step) for where, job, step in [*steps(), *IN_ACTIONS] if "run" in step]
GATES = {
    file: next(step for step in WORKFLOWS[file]["jobs"]["gate"]["steps"] if "actions/gate" in step.get("uses", ""))
    for file in ("pull-request.yml", "pull-request-gpu.yml")
}


def calls():
    """Yield (where, arguments) of every `kv ...`, with values in the place of variables."""
    for where, job, step in SCRIPT_STEPS:
        variables = {**job.get("env", {}), **step.get("env", {})}
        for result in re.findall(r"\bkv ((?:\\\n|[^\n|>])+)", step["run"]):
            words = shlex.split(re.sub(r"\$\{\w+:\+(.*?)\}", r"\1", result.replace("\\\n", " ")))
            yield where, [example(variables.get(word[1:])) if word[0] == "$" else word for word in words]


def example(value):
    """Return what a variable may hold: the number that it is or falls back to, else a revision."""
    number = re.search(r"\d+(?= }}|$)", str(value))
    return number[0] if number else "HEAD"


def test_all_workflows_are_read():
    assert [path.suffix for path in PATHS] == [".yml"] * len(WORKFLOWS)
    assert {"nightly.yml", "pull-request.yml", "pull-request-gpu.yml", "comment.yml"} <= set(WORKFLOWS)
    assert set(ACTION) == {"gate", "comment"}
    assert {name for _, (name, *_) in calls()} >= {"nightly", "gate", "report"}
    assert {file for file, _, _ in OWN_MACHINE} == {"nightly.yml", "pull-request-gpu.yml"}


@pytest.mark.parametrize(("where", "arguments"), [pytest.param(*call, id=call[0]) for call in calls()])
def test_commands_exist_with_their_options(where, arguments):
    assert arguments[0] in COMMANDS, where
    parse(arguments)  # raises UsageError


@pytest.mark.parametrize("path", [*PATHS, *ACTION_PATHS], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_actions_are_pinned_and_name_their_version(path):
    used = re.findall(r"^\s*-?\s*uses: (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    for text in used:
        ours = re.fullmatch(r"\$/(\.github/actions/\w+)", text)  # of the very commit that the workflow is of
        assert ours or re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", text), text
        assert not ours or (ROOT / ours[1] / "action.yml").exists()


def test_an_action_has_one_version():
    used = sorted({step["uses"] for _, _, step in [*steps(), *IN_ACTIONS] if "uses" in step})
    names = [text.partition("@")[0] for text in used]
    assert names == sorted(set(names))


def test_no_expression_in_scripts():
    for where, _, step in SCRIPT_STEPS:
        assert "${{" not in step["run"], where


@pytest.mark.parametrize("file", WORKFLOWS)
def test_rights_of_jobs(file):
    assert WORKFLOWS[file]["permissions"] == {}
    permissions = {name: job["permissions"] for name, job in WORKFLOWS[file]["jobs"].items()}
    writing = {name: rights for name, rights in permissions.items() if "write" in rights.values()}
    allowed = {
        "keep": {"contents": "write"},
        "publish": {"pages": "write", "id-token": "write"},
        "forget": {"pull-requests": "write"},
        "comment": {"actions": "read", "pull-requests": "write"},
    }
    assert {name: allowed.get(name) for name in writing} == writing
    for where, job, step in steps():
        if job["permissions"] != {"contents": "read"}:  # whoever may write runs nothing that was measured
            assert not re.search(r"\bmake\b|python|pip", step.get("run", "")), where


def test_clones_are_whole_and_keep_no_token():
    clones = [step["with"] for _, _, step in steps() if step.get("uses", "").startswith("actions/checkout@")]
    assert len(clones) >= 4
    for options in clones:
        assert (options["fetch-depth"], options["persist-credentials"]) == (0, False)


def test_everything_has_a_time_limit():
    for file, name, job in jobs():
        assert 0 < job["timeout-minutes"] <= 240, (file, name)
        for step in job["steps"]:
            assert step.get("timeout-minutes", 0) < job["timeout-minutes"], (file, name)
    for where, job, step in SCRIPT_STEPS:
        if " nightly " in step["run"]:  # the tool ends by itself before it is ended
            budget = int(example({**job["env"], **step["env"]}["BUDGET"]))
            assert budget < step["timeout-minutes"] < job["timeout-minutes"], where
    for file, step in GATES.items():
        assert step["with"]["budget"] + 20 <= step["timeout-minutes"], file  # set-up and builds are not counted


def test_two_nights_never_overlap():
    assert WORKFLOWS["nightly.yml"]["concurrency"] == {"group": "nightly", "cancel-in-progress": False}


def test_results_are_packed_when_a_night_fails():
    for name in ("cpu", "gpu"):
        tail = [step.get("if") for step in WORKFLOWS["nightly.yml"]["jobs"][name]["steps"][-3:]]
        restored = "always() && steps.restore.outcome == 'success'"  # else pack would undo what came there since
        assert tail == [restored, "always()", "failure() || cancelled()"]


def test_night_writes_every_format():
    nights = [set(arguments) for _, arguments in calls() if arguments[0] == "nightly"]
    assert nights and all({f"--{name}" for name in FORMATS} <= options for options in nights)


def test_branch_is_fetched_before_set_up():
    """What is left here of a night that was cut off is packed even where set-up fails, and nothing of another night."""
    names = [step.get("name") for step in WORKFLOWS["nightly.yml"]["jobs"]["cpu"]["steps"]]
    wanted = ["Clear what the last night said", "Fetch the recorded results", "Set up", "Measure", "Pack the results"]
    assert [name for name in names if name in wanted] == wanted


@pytest.mark.parametrize("report", [None, "", "{}"])
def test_spool_of_a_cut_off_night_is_ingested(report, tmp_path):
    (pack,) = [step for where, _, step in SCRIPT_STEPS if where == "nightly.yml: cpu: Pack the results"]
    (tmp_path / ".asv" / "night").mkdir(parents=True)
    if report is not None:
        (tmp_path / ".asv" / "night" / "night.json").write_text(report)
    for name in (".venv/bin/kv", ".github/scripts/results-branch"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(f'#!/bin/sh\necho "$@" >> said\nexit {int("venv" in name)}\n')
        (tmp_path / name).chmod(0o755)
    done = run_step(pack, tmp_path)
    assert done.returncode == 0, done.stderr  # what cannot be ingested keeps nothing from being packed
    ingested = [] if report else ["ingest"]
    assert (tmp_path / "said").read_text().splitlines() == [*ingested, "pack .asv/night/results.bundle"]


def test_evidence_of_a_gate_is_uploaded():
    for file in ("pull-request.yml", "pull-request-gpu.yml"):
        *_, upload = WORKFLOWS[file]["jobs"]["gate"]["steps"]
        assert f"{session.FOLDER}/" in upload["with"]["path"].splitlines()


@pytest.mark.parametrize(
    ("cpu", "gpu", "is_pushed"),
    [
        ("success", "skipped", True),
        ("failure", "skipped", True),
        ("cancelled", "success", True),
        ("skipped", "failure", True),
        ("skipped", "skipped", False),
    ],
)
def test_results_are_kept_whatever_the_verdict(cpu, gpu, is_pushed):
    contexts = {"needs": {"cpu": {"result": cpu}, "gpu": {"result": gpu}}}
    assert holds(WORKFLOWS["nightly.yml"]["jobs"]["keep"]["if"], contexts) is is_pushed


def test_strangers_cannot_change_conditions_of_our_machine():
    """A workflow of `pull_request` comes with the request. The others are the default branch's, or a collaborator's."""
    assert len(OWN_MACHINE) == 2
    for file, _, job in OWN_MACHINE:
        assert set(WORKFLOWS[file]["on"]) <= {"schedule", "workflow_dispatch", "pull_request_target"}
        assert "vars.KV_GPU_RUNNER == 'true'" in job["if"]  # else it would wait a day for a runner that is not there


def request(action, head, label=None, labels=()):
    """Return the contexts of an event of a pull request from the repository `head` (None: deleted meanwhile)."""
    event = {
        "action": action,
        "label": {"name": label} if label else None,
        "pull_request": {
            "head": {"repo": {"full_name": head} if head else None},
            "labels": [{"name": name} for name in labels],
        },
    }
    return {"github": {"event": event, "repository": US}, "vars": {"KV_GPU_RUNNER": "true"}}


def test_job_that_comments_runs_nothing_of_the_request():
    workflow = WORKFLOWS["comment.yml"]
    gate = WORKFLOWS["pull-request.yml"]["name"]
    assert workflow["on"] == {"workflow_run": {"workflows": [gate], "types": ["completed"]}}
    (step,) = workflow["jobs"]["comment"]["steps"]
    assert step == {"uses": "$/.github/actions/comment"}  # which comes with the default branch
    for event, comments in (("pull_request", True), ("pull_request_target", False), ("push", False)):
        contexts = {"github": {"event": {"workflow_run": {"event": event}}}}
        assert holds(workflow["jobs"]["comment"]["if"], contexts) is comments
    fetch, comment = ACTION["comment"]["runs"]["steps"]
    assert fetch["with"]["path"] == comment["env"]["FOLDER"].strip()  # beside the workspace, and on no search path
    assert fetch["with"]["name"] == GATES["pull-request.yml"]["with"].get("name", "${{ inputs.name }}")


ACTIONS = ("opened", "synchronize", "reopened")
EVENTS = [
    *((request(action, US), True, False) for action in ACTIONS),
    *((request(action, STRANGER), False, False) for action in ACTIONS),
    *((request(action, STRANGER, labels=["bug", LABEL]), False, True) for action in ACTIONS),
    (request("synchronize", None, labels=[LABEL]), False, True),
    (request("labeled", STRANGER, LABEL, [LABEL]), True, False),
    (request("labeled", STRANGER, "bug", ["bug", LABEL]), False, False),  # another label, later
    (request("labeled", US, "bug", ["bug"]), False, False),  # measured when it was pushed
    (request("labeled", US, LABEL, [LABEL]), True, False),
    (request("labeled", None, "bug", [LABEL]), False, False),
]


@pytest.mark.parametrize(("contexts", "measured", "forgotten"), EVENTS)
def test_who_is_measured_on_our_machine(contexts, measured, forgotten):
    result = WORKFLOWS["pull-request-gpu.yml"]["jobs"]
    assert holds(result["gate"]["if"], contexts) is measured
    assert holds(result["forget"]["if"], contexts) is forgotten
    without = {**contexts, "vars": {}}
    assert not holds(result["gate"]["if"], without)


def test_labelled_commit_is_measured_with_our_tools(tmp_path):
    clone, fetch, *rest = WORKFLOWS["pull-request-gpu.yml"]["jobs"]["gate"]["steps"]
    assert "ref" not in clone["with"]  # of this trigger, that is the default branch
    assert not [step for step in rest if "checkout" in step.get("uses", "")]
    head = ACTION["gate"]["inputs"]["head"]["default"]
    assert "head" not in GATES["pull-request-gpu.yml"]["with"]
    assert fetch["env"]["HEAD"] == head == "${{ github.event.pull_request.head.sha }}"  # when labelled, not of today
    request = requested(tmp_path)
    done = run_step(fetch, tmp_path / "clone", NUMBER="7", HEAD=request, GH_TOKEN="none")
    assert done.returncode == 0, done.stderr
    assert git(tmp_path / "clone", "cat-file", "-t", request) == "commit"
    assert git(tmp_path / "clone", "log", "-1", "--format=%s") == "ours"
    assert not (tmp_path / "clone" / "theirs").exists()
    assert run_step(fetch, tmp_path / "clone", NUMBER="7", HEAD="1" * 40, GH_TOKEN="none").returncode != 0


def requested(folder):
    """Make a repository with a request 7, and a clone of its main branch. Return the request's commit."""
    git(folder, "init", "-q", "-b", "main", "origin")
    origin = folder / "origin"
    git(origin, "commit", "-q", "--allow-empty", "-m", "ours")
    git(folder, "clone", "-q", "origin", "clone")
    (origin / "theirs").write_text("")
    git(origin, "add", "theirs")
    git(origin, "commit", "-q", "-m", "theirs")
    commit = git(origin, "rev-parse", "HEAD")
    git(origin, "update-ref", "refs/pull/7/head", commit)
    git(origin, "reset", "-q", "--hard", "HEAD~")
    return commit


@pytest.mark.parametrize(
    ("event", "ref", "machine", "ran"),
    [
        ("schedule", "main", None, {"cpu", "gpu"}),
        ("workflow_dispatch", "main", "all", {"cpu", "gpu"}),
        ("workflow_dispatch", "main", "cpu", {"cpu"}),
        ("workflow_dispatch", "main", "gpu", {"gpu"}),
        ("workflow_dispatch", "topic", "all", set()),  # the results branch is of the default branch's commits
    ],
)
def test_where_a_night_runs(event, ref, machine, ran):
    repository = {} if event == "schedule" else {"default_branch": "main"}  # a schedule's event names no repository
    contexts = {
        "github": {"event_name": event, "ref_name": ref, "event": {"repository": repository}},
        "inputs": {"machine": machine} if machine else {},
        "vars": {"KV_GPU_RUNNER": "true"},
    }
    result = WORKFLOWS["nightly.yml"]["jobs"]
    assert {name for name in ("cpu", "gpu") if holds(result[name]["if"], contexts)} == ran
    assert not holds(result["gpu"]["if"], {**contexts, "vars": {}})


def test_scripts_are_executable_and_used():
    texts = "".join(path.read_text(encoding="utf-8") for path in [*PATHS, *ACTION_PATHS])
    named = set(re.findall(r"(?:\.github|\.\.)/scripts/([\w-]+)", texts))
    assert named == {path.name for path in SCRIPTS.iterdir()}
    assert all(os.access(path, os.X_OK) for path in SCRIPTS.iterdir())


def test_bash_reads_every_script(tmp_path):
    """bash reads every script of ours, in files and in steps."""
    for number, (_, _, step) in enumerate(SCRIPT_STEPS):
        (tmp_path / f"step-{number}").write_text(step["run"])
    for path in itertools.chain(tmp_path.iterdir(), SCRIPTS.iterdir()):
        done = subprocess.run(["bash", "-n", path], capture_output=True, text=True, cwd=ROOT, check=False)
        assert (done.returncode, done.stderr) == (0, ""), path
