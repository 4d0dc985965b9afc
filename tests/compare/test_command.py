"""`kv compare`: options, exit status, what is written where."""

import io
import json
import os
import subprocess
import sys
import types
from pathlib import Path
from types import SimpleNamespace

import pytest

from kernel_velocity import lock
from kernel_velocity.__main__ import main
from kernel_velocity.compare import command, nsight
from kernel_velocity.compare.result import TimedImplementation
from kernel_velocity.errors import UsageError
from tests.compare.doubling import EAGER, ROOFS, Doubling, writing
from tests.small_suite import SUITE

torch = pytest.importorskip("torch", reason="implementations compute with torch tensors")

ROOT = Path(__file__).parents[2]
QUICK = ("--rounds", "2", "--iters", "3", "--device", "cpu")


@pytest.fixture
def planted(monkeypatch, tmp_path):
    """Plant a problem with implementations and ceilings, and record the calls."""
    calls = types.SimpleNamespace(loaded=[], measured=[], roofs=ROOFS, problems={"doubling": Doubling()})
    calls.implementations = {**EAGER, "native": writing()}

    def load(what, device, solutions, dtype):
        if what == "gone":
            raise UsageError("no problem 'gone'")
        calls.loaded.append((what, device, list(solutions), dtype))
        problem = calls.problems.get(what, calls.problems["doubling"])
        problem.device = device
        return problem, calls.implementations

    def keep(root, document):
        calls.measured.append(document)
        calls.roofs = ROOFS

    monkeypatch.setenv("ASV_CONF_DIR", str(tmp_path))  # whose lock is taken
    monkeypatch.delenv(lock.HOLDER, raising=False)
    monkeypatch.setenv(lock.LOCK_FOLDER, str(tmp_path))
    monkeypatch.setattr(command.implementations, "load", load)
    monkeypatch.setattr(command.peaks, "latest_roofs", lambda root, device, name: calls.roofs)
    monkeypatch.setattr(command.peaks, "measure_document", lambda device: device)
    monkeypatch.setattr(command.ceilings, "keep", keep)
    return calls


class Terminal(io.StringIO):
    def isatty(self):
        return True


def run(*argv, err=None):
    out, err = io.StringIO(), err or io.StringIO()
    return main(["compare", *argv], out, err), out.getvalue(), err.getvalue()


def test_comparison_from_start_to_end(planted):
    code, out, err = run("doubling", *QUICK, "--stats")
    assert (code, err) == (0, "")
    for words in (
        "system: device",
        "doubling on cpu",
        "float32-small",
        "native vs eager",
        "efficiency",
        "4 of 4 outputs",
    ):
        assert words in out
    assert "      min  " in out  # of --stats
    assert planted.loaded == [("doubling", "cpu", [], "float32")] and planted.measured == []


def test_options_choose_sizes_implementations_and_reference(planted):
    options = ("--sizes", "small", "--implementations", "nat,eager", "--reference", "native", *QUICK)
    code, out, _ = run("doubling", *options)
    assert code == 0
    assert "eager vs native" in out and "float32-large" not in out and "compile" not in out
    run("mine.py", "--solution", "a.so", "--solution", "b.py", "--dtype", "float32", *QUICK)
    assert planted.loaded[-1] == ("mine.py", "cpu", [Path("a.so"), Path("b.py")], "float32")


def test_all_means_every_kernel(planted):
    assert run("all", "add_mul_exp", "--sizes", "small", *QUICK)[0] == 0
    assert [what for what, *_ in planted.loaded] == [problem.name for problem in SUITE.problems()]


def test_problem_without_matching_sizes_is_left_out(planted):
    planted.problems["other"] = other = Doubling()
    other.name, other.sizes = "other", {"odd": 3}
    out = run("doubling", "other", "--sizes", "small", *QUICK)[1]
    assert "doubling on cpu" in out and "other on cpu" not in out
    out = run("doubling", "other", "--sizes", "small,odd", *QUICK)[1]
    assert "doubling on cpu" in out and "other on cpu" in out


def test_wrong_is_status_one_and_nothing_measured_is_22(planted):
    planted.implementations["native"] = writing(lambda out: out.__setitem__(-1, 7))
    code, out, _ = run("doubling", *QUICK)
    assert code == 1
    assert "FAIL: doubling float32-small native: out is wrong" in out and "(999,)" in out

    def refuse(problem, case, inputs):
        raise NotImplementedError("no GPU")

    planted.implementations.clear()
    planted.implementations["triton"] = refuse
    code, out, _ = run("doubling", *QUICK)
    assert code == 22 and "n/a: doubling float32-small triton: no GPU" in out


