"""What docs/how-to/ci.md and README give to copy is valid, names what exists, and its shell does what the page says."""

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from kernel_velocity.__main__ import parse
from kernel_velocity.pytest_plugin import KernelVelocity
from tests.workflows.json_api import JsonApi, serving
from tests.workflows.reading import ACTION, ROOT

PAGE = (ROOT / "docs" / "how-to" / "ci.md").read_text(encoding="utf-8")
GITHUB, COMMENT, GITLAB = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
(SHORT,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
MARKER = "<!-- kernel-velocity -->"


def loaded(text):
    return YAML(typ="safe").load(text)


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        pytest.param(GITHUB, "vendor.github-workflows", id="github"),
        pytest.param(SHORT, "vendor.github-workflows", id="readme"),
        pytest.param(COMMENT, "vendor.github-workflows", id="comment"),
        pytest.param(GITLAB, "vendor.gitlab-ci", id="gitlab"),
    ],
)
def test_yaml_follows_its_schema(tmp_path, text, schema):
    (tmp_path / "file.yml").write_text(text)
    program = Path(sys.executable).parent / "check-jsonschema"
    done = subprocess.run(
        [program, "--builtin-schema", schema, tmp_path / "file.yml"], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_actions_of_the_page_exist_with_their_inputs():
    steps = [step for text in (GITHUB, COMMENT) for job in loaded(text)["jobs"].values() for step in job["steps"]]
    assert loaded(SHORT)["jobs"]["gate"]["steps"][:2] == steps[:2]
    ours = [step for step in steps if step["uses"].startswith("OWNER/kernel-velocity/.github/actions/")]
    assert [step["uses"].rpartition("/")[2] for step in ours] == ["gate@main", "comment@main"]
    assert set(ours[0]["with"]) <= set(ACTION["gate"]["inputs"])
    named = set(re.findall(r"`(\w+)`", PAGE.partition("Further inputs:")[2].partition(".\n")[0]))
    assert named | set(ours[0]["with"]) == set(ACTION["gate"]["inputs"])
    assert loaded(COMMENT)["on"]["workflow_run"]["workflows"] == [loaded(GITHUB)["name"]]


def commands():
    """Return every call of `kv` on the page, as its words, with a revision in the place of a variable."""
    scripts = [line for job in loaded(GITLAB).values() for line in job["script"]]
    shell = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    lines = [line for text in (*scripts, *shell) for line in text.splitlines() if line.startswith("kv ")]
    return [[re.sub(r"^\$.*", "HEAD", word) for word in shlex.split(line)[1:]] for line in lines]


def test_commands_of_the_page_exist_with_their_options():
    assert [words[0] for words in commands()] == ["gate", "join", "ingest", "ingest"]
    for words in commands():
        parse(words)


def test_pytest_example_calls_what_exists():
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (call,) = [node for node in ast.walk(ast.parse(example)) if isinstance(node, ast.Call) and "gate" in ast.dump(node)]
    names = KernelVelocity.gate.__code__.co_varnames
    assert {keyword.arg for keyword in call.keywords} <= set(names)


class Notes(JsonApi):
    """GitLab's API of the notes of a merge request."""

    token = ("PRIVATE-TOKEN", "secret")

    def do_GET(self):
        self.answer(self.server.notes)

    def do_POST(self):
        self.server.notes.append({"id": 40 + len(self.server.notes), "body": self.body()})
        self.answer({})

    def do_PUT(self):
        number = int(self.path.rpartition("/")[2])
        (note,) = [note for note in self.server.notes if note["id"] == number]
        note["body"] = self.body()
        self.answer({})

    def answer(self, data):
        assert self.path.startswith("/projects/3/merge_requests/5/notes")
        super().answer(data)


@pytest.fixture
def gitlab():
    with serving(Notes, notes=[{"id": 1, "body": "looks good"}]) as server:
        yield server


@pytest.mark.skipif(not (shutil.which("jq") and shutil.which("curl")), reason="the job needs curl and jq")
def test_gitlab_note_is_written_and_then_replaced(gitlab, tmp_path):
    install, *lines = loaded(GITLAB)["kernels note"]["script"]
    assert install.startswith("apk add")
    environ = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    environ |= {"CI_API_V4_URL": f"http://127.0.0.1:{gitlab.server_port}", "CI_PROJECT_ID": "3"}
    environ |= {"CI_MERGE_REQUEST_IID": "5", "KV_NOTE_TOKEN": "secret"}
    (tmp_path / ".asv" / "gate").mkdir(parents=True)
    for summary in ('**no regression** of "x"\n', "**regression confirmed**\n"):
        (tmp_path / ".asv" / "gate" / "summary.md").write_text(summary)
        script = "\n".join(["set -e", *lines])
        done = subprocess.run(
            ["sh", "-c", script], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert [note["body"] for note in gitlab.notes] == ["looks good", f"{MARKER}\n{summary}"]
