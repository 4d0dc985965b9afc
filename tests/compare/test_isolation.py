"""A comparison whose process an implementation ends: it is named, and the others keep their results."""

import io
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from kernel_velocity import lock
from kernel_velocity.compare import apart, isolation
from kernel_velocity.compare.isolation import JournalStep, ProcessJournal
from kernel_velocity.errors import KernelVelocityError
from tests.public_problems import TENSARA

ROOT = Path(__file__).parents[2]

# A comparison without PyTorch: notes what it does, ends as it should, and says what was noted before.
CHILD = """
import os, sys, signal, subprocess, time
from pathlib import Path
from kernel_velocity.compare import isolation
journal, report = isolation.of_parent()

def work():
    died = journal.death("mine", "small")
    print("began", died, os.environ.get("KV_LOCK_HOLDER"), file=report, flush=True)
    if died is None:
        {body}
    return 7

sys.exit(report.until_end(work))
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a child with a body, and return the exit status and the text on standard error."""
    monkeypatch.delenv(lock.HOLDER, raising=False)
    monkeypatch.setenv(lock.LOCK_FOLDER, str(tmp_path))

    def run(body):
        err = io.StringIO()
        text = CHILD.format(body=textwrap.indent(body, "        ").lstrip())
        environ = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
        return isolation.run([sys.executable, "-c", text], environ, tmp_path, sys.stdout, err), err.getvalue()

    return run


def in_a_step(what, **more):
    fields = {"implementation": "mine", "case": "small"} | more
    return f"with journal.running('timed', {', '.join(f'{name}={value!r}' for name, value in fields.items())}): {what}"


@pytest.mark.parametrize(
    ("ends", "how"),
    [
        (in_a_step("os.kill(os.getpid(), signal.SIGSEGV)"), "died of SIGSEGV (Segmentation fault)"),
        (in_a_step("os.kill(os.getpid(), signal.SIGKILL)"), "died of SIGKILL (out of memory?)"),
        ("journal.give_up('timed', 'mine', 'small', 'lost the device (CUDA error)')", "lost the device (CUDA error)"),
        # What a solution can do to pass for a comparison that ended well
        (
            in_a_step("[path.unlink() for path in Path(os.environ['COMPARE_JOURNAL']).iterdir()]; os._exit(0)"),
            "exited with status 0",
        ),
        (
            in_a_step(
                "Path(os.environ['COMPARE_JOURNAL'], 'report.json').write_text("
                '\'0\' * 64 + \'\\n{"text": "mine is fast", "status": 0}\'); os._exit(0)'
            ),
            "exited with status 0",
        ),
    ],
    ids=["crash", "kill", "lost", "removed", "forged"],
)
def test_death_in_an_implementation_is_reported_and_recorded(run, ends, how, capfd):
    assert run(ends) == (7, f"mine on small: its process {how} while it was timed\n")
    holder = os.getpid()  # between two processes the lock is held by the first one's parent
    assert capfd.readouterr().out == f"began its process {how} while it was timed {holder}\n"
    assert lock.HOLDER not in os.environ


@pytest.mark.slow
def test_step_that_does_not_end_is_killed_and_named(run, monkeypatch, capfd):
    monkeypatch.setattr(isolation, "STEP_SECONDS", 1.5)
    how = "took more than 1.5 s, the limit, and was killed"
    assert run(in_a_step("time.sleep(600)")) == (7, f"mine on small: its process {how} while it was timed\n")
    with pytest.raises(KernelVelocityError, match=f"the problem itself on small: its process {how} while timed"):
        run(in_a_step("time.sleep(600)", implementation=None))
    steps = "; ".join(
        ["time.sleep(.75)", "journal.steps.write(b'null\\n')"] * 3
    )  # none takes as long, nor what follows
    assert run(f"{steps}; time.sleep(3.2)") == (7, "")
    capfd.readouterr()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("pass", 7),
        (in_a_step("sys.exit(2)"), 2),  # an error that Python cleaned up after
        (in_a_step("os.kill(os.getpid(), signal.SIGTERM)"), 128 + signal.SIGTERM),
        (in_a_step("os._exit(130)"), 130),
        ("while True: os.kill(os.getppid(), signal.SIGTERM); time.sleep(0.1)", 128 + signal.SIGTERM),
    ],
    ids=["end", "error", "asked to end", "interrupted", "passed on"],
)
def test_other_ends_start_no_second_process(run, body, status, capfd):
    before = signal.getsignal(signal.SIGTERM)
    assert run(body) == (status, "")
    assert capfd.readouterr().out == ("began None None\n" if status in (2, 7) else "")
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("os.abort()", r"the measuring process died of SIGABRT \(Aborted\) while no implementation ran"),
        (
            in_a_step("os.abort()", implementation=None),
            r"the problem itself on small: its process died of SIGABRT \(Aborted\) while timed",
        ),
    ],
)
def test_death_outside_implementations_is_an_error(run, body, words):
    with pytest.raises(KernelVelocityError, match=words):
        run(body)


