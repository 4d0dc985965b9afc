"""A run of `kv track`: recovery, builds, what it measures, ceilings, and the records that it reads."""

import io
import re
import subprocess
import time
from types import SimpleNamespace

import pytest

from kernel_velocity.ab import session as ab_session
from kernel_velocity.engine import telemetry
from kernel_velocity.machine.device_figures import UNITS
from kernel_velocity.roofline import ceilings
from kernel_velocity.runner import select, session
from kernel_velocity.runner.asv import Ended
from kernel_velocity.runner.session import Session
from tests.ab.simulated_machine import SERIES, a_round
from tests.machine.test_device_figures import a_machine, document
from tests.roofline.test_ceilings import record

COMMIT = "c0ffee00" + "0" * 32


class OldBuild:
    """An environment with one commit, built by `toolchain`. None: it does not build."""

    name = "env"
    toolchain = "g++ 9"

    def create(self):
        pass

    def leave_cuda(self):
        pass

    def forget_changed(self, commits):
        return []

    def other_toolchain(self, commit):
        return self.toolchain

    def is_built(self, commit):
        return self.toolchain is not None

    def build(self, repo, commit):
        raise session.CommitNotBuilt(commit, "no", "log")


@pytest.fixture
def environment():
    return OldBuild()


@pytest.fixture
def work(tmp_path, monkeypatch, environment):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "device.py").touch()
    conf = SimpleNamespace(results_dir=str(tmp_path / "results"), benchmark_dir=str(tmp_path / "benchmarks"))
    monkeypatch.setattr(session, "settings", lambda: conf)
    monkeypatch.setattr(session, "environment_of", lambda conf: environment)
    monkeypatch.setattr(session, "get_repo", lambda conf: None)
    series = SimpleNamespace(tracked=(), series=(SERIES,), versions={})
    return Session(root=tmp_path, commits=(COMMIT,), series=series, rounds=8, machine="box")


def test_recover_removes_only_folders_of_runs(work, tmp_path):
    results = tmp_path / "results"
    for name in (ab_session.MACHINE, "kv-sessions", "box", "findings"):
        (results / name).mkdir(parents=True)
        (results / name / "machine.json").write_text("{}")
    out = io.StringIO()
    work.recover(out)
    assert sorted(path.name for path in results.iterdir()) == ["box", "findings"]
    assert out.getvalue().splitlines() == [
        f"{results / name}: left by an interrupted run, removed" for name in ("kv-ab", "kv-sessions")
    ]
    work.recover(out := io.StringIO())
    assert out.getvalue() == ""


@pytest.mark.parametrize(
    ("toolchain", "line"),
    [
        ("g++ 9", "note: c0ffee00 was built with g++ 9; `kv track --again 1` builds it with the compilers of today"),
        (None, "c0ffee00 does not build (`kv track --again 1` tries it again)"),
    ],
)
def test_build_names_the_command_that_builds_again(work, environment, toolchain, line):
    environment.toolchain = toolchain
    work.build(False, out := io.StringIO())
    assert out.getvalue().splitlines() == [line]


class PartlyBuilt(OldBuild):
    """An environment with two builds without CUDA code, of which the second does not compile."""

    def lacks_figures(self, commit):
        return True

    def compile_cuda(self, repo, commit):
        if commit != COMMIT:
            raise session.CommitNotBuilt(commit, "b.cu(3): error: no", "log")


def test_cuda_code_that_does_not_compile_costs_its_figures_alone(work):
    work._environment, work.tracked, work.series.figures = PartlyBuilt(), (COMMIT, "b" * 40), ("registers",)
    assert work._compile_cuda(out := io.StringIO()) == ("b" * 40,)
    assert re.fullmatch(r"CUDA code of c0ffee00, for its figures: compiled in 0\.\d s\n", out.getvalue())
    (line,) = work.failed_builds.values()
    assert line == "its CUDA code was not compiled: commit bbbbbbbb does not build: b.cu(3): error: no (log: log)"


