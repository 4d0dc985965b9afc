"""`kv compare`: options, exit status, what is written where."""

import io
import json
import os
import subprocess
import sys
import types
from contextlib import nullcontext
from pathlib import Path

import pytest

from kernel_velocity import lock
from kernel_velocity.__main__ import main
from kernel_velocity.compare import command
from kernel_velocity.compare.command import merged, status
from kernel_velocity.compare.result import Timed
from kernel_velocity.errors import UsageError
from kernel_velocity.harness import reported
from kernel_velocity.roofline.model import Level, Roofs
from tests.compare.live_comparisons import Doubling, case, comparison, returning, roofline, timed, writing
from tests.suite import SUITE

torch = pytest.importorskip("torch", reason="implementations compute with torch tensors")

ROOT = Path(__file__).parents[2]
ROOFS = Roofs(
    levels=(Level(name="L2", size=1 << 20, bandwidth=1e15), Level(name="DRAM", size=None, bandwidth=1e14)),
    peaks={"float32": 1e15},
)
QUICK = ("--rounds", "2", "--iters", "3", "--device", "cpu")


@pytest.fixture
def planted(monkeypatch, tmp_path):
    """Plant a problem with implementations, and ceilings; return what was asked of them."""
    asked = types.SimpleNamespace(loaded=[], measured=[], kept=ROOFS, problem=Doubling(), implementations={})
    asked.implementations |= {"eager": returning(lambda x: x * 2), "native": writing()}

    def load(what, device, solutions=(), dtype="float32", around=nullcontext):
        if what == "gone":
            raise UsageError("no problem 'gone'")
        asked.loaded.append((what, device, list(solutions), dtype))
        asked.problem.device = device
        return types.SimpleNamespace(problem=asked.problem, implementations=asked.implementations)

    def keep(root, document):
        asked.measured.append(document)
        asked.kept = ROOFS

    monkeypatch.setenv("ASV_CONF_DIR", str(tmp_path))  # whose lock is taken
    monkeypatch.delenv(lock.HOLDER, raising=False)
    monkeypatch.setattr(command.peaks, "latest_roofs", lambda root, device, name: asked.kept)
    monkeypatch.setattr(command.peaks, "measure_document", lambda device: device)
    monkeypatch.setattr(command.ceilings, "keep", keep)

    for name, functions in {
        "problems.load": {"load": load},
        "formats": {
            "as_json": lambda found: json.dumps([each.case for each in found.compared]) + "\n",
            "as_markdown": lambda found: "case\n",
            "as_html": lambda found, roofs: f"page, DRAM {roofs.levels[-1].bandwidth:g}\n",
        },
    }.items():
        module = types.ModuleType(f"kernel_velocity.compare.{name}")
        vars(module).update(functions)
        monkeypatch.setitem(sys.modules, f"kernel_velocity.compare.{name}", module)
    return asked


def run(*argv):
    out, err = io.StringIO(), io.StringIO()
    return main(["compare", *argv], out, err), out.getvalue(), err.getvalue()


def test_a_comparison_from_start_to_end(planted):
    code, out, err = run("doubling", *QUICK)
    assert (code, err) == (0, "")
    for said in (
        "system: device",
        "doubling on cpu",
        "float32-small",
        "native vs eager",
        "efficiency",
        "4 of 4 outputs",
    ):
        assert said in out
    assert planted.loaded == [("doubling", "cpu", [], "float32")] and planted.measured == []


def test_wrong_is_status_one_and_named(planted):
    planted.implementations["native"] = writing(lambda out: out.__setitem__(-1, 7))
    code, out, _ = run("doubling", *QUICK)
    assert code == 1
    assert "FAIL: doubling float32-small native: out is wrong" in out and "(999,)" in out


def test_an_interruption_says_that_nothing_is_kept(planted):
    def interrupt(problem, case, inputs):
        raise KeyboardInterrupt

    planted.implementations["native"] = interrupt
    assert run("doubling", *QUICK) == (130, "", "interrupted: a comparison keeps nothing\n")


def test_nothing_to_measure_is_status_22(planted):
    def refuse(problem, case, inputs):
        raise NotImplementedError("no GPU")

    planted.implementations.clear()
    planted.implementations["triton"] = refuse
    code, out, _ = run("doubling", *QUICK)
    assert code == 22 and "n/a: doubling float32-small triton: no GPU" in out


def test_sizes_implementations_and_reference(planted):
    code, out, _ = run(
        "doubling", "--sizes", "small", "--implementations", "nat,eager", "--reference", "native", *QUICK
    )
    assert code == 0
    assert "eager vs native" in out and "float32-large" not in out