def test_unproven_solution_is_status_one(planted, tmp_path):
    planted.problems["doubling"].verify_result = lambda expected, actual: (True, {})
    planted.implementations["native"] = writing(lambda out: out.zero_())  # the norm rule tells it from eager
    code, out, _ = run("doubling", *QUICK)
    assert code == 0 and "unproven: doubling float32-small native: zeros, " in out
    assert "native vs eager" not in out and "2 of 4 outputs right; unproven: doubling" in out
    path = tmp_path / "result.json"
    assert run("doubling", "--solution", "a.so", f"--json={path}", *QUICK)[0] == 1
    document = json.loads(path.read_text())
    assert not document["right"] and [row["status"] for row in document["results"]] == ["right", "unproven"] * 2
    assert document["results"][1]["reason"].startswith("zeros, a constant")


def test_interruption_saves_nothing_and_leaves_files_alone(planted, tmp_path):
    def interrupt(problem, case, inputs):
        raise KeyboardInterrupt

    planted.implementations["native"] = interrupt
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "old.json").write_text("old")
    written = [f"--json={folder / 'old.json'}", f"--profile={folder / 'new'}"]
    assert run("doubling", *QUICK, *written) == (130, "", "interrupted: nothing was saved\n")
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"old.json": "old"}


def test_missing_ceilings_are_measured_once(planted):
    planted.roofs = None
    _, out, err = run("doubling", *QUICK, "--no-roofline")
    assert planted.measured == [] and err == "" and "efficiency" not in out
    _, out, err = run("doubling", *QUICK)
    assert planted.measured == ["cpu"] and "measuring this machine's ceilings first" in err and "efficiency" in out
    assert run("doubling", *QUICK)[2] == "" and planted.measured == ["cpu"]  # they are recorded
    planted.roofs = None
    assert run("doubling", *QUICK, "--quiet")[2] == ""


def test_lock_is_checked_after_options_and_before_measuring(planted, tmp_path, monkeypatch):
    with lock.held(tmp_path):
        monkeypatch.delenv(lock.HOLDER)
        code, out, err = run("doubling", *QUICK, "--quiet")
        mistake = run("gone", *QUICK)
    assert (code, out, planted.problems["doubling"].made, planted.measured) == (2, "", [], [])
    assert err.startswith("error: another run is measuring in this clone") and len(err.splitlines()) == 1
    assert mistake == (2, "", "error: no problem 'gone'\n")
    assert run("doubling", *QUICK)[0] == 0


def test_json_goes_to_a_file_or_to_standard_output(planted, tmp_path):
    path = tmp_path / "a.json"
    code, out, _ = run("doubling", *QUICK, "--json", str(path))
    assert code == 0 and "doubling on cpu" in out and len(json.loads(path.read_text())["results"]) == 4
    code, out, err = run("doubling", *QUICK, "--json", "-")
    assert code == 0 and len(json.loads(out)["results"]) == 4
    assert "doubling on cpu" in err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("gone",), "no problem 'gone'"),
        (("doubling", "--sizes", "huge"), "--sizes 'huge' matches nothing of doubling on cpu"),
        (("doubling", "--implementations", "triton"), "--implementations 'triton' matches nothing of doubling"),
        (("doubling", "--reference", "fast"), "--reference must be one of eager, native (got 'fast')"),
        (("doubling", "--dtype", "float16"), "--dtype must be one of float32 for doubling on cpu (got float16)"),
        (("doubling", "--threads", "0"), "KV_THREADS='0'"),
        (("doubling", "--tolerance", "much"), "--tolerance"),
        (("doubling", "--json", "nowhere/to/a.json"), "--json nowhere/to/a.json: must be a file in an existing folder"),
        (("doubling", "--profile", __file__), "must be a folder, for traces (got a file)"),
        (("doubling", "--profile", "/proc/new"), "--profile /proc/new: cannot be written ("),
        (("doubling", "--json", "/proc/new"), "--json /proc/new: cannot be written ("),  # root cannot, either
        (("doubling", "--ncu", "/nowhere"), "--ncu=/nowhere: must be a program"),
        ((), "PROBLEM"),
    ],
)
def test_mistakes_are_one_line_before_anything_is_measured(planted, argv, words):
    code, out, err = run(*argv, *([] if "--device" in argv else ["--device", "cpu"]), "--quiet")
    assert (code, out) == (2, "")
    assert err.startswith("error: ") and err.count("\n") == 1 and words in err
    assert planted.problems["doubling"].made == [] and planted.measured == []


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([("a", (1.0,)), ("b", (2.0,))], 0),
        ([("a", (1.0,)), ("b", ())], 22),  # the other one is n/a
        ([("a", (1.0,))], 0),  # nobody asked for another
        ([("a", ())], 22),
        ([], 22),
    ],
)
def test_status_is_22_where_nothing_was_compared(rows, code):
    timed = tuple(TimedImplementation(implementation=name, estimates=estimates) for name, estimates in rows)
    compared = SimpleNamespace(timed=timed)
    comparison = SimpleNamespace(compared=(compared,), rows=lambda: [SimpleNamespace(timed=entry) for entry in timed])
    assert command.status(comparison) == code