def test_end_after_the_report_does_not_change_it(run, capfd):
    ends_well = "import atexit; atexit.register(os._exit, 0)"
    assert run(ends_well) == (7, "the measuring process exited with status 0 after its report\n")
    assert capfd.readouterr().out == "began None None\n"


@pytest.mark.parametrize(
    "leaves",
    [
        "import threading; threading.Thread(target=time.sleep, args=[600]).start()",
        "import atexit; atexit.register(time.sleep, 600)",
    ],
    ids=["thread", "handler"],
)
def test_process_that_goes_on_after_its_report_is_killed(run, leaves, capfd):
    late = "left running after the comparison, and killed: the measuring process, 2 s after its report\n"
    assert run(leaves) == (7, late)
    assert capfd.readouterr().out == "began None None\n"


def test_error_ends_the_process_without_waiting_for_handlers(run):
    body = "import atexit; atexit.register(time.sleep, 600); raise ValueError('wrong')"
    status, err = run(body)
    assert status == 2 and "killed" not in err and "after its report" not in err


LEAVES = """
os.fork() or time.sleep(600)
subprocess.Popen(["sleep", "600"], env={})
os.fork() or (subprocess.Popen(["sleep", "601"], env={}, start_new_session=True), os._exit(0))
"""


def test_what_is_left_running_is_killed_and_named(run):
    status, err = run(LEAVES)
    assert status == 7
    left = re.findall(r"^left running after the comparison, and killed: process (\d+) \((.*)\)$", err, re.MULTILINE)
    assert len(left) == 3 and {"sleep 600", "sleep 601"} < {command for _, command in left}
    assert not any(Path("/proc", pid).exists() and "Z" not in Path("/proc", pid, "stat").read_text() for pid, _ in left)


def test_what_a_crash_leaves_is_killed_and_named(run, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "temporary").mkdir()
    folder = "from kernel_velocity import files; print(files.lasting_folder('kv-test-'), file=sys.stderr)\n"
    other = "noisy = subprocess.Popen(['sleep', '602'])\njournal.note_started('other', [noisy.pid])\n"
    status, err = run(folder + other + in_a_step(f"\n{textwrap.indent(LEAVES, '    ')}    os.abort()"))
    left = re.findall(r"^(\w+) left running, and killed: process \d+ \((.*)\)$", err, re.MULTILINE)
    assert status == 7 and {("mine", "sleep 600"), ("mine", "sleep 601"), ("other", "sleep 602")} < set(left)
    assert len(left) == 4 and "mine on small: its process died of SIGABRT" in err
    (text,) = re.findall("(?m)^.*kv-test-.*$", capfd.readouterr().err)
    assert Path(text).is_relative_to(tmp_path) and list((tmp_path / "temporary").iterdir()) == []


def test_death_after_the_report_fails_the_comparison(run, capfd):
    status, err = run(in_a_step("os.abort()", again=False))
    assert (status, err) == (1, "mine on small: its process died of SIGABRT (Aborted) while it was timed\n")
    assert capfd.readouterr().out == "began None None\n"


STOPPING = "interrupted: stopping; Ctrl-C again kills the measuring process\n"
KILLED = "interrupted: the measuring process was killed; nothing was saved\n"
CTRL_C = "os.kill(os.getppid(), signal.SIGINT)"
DEAF = f"signal.signal(signal.SIGINT, signal.SIG_IGN); {CTRL_C}; "


@pytest.mark.parametrize(
    ("body", "patience", "printed"),
    [
        (f"{CTRL_C}; sys.exit(130)", 50, STOPPING),
        (f"{DEAF}time.sleep(60)", 0.2, STOPPING + KILLED),
        (f"{DEAF}time.sleep(0.5); {CTRL_C}; time.sleep(60)", 50, STOPPING + KILLED),
    ],
    ids=["ends", "endless loop", "twice"],
)
@pytest.mark.usefixtures("capfd")
def test_interruption_ends_the_measuring_process(run, monkeypatch, body, patience, printed):
    monkeypatch.setattr(isolation, "INTERRUPT_SECONDS", patience)
    assert run(in_a_step(body)) == (130, printed)


def test_journal_deaths_are_of_a_case_or_of_all(tmp_path):
    journal = ProcessJournal(tmp_path)
    with pytest.raises(RuntimeError), journal.running("x", "y"):
        raise RuntimeError
    assert journal.step() is None  # raising is no death
    for step in (
        JournalStep(doing="timed", implementation="mine", problem=1, case="small"),
        JournalStep(doing="loaded", implementation="other"),
    ):
        (tmp_path / "step.json").write_text("{}")
        journal.record_death(step, "died")
    assert journal.part(1).death("mine", "small") == "its process died while it was timed"
    assert journal.part(1).death("mine", "large") is None
    assert journal.part(0).death("mine", "small") is None
    assert journal.part(3).death("other", "any") == journal.death("other") == "its process died while it was loaded"


