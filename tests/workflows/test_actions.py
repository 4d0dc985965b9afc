"""The composite actions: the scripts of `gate` as a runner runs them, and the comment against an API of our own."""

import os
import re
import runpy
import subprocess
import sys
from urllib.parse import parse_qs, urlsplit

import pytest

from kernel_velocity.statuses import OF_GATES
from tests.commands import git
from tests.workflows.json_api import JsonApi, serving
from tests.workflows.reading import ACTION, ACTIONS, ROOT, run_step

COMMENT = runpy.run_path(str(ACTIONS / "comment" / "comment.py"))
HEAD = "a" * 40
RUN = "https://github.com/us/kernels/actions/runs/1"
MARKER = "<!-- kernel-velocity gate -->"
REPORT = "benchmark  answer\nmatmul.Cpu.time_hot  different\nverdict: regression confirmed (exit status 10)\n"


# gate -----------------------------------------------------------------------------------------------------------------


def run_of_gate(name, folder, **variables):
    """Run a step of the action `gate`, with `kv` and Python from folder/bin."""
    (step,) = [step for step in ACTION["gate"]["runs"]["steps"] if step["name"] == name]
    by_runner = {"GITHUB_ACTION_PATH": str(ACTIONS / "gate"), "GITHUB_STEP_SUMMARY": str(folder / "page.md")}
    return run_step(step, folder, INTERPRETER="bin/python", **by_runner, **variables)


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def checkout(tmp_path):
    """A clone whose branch `topic` left `main` one commit ago, with a `kv` that writes down how it was called."""
    git(tmp_path, "init", "-q", "-b", "main")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "common")
    git(tmp_path, "branch", "topic")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "main went on")
    git(tmp_path, "checkout", "-q", "topic")
    git(tmp_path, "commit", "-q", "--allow-empty", "-m", "slower")
    program(tmp_path / "bin" / "python", 'echo python "$@" >>called')
    return tmp_path


@pytest.mark.parametrize(("status", "ends", "series"), [(0, 0, ""), (10, 10, "a b|c"), (11, 0, ""), (22, 22, "")])
def test_gate_measures_against_the_merge_base(checkout, status, ends, series):
    script = 'printf "%s\\n" "$@" >called; echo report; echo summary >.asv/gate/summary.md; exit '
    program(checkout / "bin" / "kv", f"{script}{status}")
    done = run_of_gate("Compare", checkout, BASE="main", HEAD="topic", BUDGET="7", BENCH=series)
    assert done.returncode == ends, done.stderr
    base = git(checkout, "merge-base", "main", "topic")
    written = ["--markdown", ".asv/gate/summary.md", "--junit", ".asv/gate/junit.xml"]
    bench = ["--bench", series] if series else []
    assert (checkout / "called").read_text().splitlines() == ["gate", base, "topic", "--budget", "7", *bench, *written]
    left = {path.name: path.read_text() for path in (checkout / ".asv" / "gate").iterdir()}
    assert left == {"gate.txt": "report\n", "status": f"{status}\n", "summary.md": "summary\n"}
    assert "title=kernel-velocity::" in done.stdout and "summary" in (checkout / "page.md").read_text()


def test_gate_counts_where_it_is_asked_to(checkout):
    program(checkout / "bin" / "kv", 'printf "%s\\n" "$@" >called')
    program(checkout / "bin" / "valgrind", "exit 0")
    variables = {"BASE": "main", "HEAD": "topic", "BUDGET": "7", "BENCH": "", "PATH": f"bin:{os.environ['PATH']}"}
    assert run_of_gate("Compare", checkout, **variables, COUNTS="true").returncode == 0
    assert (checkout / "called").read_text().splitlines()[2:5] == ["topic", "--counts", "--budget"]
    wrong = run_of_gate("Compare", checkout, **variables, COUNTS="yes")
    assert (wrong.returncode, "counts: true or false is wanted, got yes" in wrong.stdout) == (2, True)


def test_gate_in_a_shallow_clone_names_the_cure(checkout, tmp_path):
    shallow = tmp_path / "shallow"
    git(checkout, "clone", "-q", "--depth=1", "--no-single-branch", f"file://{checkout}", str(shallow))
    program(shallow / "bin" / "python", "exit 0")
    program(shallow / "bin" / "kv", "echo compared")
    done = run_of_gate("Compare", shallow, BASE="origin/main", HEAD="origin/topic", BUDGET="7", BENCH="")
    message = (
        "this clone has no commit that origin/main and origin/topic share: set `fetch-depth: 0` of actions/checkout"
    )
    assert (done.returncode, done.stdout) == (2, f"::error title=kernel-velocity::{message}\n")


def test_gate_forgets_an_earlier_verdict(checkout):
    (checkout / ".asv" / "gate").mkdir(parents=True)
    (checkout / ".asv" / "gate" / "status").write_text("0\n")
    program(checkout / "bin" / "kv", "exit 0")
    assert run_of_gate("Compare", checkout, BASE="nowhere", HEAD="topic", BUDGET="7", BENCH="").returncode != 0
    assert not list((checkout / ".asv" / "gate").iterdir())


@pytest.mark.parametrize("there", [True, False])
def test_set_up_installs_kernel_velocity_where_it_is_not(checkout, there):
    program(checkout / "bin" / "python", f'echo "$@" >>called; [ "$1" != -c ] || exit {int(not there)}')
    assert run_of_gate("Set up", checkout, SETUP="echo set up >called").returncode == 0
    first, second, *install = (checkout / "called").read_text().splitlines()
    assert (first, second) == ("set up", "-c import kernel_velocity")
    assert install == ([] if there else [f"-m pip install {ACTIONS}/gate/../../../tools"])
    assert run_of_gate("Set up", checkout, SETUP="false").returncode != 0


