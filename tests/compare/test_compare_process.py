"""A comparison whose process an implementation ends: who it was and how is said, the others keep their results."""

import io
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from kernel_velocity.compare import isolation
from kernel_velocity.compare.isolation import Journal, Step
from kernel_velocity.errors import KernelVelocityError
from tests.compare.live_comparisons import case, timed

ROOT = Path(__file__).parents[2]

# A comparison without PyTorch: notes what it does, ends as it is told, and says what was noted before.
CHILD = """
import os, sys, signal, time
from pathlib import Path
sys.path.insert(0, {root!r})
from kernel_velocity.compare.isolation import Journal
journal = Journal(Path(os.environ["COMPARE_JOURNAL"]))
died = journal.died("mine", "small")
print("began", died, flush=True)
if died is None:
    {body}
sys.exit(7)
"""


def child(body):
    return [sys.executable, "-c", CHILD.format(root=str(ROOT), body=textwrap.indent(body, "    ").lstrip())]


def run(body):
    err = io.StringIO()
    return isolation.run(child(body), dict(os.environ), err), err.getvalue()


def in_a_step(what, **more):
    given = {"implementation": "mine", "case": "small"} | more
    return f"with journal.running('timed', {', '.join(f'{name}={value!r}' for name, value in given.items())}): {what}"


@pytest.mark.parametrize(
    ("ends", "how"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "died of SIGSEGV (Segmentation fault)"),
        ("os.abort()", "died of SIGABRT (Aborted)"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "died of SIGKILL (out of memory?)"),
        ("os._exit(3)", "was ended by it with exit status 3"),
        ("os._exit(0)", "was ended by it with exit status 0"),
    ],
)
def test_whoever_ends_the_process_is_named_and_the_next_process_knows(ends, how, capfd):
    assert run(in_a_step(ends)) == (7, f"mine on small: its process {how} while it was timed\n")
    assert capfd.readouterr().out.splitlines() == ["began None", f"began its process {how} while it was timed"]


def test_who_gave_up_said_why(capfd):
    status, err = run("journal.give_up('timed', 'mine', 'small', 'lost the device (CUDA error)')")
    assert (status, err) == (7, "mine on small: its process lost the device (CUDA error) while it was timed\n")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("pass", 7),
        (in_a_step("sys.exit(2)"), 2),  # an error that Python cleaned up after
        (in_a_step("os.kill(os.getpid(), signal.SIGTERM)"), 128 + signal.SIGTERM),
        (in_a_step("os._exit(130)"), 130),
    ],
    ids=["end", "error", "asked to end", "interrupted"],
)
def test_what_ends_otherwise_is_not_started_again(body, status, capfd):
    assert run(body) == (status, "")
    assert capfd.readouterr().out == "began None\n"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("os.abort()", r"the comparison's process died of SIGABRT \(Aborted\), while no implementation ran"),
        (
            in_a_step("os.abort()", implementation=None),
            r"the problem itself on small: its process died of SIGABRT \(Aborted\) while timed",
        ),
    ],
)
def test_a_death_that_is_nobodys_is_an_error(body, said):
    with pytest.raises(KernelVelocityError, match=said):
        run(body)


def test_who_dies_after_the_report_fails_the_comparison(capfd):
    status, err = run(in_a_step("os.abort()", again=False))
    assert (status, err) == (1, "mine on small: its process died of SIGABRT (Aborted) while it was timed\n")
    assert capfd.readouterr().out == "began None\n"


def test_a_request_to_end_is_passed_on(capfd):
    before = signal.getsignal(signal.SIGTERM)
    ask = "while True: os.kill(os.getppid(), signal.SIGTERM); time.sleep(0.1)"
    assert run(ask) == (128 + signal.SIGTERM, "")
    assert signal.getsignal(signal.SIGTERM) is before


STOPPING = "interrupted: stopping what runs; Ctrl-C again kills it at once\n"
KILLED = "interrupted: what ran did not stop, and was killed; a comparison keeps nothing\n"
CTRL_C = "os.kill(os.getppid(), signal.SIGINT)"


def test_an_interrupted_process_that_ends_is_not_killed(capfd):
    asked = f"signal.signal(signal.SIGINT, lambda *_: sys.exit(130)); {CTRL_C}; time.sleep(60)"
    assert run(in_a_step(asked)) == (130, STOPPING)


def test_a_solution_that_loops_for_ever_is_said_to_be_stopped_and_is_killed_soon(capfd):
    began = time.monotonic()
    assert run(in_a_step(f"signal.signal(signal.SIGINT, signal.SIG_IGN); {CTRL_C}; time.sleep(60)")) == (
        130,
        STOPPING + KILLED,
    )
    assert time.monotonic() - began < 8  # twice one second, and the start of a Python