def test_a_users_files_are_handed_on(planted):
    run("mine.py", "--solution", "a.so", "--solution", "b.py", "--dtype", "float32", *QUICK)
    ((what, _, solutions, dtype),) = planted.loaded
    assert (what, [str(each) for each in solutions], dtype) == ("mine.py", ["a.so", "b.py"], "float32")


def test_all_means_every_kernel(planted):
    code, _, _ = run("all", "add_mul_exp", "--sizes", "small", *QUICK)
    assert code == 0
    assert [what for what, *_ in planted.loaded] == [problem.name for problem in SUITE.problems()]


def test_ceilings_are_measured_where_none_are_kept(planted):
    planted.kept = None
    _, out, err = run("doubling", *QUICK)
    assert planted.measured == ["cpu"] and "measuring them first" in err and "efficiency" in out
    run("doubling", *QUICK)
    assert planted.measured == ["cpu"]  # they are kept
    planted.kept = None
    _, _, err = run("doubling", *QUICK, "--quiet")
    assert err == ""


def test_nothing_is_measured_beside_another_run(planted, tmp_path, monkeypatch):
    with lock.held(tmp_path):
        monkeypatch.delenv(lock.HOLDER)
        code, out, err = run("doubling", *QUICK, "--quiet")
    assert (code, out, planted.loaded, planted.measured) == (2, "", [], [])
    assert err.startswith("error: another run is measuring in this clone") and len(err.splitlines()) == 1
    assert run("doubling", *QUICK)[0] == 0


def test_without_a_roofline_nothing_is_asked_of_ceilings(planted):
    planted.kept = None
    _, out, err = run("doubling", *QUICK, "--no-roofline")
    assert planted.measured == [] and err == "" and "efficiency" not in out


def test_stats_and_oneline(planted):
    _, out, _ = run("doubling", *QUICK, "--stats")
    assert "std" in out and "system: device" in out
    _, out, _ = run("doubling", "--sizes", "small", *QUICK, "--oneline")
    lines = out.splitlines()
    assert [line.split(":")[0] for line in lines] == [f"doubling float32-small {name}" for name in ("eager", "native")]
    assert all("us (RSD " in line for line in lines)


def test_files_are_written_and_standard_output_carries_one_format(planted, tmp_path):
    code, out, err = run("doubling", *QUICK, "--json", "-", "--markdown", str(tmp_path / "a.md"))
    assert code == 0
    assert json.loads(out) == ["float32-small", "float32-large"]
    assert "doubling on cpu" in err
    assert (tmp_path / "a.md").read_text() == "case\n"
    run("doubling", *QUICK, "--html", str(tmp_path / "a.html"))
    assert (tmp_path / "a.html").read_text() == "page, DRAM 1e+14\n"


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("gone",), "no problem 'gone'"),
        (("doubling", "--sizes", "huge"), "--sizes 'huge': nothing of doubling on cpu matches"),
        (("doubling", "--implementations", "triton"), "--implementations 'triton': nothing of doubling"),
        (("doubling", "--reference", "fast"), "--reference 'fast': not among the implementations compared"),
        (("doubling", "--dtype", "float16"), "--dtype float16: doubling on cpu: no case of that dtype; of float32"),
        (("doubling", "--rule", "soon"), "--rule soon: no stopping rule"),
        (("doubling", "--preset", "mine"), "--preset 'mine'"),
        (("doubling", "--rounds", "0"), "--rounds 0"),
        (("doubling", "--rounds", "many"), "invalid int value"),
        (("doubling", "--threads", "0"), "KV_THREADS='0'"),
        (("doubling", "--tolerance=-1"), "--tolerance"),
        (("doubling", "--tolerance", "much"), "--tolerance"),
        (("doubling", "--device", "tpu"), "--device"),
        (("doubling", "--json", "-", "--markdown", "-"), "standard output"),
        (("doubling", "--json", "nowhere/to/a.json"), "--json nowhere/to/a.json"),
        (("doubling", "--markdown", "."), "--markdown ."),
        ((), "PROBLEM"),
    ],
)
def test_mistakes_are_one_line_before_anything_is_measured(planted, argv, said):
    code, out, err = run(*argv, *([] if "--device" in argv else ["--device", "cpu"]), "--quiet")
    assert (code, out) == (2, "")
    assert err.startswith("error: ") and err.count("\n") == 1 and said in err
    assert planted.problem.made == [] and planted.measured == []