def test_commit_without_figures_of_cuda_code_has_its_errors(work, monkeypatch):
    ran, other = [], "b" * 40
    work.commits = (COMMIT, other)
    work.series.tracked, work.series.errors = ("error", "registers"), ("error",)
    for name, result in (("is_readable", True), ("is_measured", True), ("_failure_counts", {}), ("_ingest", None)):
        monkeypatch.setattr(Session, name, lambda *_, result=result: result)
    monkeypatch.setattr(select, "is_tracked", lambda *_, **__: False)
    monkeypatch.setattr(Session, "_compile_cuda", lambda self, out: (other,))
    monkeypatch.setattr(Session, "_track", lambda self, commit, series: ran.append((commit, series)))
    monkeypatch.setattr(Session, "_run", lambda self, commits, options, *_: ran.append((commits, options[-1])))
    work.measure(False, io.StringIO())
    assert ran == [((COMMIT,), "just-discover"), (COMMIT, ("error", "registers")), (other, ("error",))]


@pytest.fixture
def happenings(work, monkeypatch):
    """Return a function that has a session measure two series, of which PyTorch has one to compile: what it does."""
    series = (SERIES, (SERIES[0], ("compile", SERIES[1][1])))
    kernel, case = SERIES[0].partition(".")[0], SERIES[1][1]

    def happen(**how):
        events = []
        work.series.series, work.series.figures, work.series.errors = series, (), ()
        answers = {"is_readable": True, "is_measured": False, "_resumable_rounds": 0, "_ingest": None}
        for name, answer in answers.items():
            monkeypatch.setattr(Session, name, lambda *_, answer=answer: answer)
        monkeypatch.setattr(session.packages, "lacking", lambda several: several[1:])
        monkeypatch.setattr(session, "run_measuring", lambda module, argv, on_line: events.append(argv) or 0)
        monkeypatch.setattr(Session, "_show", lambda self, step, new, share, out: events.append(f"page of {share}"))
        monkeypatch.setattr(
            Session, "_run", lambda self, commits, options, several, *_: events.append((options[-1], several))
        )
        work.measure(False, io.StringIO(), **how)
        return [event if event != [kernel, case] else "compile" for event in events], series

    return happen


def test_what_pytorch_compiles_follows_the_first_page(happenings):
    events, (native, compiled) = happenings(first_look=True)
    first, more = "rounds=1", "--append-samples"
    both = (native, compiled)
    assert events[:4] == [(first, (native,)), "page of 0.5", "compile", (first, (compiled,))]
    assert events[4:] == [(more, both), "page of 1.0"]


def test_what_pytorch_compiles_is_there_before_the_first_round(happenings):
    events, both = happenings(first_look=False)
    assert events == ["compile", ("rounds=4", both)]


def test_newest_commit_is_built_first(work, monkeypatch):
    built = []
    monkeypatch.setattr(OldBuild, "build", lambda self, repo, commit: built.append(commit))
    monkeypatch.setattr(OldBuild, "toolchain", None)
    monkeypatch.setattr(OldBuild, "unpacked", lambda self, commit: work.root, raising=False)
    work.commits = ("c" * 40, "b" * 40, "a" * 40)
    work.build(False, io.StringIO())
    assert tuple(built) == work.commits


def test_measure_names_the_command_that_measures_again(work, monkeypatch):
    monkeypatch.setattr(Session, "is_measured", lambda self, commit: True)
    monkeypatch.setattr(select, "is_tracked", lambda *_, **__: True)
    work.measure(False, out := io.StringIO())
    assert out.getvalue() == "1 commit measured already (`kv track --again 1` repeats them)\n"


@pytest.fixture
def measure_ceilings(work, monkeypatch):
    """Return a function that measures ceilings by a stand-in for asv: its argument lists, notes, and output."""

    def measure(status=0, output=""):
        calls = []

        def run_asv(args, *, root, environment, log, on_line):
            calls.append(args)
            return Ended(status, output, log)

        monkeypatch.setattr(session, "run_asv", run_asv)
        work.measured = (COMMIT, "b" * 40)
        work.measure_ceilings("cpu", out := io.StringIO())
        return calls, list(work.notes), out.getvalue()

    return measure