def test_a_second_interruption_kills_at_once(monkeypatch, capfd):
    monkeypatch.setattr(isolation, "PATIENCE", 50)
    began = time.monotonic()
    twice = f"signal.signal(signal.SIGINT, signal.SIG_IGN); {CTRL_C}; time.sleep(0.5); {CTRL_C}; time.sleep(60)"
    assert run(in_a_step(twice)) == (130, STOPPING + KILLED)
    assert time.monotonic() - began < 30


def test_the_journal_takes_over_what_is_finished(tmp_path):
    compared = case("float32-1M", 1_000_000, timed("eager", 1e-3))
    journal = Journal(tmp_path).part(1)
    assert journal.kept("float32-1M") is None
    journal.keep(compared)
    assert Journal(tmp_path, 1).kept("float32-1M") == compared
    assert Journal(tmp_path, 0).kept("float32-1M") is None  # another problem's case of that name
    odd = timed("eager", 1e-3, notes=(lambda: None,))
    journal.keep(case("a/b\n" * 200, 1, odd))  # cannot be written: measured again
    assert journal.kept("a/b\n" * 200) is None


def test_deaths_are_of_a_case_or_of_all(tmp_path):
    journal = Journal(tmp_path)
    for step in (
        Step(doing="timed", implementation="mine", problem=1, case="small"),
        Step(doing="loaded", implementation="other"),
    ):
        with pytest.raises(RuntimeError), journal.running("x", "y"):
            raise RuntimeError
        assert journal.step() is None  # raising is no death
        (tmp_path / "step.json").write_text("{}")
        journal.bury(step, "died")
    assert journal.part(1).died("mine", "small") == "its process died while it was timed"
    assert journal.part(1).died("mine", "large") is None
    assert journal.part(0).died("mine", "small") is None
    assert journal.part(3).died("other", "any") == journal.died("other") == "its process died while it was loaded"


PROBLEM = """
import torch
from problem import Problem

class Twice(Problem):
    parameters = [
        {"name": "x", "type": "float", "pointer": True, "const": True},
        {"name": "out", "type": "float", "pointer": True, "const": False},
        {"name": "n", "type": "size_t", "pointer": False, "const": False},
    ]
    def __init__(self):
        super().__init__("twice")
    def reference_solution(self, x):
        return x * 2
    def generate_test_cases(self):
        print("the problem speaks")
        return [self.case(n) for n in (10, 20)]
    def case(self, n):
        return {"name": f"n{n}", "dims": (n,), "create_inputs": lambda: (torch.arange(float(n)),)}
    def verify_result(self, expected, actual):
        return bool(torch.equal(expected, actual)), {}
"""
CRASHES = """
import ctypes
def solution(x, out, n):
    if n == 20:
        ctypes.string_at(0)
    out.copy_(x * 2)
"""
SPEAKS = """
import os, torch
torch.set_default_dtype(torch.float64)
def solution(x, out, n):
    print("the solution speaks")
    os.write(1, b"and so does machine code\\n")
    out.copy_(x * 2)
"""
DIES_AT_ONCE = "import os\nos.abort()\n"


@pytest.mark.slow
def test_a_crash_costs_the_others_nothing_and_what_they_print_spoils_no_document(tmp_path):
    files = {"twice.py": PROBLEM, "crashes.py": CRASHES, "speaks.py": SPEAKS, "aborts.py": DIES_AT_ONCE}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    solutions = [f"--solution={tmp_path / name}" for name in ("crashes.py", "speaks.py", "aborts.py")]
    quick = [
        "--rounds=2",
        "--iters=3",
        "--device=cpu",
        "--no-roofline",
        "--implementations=eager,crashes,speaks,aborts",
    ]
    command = [
        sys.executable,
        "-m",
        "kernel_velocity",
        "compare",
        str(tmp_path / "twice.py"),
        *solutions,
        *quick,
        "--json=-",
    ]
    own_lock = {**os.environ, "ASV_CONF_DIR": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=own_lock, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    status = {(each["name"], each["implementation"]): (each["status"], each["reason"]) for each in found["results"]}
    crashed = "its process died of SIGSEGV (Segmentation fault) while it was verified before timing"
    aborted = "its process died of SIGABRT (Aborted) while it was loaded"
    assert status == {
        **{(name, who): ("right", None) for name in ("n10", "n20") for who in ("eager", "speaks")},
        **{(name, "aborts"): ("FAILED", aborted) for name in ("n10", "n20")},
        ("n10", "crashes"): ("right", None),
        ("n20", "crashes"): ("FAILED", crashed),
    }
    for said in ("the problem speaks", "the solution speaks", "and so does machine code", f"crashes on n20: {crashed}"):
        assert said in done.stderr
    assert any("speaks changes PyTorch's default dtype from float32 to float64" in each for each in found["warnings"])