def test_set_up_has_the_variables_of_its_job():
    read = set(re.findall(r"\$\(?(\w+)\)?|^(\w+) \?=", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    (step,) = [step for step in ACTION["gate"]["runs"]["steps"] if step["name"] == "Set up"]
    assert not set(step["env"]) & {name for names in read for name in names}


# comment --------------------------------------------------------------------------------------------------------------


class Api(JsonApi):
    """The part of GitHub's API that a comment needs, with the requests and comments of its server."""

    def do_GET(self):
        query = {name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()}
        if "/pulls?" in self.path:
            assert query["state"] == "open"
            self.answer([request for request in self.server.requests if request["head"]["label"] == query["head"]])
        else:
            first, count = int(query["page"]) - 1, int(query["per_page"])
            self.answer(self.server.comments[first * count : (first + 1) * count])

    def do_POST(self):
        self.server.comments.append(comment(len(self.server.comments), self.body()))
        self.answer({})

    def do_PATCH(self):
        number = int(self.path.rpartition("/")[2])
        (there,) = [entry for entry in self.server.comments if entry["id"] == number]
        there["body"] = self.body()
        self.answer({})


def comment(number, body, kind="Bot"):
    return {"id": number, "body": body, "user": {"type": kind, "login": "somebody"}}


def request(number, sha=HEAD, label="stranger:topic"):
    return {"number": number, "head": {"sha": sha, "label": label}}


@pytest.fixture
def api():
    requests = [request(6, "b" * 40), request(7), request(8, label="us:topic")]
    with serving(Api, requests=requests, comments=[]) as server:
        yield server


def say(api, folder, report=REPORT, status="10\n", branch="topic"):
    """Run comment.py on the files of a verdict. Return what it printed."""
    (folder / "gate.txt").write_text(report, encoding="utf-8")
    (folder / "status").write_text(status, encoding="utf-8")
    variables = {"GITHUB_API_URL": f"http://127.0.0.1:{api.server_port}", "GITHUB_REPOSITORY": "us/kernels"}
    variables |= {"GH_TOKEN": "secret", "FOLDER": str(folder), "NAME": "gate", "RUN": RUN}
    variables |= {"OWNER": "stranger", "BRANCH": branch, "HEAD": HEAD}
    proxies = ("http_proxy", "https_proxy", "all_proxy")
    environ = {name: value for name, value in os.environ.items() if name.lower() not in proxies} | variables
    command = [sys.executable, "-I", ACTIONS / "comment" / "comment.py"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_one_comment_is_written_and_then_replaced(api, tmp_path):
    assert say(api, tmp_path) == "wrote the comment of pull request 7\n"
    assert say(api, tmp_path, report="all the same\n", status="0\n") == "replaced the comment of pull request 7\n"
    (there,) = api.comments
    head = f"{MARKER}\n**kernel-velocity: clean** ([aaaaaaaa]({RUN}))\n"
    assert there["body"] == f"{head}\n```text\nall the same\n```\n"


def test_own_comment_is_replaced_on_any_page(api, tmp_path):
    api.comments += [comment(number, "thanks", "User") for number in range(150)]
    api.comments[3]["body"] = MARKER
    api.comments[120] = comment(120, f"{MARKER}\nold")
    say(api, tmp_path)
    assert len(api.comments) == 150 and "regression confirmed" in api.comments[120]["body"]
    assert api.comments[3]["body"] == MARKER


def test_text_of_a_stranger_stays_text(api, tmp_path):
    hostile = "```\n@everyone ![x](https://example.org/x.png)\n````\n<img src=x>\x1b[2J\u202e"
    say(api, tmp_path, report=hostile, status="0; echo\n")
    (there,) = api.comments
    first, second, _, opening, *text, closing, _ = there["body"].split("\n")
    assert (first, second) == (MARKER, f"**kernel-velocity: no verdict: the run's log says why** ([aaaaaaaa]({RUN}))")
    assert (opening, closing) == ("`````text", "`````")
    assert "\x1b" not in there["body"] and "\u202e" not in there["body"]
    assert text == ["```", "@everyone ![x](https://example.org/x.png)", "````", "<img src=x>[2J"]


def test_long_text_is_cut(api, tmp_path):
    say(api, tmp_path, report="x" * 1_000_000)
    assert len(api.comments[0]["body"]) < 65_536


def test_links_are_not_followed(tmp_path):
    (tmp_path / "secret").write_text("of the machine")
    (tmp_path / "gate.txt").symlink_to(tmp_path / "secret")
    assert COMMENT["text_of"](tmp_path / "secret") == "of the machine"
    assert COMMENT["text_of"](tmp_path / "gate.txt") == COMMENT["text_of"](tmp_path / "nowhere") == ""


def test_request_that_went_on_gets_no_comment(api, tmp_path):
    api.requests = [request(7, "b" * 40)]
    assert say(api, tmp_path).startswith(f"no open pull request has the head {HEAD}")
    api.requests = [request(7, label="stranger:a&state=closed")]
    assert say(api, tmp_path, branch="a&state=closed") == "wrote the comment of pull request 7\n"


def test_every_status_of_the_gate_has_words():
    assert COMMENT["WORDS"] == {str(status): status.words for status in sorted(OF_GATES)}