class Ends:
    def __reduce__(self):
        return os._exit, (3,)


def test_what_a_process_hands_over_runs_no_code():
    for refused in (Ends(), {"details": [Ends()]}, os.getcwd):
        with pytest.raises(pickle.UnpicklingError, match="posix"):
            apart._read(pickle.dumps(refused))


SOLUTIONS = {
    "crashes": """
import ctypes
def solution(x, out, n, m):
    if n == 24:
        ctypes.string_at(0)
    out.copy_(x.sum(1))
""",
    "speaks": """
import os, torch
torch.set_default_dtype(torch.float64)
def solution(x, out, n, m):
    print("the solution speaks")
    os.write(1, b"and so does machine code\\n")
    out.copy_(x.sum(1))
""",
    "aborts": "import os\nos.abort()\n",
    "meddles": """
import ctypes, os, signal, sys, torch
[problem] = [module for name, module in sys.modules.items() if name.startswith("kv_sums_")]
def solution(x, out, n, m):
    out.copy_(x.sum(1))
    os.sched_setaffinity(0, {0})
    os.chdir("/")
    torch.set_flush_denormal(True)
    torch.backends.mkldnn.set_flags(False)
    torch.meddled = problem.meddled = True
    problem.row_sums.verify_result = lambda *_: (True, {})
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    torch.set_num_threads(1)
    os.nice(1)
    ctypes.CDLL(None).mallopt(-4, 0)
""",
    "witness": """
import os, signal, sys, torch
[problem] = [module for name, module in sys.modules.items() if name.startswith("kv_sums_")]
def solution(x, out, n, m):
    assert os.sched_getaffinity(0) == os.sched_getaffinity(os.getppid()), "cores"
    assert os.getcwd() == os.environ["PWD"], "folder"
    assert float(torch.tensor([1e-40]) / 2) > 0, "small numbers"
    assert torch.backends.mkldnn.enabled, "oneDNN"
    assert not hasattr(torch, "meddled") and not hasattr(problem, "meddled"), "globals"
    assert problem.row_sums.verify_result.__name__ == "verify_result", "the problem's class"
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL, "a handler"
    assert torch.get_num_threads() == 2, "threads"
    assert os.nice(0) == os.getpriority(os.PRIO_PROCESS, os.getppid()), "priority"
    out.copy_(x.sum(1))
""",
}


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Return the process that compared SOLUTIONS, and its JSON."""
    folder = tmp_path_factory.mktemp("compared")
    problem = f"{TENSARA['no_dims']}\nprint('the problem speaks')\n"
    problem = problem.replace("{} if right", "{'sums': actual_output} if right")  # details may be of any kind
    for name, text in {"sums": problem, **SOLUTIONS}.items():
        (folder / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "kernel_velocity", "compare", str(folder / "sums.py"), "--json=-"]
    command += [f"--solution={folder / name}.py" for name in SOLUTIONS]
    command += ["--rounds=2", "--iters=3", "--device=cpu", "--no-roofline", "--threads=2"]
    command += [f"--implementations=eager,{','.join(SOLUTIONS)}"]
    own_lock = {**os.environ, "ASV_CONF_DIR": str(folder), "PYTHONPATH": str(ROOT / "tools"), "PWD": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=own_lock, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    return done, json.loads(done.stdout)


@pytest.mark.slow
def test_crash_fails_one_implementation_and_output_stays_json(compared):
    done, document = compared
    status = {(row["name"], row["implementation"]): (row["status"], row["reason"]) for row in document["results"]}
    crashed = "its process died of SIGSEGV (Segmentation fault) while it was verified before timing"
    aborted = "its process died of SIGABRT (Aborted) while it was loaded"
    assert {key: value for key, value in status.items() if key[1] not in ("meddles", "witness")} == {
        **{(name, who): ("right", None) for name in ("rows=8", "rows=24") for who in ("eager", "speaks")},
        **{(name, "aborts"): ("FAILED", aborted) for name in ("rows=8", "rows=24")},
        ("rows=8", "crashes"): ("right", None),
        ("rows=24", "crashes"): ("FAILED", crashed),
    }
    for line in (
        "the problem speaks",
        "the solution speaks",
        "and so does machine code",
        f"crashes on rows=24: {crashed}",
    ):
        assert line in done.stderr
    change = "speaks changes PyTorch's default dtype from float32 to float64"
    assert any(change in warning for warning in document["warnings"])


@pytest.mark.slow
def test_no_implementation_sees_what_another_changed(compared):
    _, document = compared
    reasons = {row["implementation"]: row["reason"] for row in document["results"]}
    assert (reasons["meddles"], reasons["witness"]) == ("it replaced row_sums.row_sums.verify_result", None)
    changes = " ".join(warning for warning in document["warnings"] if "meddles changes" in warning)
    for change in ("the process's folder", "the process's cores", "PyTorch's oneDNN", "floating-point control"):
        assert change in changes