def test_a_pipe_or_a_device_is_not_replaced(planted, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    code, out, err = run("doubling", "--device", "cpu", "--json", str(pipe))
    assert (code, out) == (2, "")
    assert err.startswith(f"error: --json {pipe}: is there and no plain file") and pipe.is_fifo()
    assert planted.measured == []


@pytest.mark.parametrize("name", ["json", "markdown", "html", "gbench", "nvbench", "profile"])
def test_a_place_that_takes_no_file_is_refused_before_anything_is_measured(planted, name):
    code, out, err = run("doubling", *QUICK, f"--{name}", "/proc/new")  # there nobody makes a file, root neither
    assert (code, out) == (2, "") and planted.problem.made == []
    assert err.startswith(f"error: --{name} /proc/new: cannot be written (") and err.count("\n") == 1


def test_an_interrupted_comparison_leaves_its_files_as_they_were(planted, tmp_path):
    def interrupt(problem, case, inputs):
        raise KeyboardInterrupt

    planted.implementations["native"] = interrupt
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "old.json").write_text("old")
    written = [f"--json={folder / 'old.json'}", f"--markdown={folder / 'new.md'}", f"--profile={folder / 'new'}"]
    assert run("doubling", *QUICK, *written)[0] == 130
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"old.json": "old"}


def test_a_gpu_that_is_not_there(planted, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    code, out, err = run("doubling", "--device", "cuda")
    assert (code, out) == (2, "")
    assert "--device cuda: PyTorch sees no CUDA device" in err and planted.measured == []


def test_sizes_of_every_problem_are_looked_at_before_the_first_is_measured(planted, monkeypatch):
    monkeypatch.setattr(reported, "free_memory", lambda device: 1000)
    code, out, err = run("doubling", *QUICK)
    assert (code, out) == (2, "") and "needs about" in err
    assert planted.problem.made == []


def test_progress_is_for_terminals(planted):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    err = Terminal()
    assert main(["compare", "doubling", *QUICK], io.StringIO(), err) == 0
    assert "round 2/2" in err.getvalue() and err.getvalue().endswith("\r\x1b[K")
    quiet = Terminal()
    main(["compare", "doubling", *QUICK, "--quiet"], io.StringIO(), quiet)
    assert quiet.getvalue() == ""


@pytest.mark.parametrize(
    ("timings", "expected"),
    [
        ([timed("a", 1e-3), Timed(implementation="b", missing="no GPU")], 0),
        ([timed("a", 1e-3), Timed(implementation="b", failed="wrong")], 1),
        ([Timed(implementation="b", missing="no GPU")], 22),
    ],
)
def test_status(timings, expected):
    assert status(comparison(case("float32-1M", 10**6, *timings))) == expected


def test_several_problems_are_one_comparison():
    one = comparison(case("a-1", 1, timed("x", 1.0)), warnings=("w",))
    other = comparison(case("b-1", 1, timed("x", 1.0, roofline=roofline())), warnings=("w", "v"))
    found = merged([one, other])
    assert [each.case for each in found.compared] == ["a-1", "b-1"]
    assert found.warnings == ("w", "v") and found.took == pytest.approx(one.took + other.took)


def test_a_problem_without_the_sizes_asked_for_is_left_out(planted, monkeypatch):
    other = Doubling()
    other.name, other.sizes = "other", {"odd": 3}
    load = sys.modules["kernel_velocity.compare.problems.load"].load

    def either(what, *rest):
        found = load(what, *rest)
        other.device = "cpu"
        return (
            found if what == "doubling" else types.SimpleNamespace(problem=other, implementations=found.implementations)
        )

    monkeypatch.setattr(sys.modules["kernel_velocity.compare.problems.load"], "load", either)
    _, out, _ = run("doubling", "other", "--sizes", "small", *QUICK)
    assert "doubling on cpu" in out and "other on cpu" not in out
    _, out, _ = run("doubling", "other", "--sizes", "small,odd", *QUICK)
    assert "doubling on cpu" in out and "other on cpu" in out


def test_the_command_as_a_user_types_it(tmp_path):
    argv = ["compare", "matmul", "--sizes", "float32-128x128x128", "--implementations", "eager,native", "--no-roofline"]
    argv += ["--rounds", "3", "--iters", "5", "--device", "cpu", "--json", str(tmp_path / "a.json")]
    done = subprocess.run(
        [sys.executable, "-m", "tools", *argv], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "allocator keeps freed memory" in done.stdout  # it has started itself anew
    assert "native vs eager" in done.stdout and "2 of 2 outputs right" in done.stdout
    names = {row["implementation"] for row in json.loads((tmp_path / "a.json").read_text())["results"]}
    assert names == {"eager", "native"}


def test_a_table_is_as_wide_as_the_terminal_that_it_is_printed_on(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

        def fileno(self):
            return 7

    asked = []
    monkeypatch.setattr(os, "get_terminal_size", lambda number: asked.append(number) or os.terminal_size((91, 24)))
    monkeypatch.delenv("COLUMNS", raising=False)
    assert (command._width(Terminal()), asked) == (91, [7])
    monkeypatch.setenv("COLUMNS", "77")
    assert command._width(Terminal()) == 77
    assert command._width(io.StringIO()) == command.WIDE