def test_ceilings_are_measured_once_for_the_newest_commit(measure_ceilings, tmp_path):
    (args,), notes, out = measure_ceilings()
    assert notes == [] and "half a minute" in out
    assert args[:2] == ["run", f"HASHFILE:{tmp_path / '.asv' / 'track-commits.txt'}"]
    assert (tmp_path / ".asv" / "track-commits.txt").read_text() == f"{COMMIT}\n"
    assert args[args.index("--machine") + 1] == "box"
    assert "--interleave-rounds" not in args  # one round


def test_recorded_ceilings_of_the_last_hour_serve(measure_ceilings, tmp_path, monkeypatch):
    monkeypatch.delenv("KV_THREADS", raising=False)
    ceilings.keep(tmp_path, document(a_machine()))  # of `kv peaks`: others do not get them
    calls = []
    for minutes, threads in ((60, 1), (59, 2), (59, 1)):
        figures = {"peak_float32": 5.0, "threads": threads}
        record(tmp_path, f"{minutes}-{threads}", time.time() - 60 * minutes, figures, machine="box")
        calls.append(len(measure_ceilings()[0]))
    assert calls == [1, 1, 0]
    assert measure_ceilings() == ([], [], "the machine's ceilings: those recorded 59 minutes ago\n")


def test_suite_without_ceilings_measures_none(measure_ceilings, tmp_path):
    (tmp_path / "benchmarks" / "device.py").unlink()
    assert measure_ceilings() == ([], [], "")


def test_failed_ceilings_are_a_note(measure_ceilings):
    _, (note,), _ = measure_ceilings(status=2, output="setup_cache failed")
    assert note.startswith("the machine's ceilings were not all measured: asv run ended with status 2: setup_cache")
    assert "\n" not in note


def test_ceilings_expression_selects_those_of_a_device():
    for device, name, other in (("cpu", "Cpu", "Cuda"), ("cuda", "Cuda", "Cpu")):
        expression = re.compile(session.ceilings_expression(device))
        assert all(expression.search(f"device.{name}.track_{figure}") for figure in UNITS[device])
        assert not expression.search(f"device.{other}.track_timer_tick")
        assert not expression.search(f"my_device.{name}.track_timer_tick")


def write(work, *rounds, more=b""):
    path = work.path(COMMIT)
    beside = path.parent / "telemetry" / f"{path.stem}.jsonl"
    beside.parent.mkdir(parents=True)
    beside.write_bytes("".join(f"{telemetry.encode(record)}\n" for record in rounds).encode() + more)
    return beside


def measured(series, ago):
    return a_round(series, time.time() - ago, 1e-3, "launch")


@pytest.mark.parametrize(
    ("ago", "expected"),
    [
        ((5.0, 20.0), True),
        ((5.0, 200.0), False),
        ((), False),
        ((5.0, -3600.0), False),  # before the clock was set back by an hour
    ],
)
def test_measured_since_wants_every_round_newer(work, ago, expected):
    write(work, *(measured(SERIES, seconds) for seconds in ago))
    assert work.measured_since(COMMIT, time.time() - 100) is expected


@pytest.mark.parametrize("more", [b'{"b": "\xff\xfe"}\n', b"{\n", b'{"b": 3}\n\n'])
def test_malformed_line_is_noted_and_skipped(work, more):
    record = measured(SERIES, 5.0)
    beside = write(work, record, more=more)
    assert work.recorded_rounds(COMMIT) == [telemetry.decode(telemetry.encode(record))]
    (note,) = work.notes
    assert note.startswith(f"{beside.parts[-3]}/telemetry/{beside.name}:2: ")


def test_branch_that_is_switched_during_a_run_is_noted(work, tmp_path):
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=tmp_path, check=True)
    run = Session(root=tmp_path, commits=(COMMIT,), series=work.series, rounds=8, machine="box")
    run._ingest(8, io.StringIO())
    assert not run.notes
    subprocess.run(["git", "symbolic-ref", "HEAD", "refs/heads/results"], cwd=tmp_path, check=True)
    run._ingest(8, io.StringIO())
    (note,) = run.notes
    assert "results/: main was checked out when this run began, results is now" in note