def test_pipe_or_device_is_not_replaced(planted, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    code, out, err = run("doubling", "--device", "cpu", "--json", str(pipe))
    assert (code, out) == (2, "") and pipe.is_fifo()
    assert err.startswith(f"error: --json {pipe}: is no regular file")


def test_gpu_that_is_not_there_is_refused(planted, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    code, out, err = run("doubling", "--device", "cuda")
    assert (code, out) == (2, "") and "--device cuda: PyTorch sees no CUDA device" in err
    assert planted.problems["doubling"].made == [] and planted.measured == []


def test_progress_is_for_terminals(planted):
    text = run("doubling", *QUICK, err=Terminal())[2]
    assert "round 2/2" in text and text.endswith("\r\x1b[K")
    assert run("doubling", *QUICK, "--quiet", err=Terminal())[2] == ""


def test_table_is_as_wide_as_its_terminal(monkeypatch):
    monkeypatch.setattr(Terminal, "fileno", lambda self: 7)
    descriptors = []
    monkeypatch.setattr(
        os, "get_terminal_size", lambda number: descriptors.append(number) or os.terminal_size((91, 24))
    )
    monkeypatch.delenv("COLUMNS", raising=False)
    assert (command._width(Terminal()), descriptors) == (91, [7])
    monkeypatch.setenv("COLUMNS", "77")
    assert command._width(Terminal()) == 77
    assert command._width(io.StringIO()) == command.WIDTH_OF_FILES


# Profilers -----------------------------------------------------------------------------------------------------------


def test_profile_is_of_what_has_a_time_on_the_last_case(planted, tmp_path):
    planted.implementations["native"] = writing(lambda out: out.__setitem__(-1, 7))
    code, out, _ = run("doubling", *QUICK, "--profile", str(tmp_path / "traces"))
    assert code == 1 and "eager on float32-large, 10 calls; trace: " in out
    assert [path.name for path in (tmp_path / "traces").iterdir()] == ["doubling-cpu-float32-large-eager.trace.json"]


def test_ncu_reports_each_implementation_or_why_not(planted, tmp_path, monkeypatch):
    program, runs = tmp_path / "ncu", []
    program.touch(0o755)

    def ncu(child, path):
        runs.append((child[3:], path))
        if "native" in child:
            raise UsageError("no kernel was profiled")
        return [("kernel", {nsight.DURATION: 1e-6})]

    monkeypatch.setattr(nsight, "ncu", ncu)
    code, out, _ = run("doubling", *QUICK, f"--ncu={program}", "--solution=a.so", "--dtype=float32")
    assert code == 0
    what = ["float32-large", "cpu", "float32", "a.so"]
    assert runs == [(["doubling", name, *what], str(program)) for name in ("eager", "native")]
    assert "eager on float32-large\nNsight Compute: " in out
    assert "n/a: Nsight Compute on native float32-large: no kernel was profiled\n" in out


# As a user types it --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("lock_of_its_own")
def test_prints_of_python_code_go_to_standard_error(tmp_path):
    (tmp_path / "mine.py").write_text("print('while loaded')\ndef solution(x, out, n):\n    out.copy_(2 * x)\n")
    (tmp_path / "p.py").write_text(
        "import torch\nfrom tests.compare.doubling import Doubling\n"
        "class P(Doubling):\n"
        "    def reference_solution(self, x):\n        print('while computed')\n        return 2 * x\n"
        "    def verify_result(self, expected, actual):\n"
        "        print('while verified')\n        return bool(torch.equal(expected, actual)), {}\n"
    )
    options = ["--implementations=eager,mine", "--no-roofline", "--json=-", f"--solution={tmp_path / 'mine.py'}"]
    code, out, err = run(str(tmp_path / "p.py"), *QUICK, *options)
    assert code == 0 and json.loads(out)["right"]
    assert not [words for words in ("while loaded", "while computed", "while verified") if words not in err]


def test_command_as_a_user_types_it(tmp_path):
    argv = ["compare", "matmul", "--sizes", "float32-128x128x128", "--implementations", "eager,native", "--no-roofline"]
    argv += ["--rounds", "3", "--iters", "5", "--device", "cpu", "--json", str(tmp_path / "a.json")]
    done = subprocess.run([sys.executable, "-m", "tools", *argv], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "allocator keeps freed memory" in done.stdout  # it has started itself anew
    assert "native vs eager" in done.stdout and "2 of 2 outputs right" in done.stdout
    names = {row["implementation"] for row in json.loads((tmp_path / "a.json").read_text())["results"]}
    assert names == {"eager", "native"}
