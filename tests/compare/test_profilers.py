"""PyTorch's profiler and Nsight Compute around an implementation: a script stands in for ncu."""

import json
import stat
import sys
from pathlib import Path

import pytest

from kernel_velocity.compare import nsight, profile
from kernel_velocity.compare.result import ComparedRow
from kernel_velocity.errors import UsageError
from kernel_velocity.problem.implementations import Bound
from tests.compare.doubling import Doubling
from tests.compare.live_comparisons import case, timed

torch = pytest.importorskip("torch", reason="what is profiled is PyTorch")


# PyTorch's profiler --------------------------------------------------------------------------------------------------


def bind_exp(_problem, _case, inputs):
    return Bound(lambda: torch.exp(inputs[0]), lambda: None, lambda: None)


def test_profile_has_a_table_and_a_trace(tmp_path):
    problem = Doubling()
    problem.name = "../up"  # is no folder
    report = profile.profile(problem, "a/b", "float32-small", tmp_path / "new", bind_exp)
    (trace,) = (tmp_path / "new").iterdir()
    assert trace.name == ".._up-cpu-float32-small-a_b.trace.json"
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    for name in ("a/b", "aten::exp"):  # the region around a call, which shows what the profiler does not see
        assert sum(event.get("name") == name and event.get("ph") == "X" for event in events) == profile.CALLS
        assert name in report
    assert report.startswith(f"a/b on float32-small, 10 calls; trace: {trace}\n")


def test_profile_leaves_warm_up_out(tmp_path):
    calls, trace = [], tmp_path / "a.trace.json"
    profile.profile_call(lambda: calls.append(1), device="cpu", trace=trace)
    assert len(calls) == profile.WARM_UPS + profile.CALLS


def test_profile_on_a_gpu_records_its_activities(tmp_path, monkeypatch):
    profiler, recorded, waits = pytest.importorskip("torch.profiler"), {}, []

    class Recorder:
        def __init__(self, activities):
            recorded["activities"] = activities

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def key_averages(self):
            return self

        def table(self, **how):
            recorded.update(how)
            return "table"

        def export_chrome_trace(self, path):
            Path(path).write_text("{}", encoding="utf-8")

    monkeypatch.setattr(profiler, "profile", Recorder)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waits.append(1))
    assert profile.profile_call(lambda: None, device="cuda", trace=tmp_path / "a.trace.json") == "table"
    assert recorded["activities"] == [profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA]
    assert recorded["sort_by"] == "self_cuda_time_total"
    assert len(waits) == 2  # after the warm-up, and before the profiler ends


# Nsight Compute ------------------------------------------------------------------------------------------------------

KERNEL = "void add_mul_exp<4>(float const*, float*, long)"


def line(number, kernel, *values):
    quoted = ",".join(f'"{value}"' for value in values)
    return f'"{number}","7","python","127.0.0.1","{kernel}","1","7","(256, 1, 1)","(16384, 1, 1)","0","9.0",{quoted}'


RAW = "\n".join(
    [
        "==PROF== Connected to process 7 (/usr/bin/python3)",
        '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
        '"Device","CC","dram__bytes_read.sum","dram__bytes_write.sum","gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",'
        '"gpu__time_duration.sum","sm__throughput.avg.pct_of_peak_sustained_elapsed"',
        '"","","","","","","","","","","","byte","byte","%","nsecond","%"',
        line(0, KERNEL, "40,000,000", "20,000,000", "91.50", "20,000", "35.00"),
        line(1, KERNEL, "40,000,000", "20,000,000", "90.50", "20,400", "34.00"),
        line(2, "zero", "0", "n/a", "n/a", "1,000", "2"),
        "==PROF== Disconnected from process 7",
    ]
)
SCRIPT = """#!{python}
import json, pathlib, subprocess, sys
folder = pathlib.Path({folder!r})
(folder / "arguments.json").write_text(json.dumps(sys.argv[1:]))
log = sys.argv[sys.argv.index("--log-file") + 1]
child = sys.argv[sys.argv.index("--metrics") + 2:]
ended = subprocess.run(child).returncode
pathlib.Path(log).write_text((folder / "raw.csv").read_text())
sys.exit(ended)
"""


@pytest.fixture
def fake(tmp_path):
    """A folder with a script that is called as ncu is: it runs the child, and writes the CSV into the log."""
    (tmp_path / "raw.csv").write_text(RAW, encoding="utf-8")
    program = tmp_path / "ncu"
    program.write_text(SCRIPT.format(python=sys.executable, folder=str(tmp_path)), encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return tmp_path


def row(**more):
    compared = case("float32-small", 1000, timed("eager", 21e-6, **more), problem="matmul")
    return ComparedRow(compared, compared.timed[0])


def test_ncu_runs_the_child_and_its_launches_come_back(fake):
    launches = nsight.ncu((sys.executable, "-c", f"open({str(fake / 'done')!r}, 'w').close()"), str(fake / "ncu"))
    assert (fake / "done").exists()
    arguments = json.loads((fake / "arguments.json").read_text())
    for option in ("--csv", "--page raw", "--print-units base", "--target-processes all", "--profile-from-start off"):
        assert option in " ".join(arguments)
    assert arguments[arguments.index("--metrics") + 1].split(",") == list(nsight.METRICS)
    assert [kernel for kernel, _ in launches] == [KERNEL, KERNEL, "zero"]
    first, third = launches[0][1], launches[2][1]
    assert (first[nsight.DURATION], first[nsight.READ]) == (pytest.approx(20e-6), 40e6)
    assert (first[nsight.DRAM], first[nsight.SM]) == (pytest.approx(0.915), pytest.approx(0.35))
    assert (third[nsight.DRAM], third[nsight.WRITTEN], third[nsight.SM]) == (None, None, pytest.approx(0.02))


def test_ncu_report_has_our_figures_beside_theirs():
    lines = nsight.report(nsight.parse(RAW), row()).splitlines()
    assert lines[0] == "eager on float32-small"
    assert lines[3].removeprefix(KERNEL).split() == ["2", "20.2", "µs", "2.97", "TB/s", "91.0%", "34.5%", "-"]
    assert lines[4].split() == ["zero", "1", "1.00", "µs", "-", "-", "2.00%", "-"]
    assert lines[5].split()[-9:] == ["timed", "-", "21.0", "µs", "571", "MB/s", "-", "-", "93.0%"]


def test_ncu_failure_is_passed_on(fake):
    child = (sys.executable, "-c", "import sys; print('first'); sys.exit('no such kernel')")
    with pytest.raises(UsageError, match=r"ended with status 1: .*no such kernel"):
        nsight.ncu(child, str(fake))
    (fake / "raw.csv").write_text("==ERROR== ERR_NVGPUCTRPERM - no permission", encoding="utf-8")
    with pytest.raises(UsageError, match="may not read the GPU's counters"):
        nsight.ncu((sys.executable, "-c", "raise SystemExit(1)"), str(fake))
    (fake / "raw.csv").write_text("==WARNING== No kernels were profiled.", encoding="utf-8")
    with pytest.raises(UsageError, match="no kernel was profiled"):
        nsight.ncu((sys.executable, "-c", ""), str(fake))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('"ID","Name"\n"1","a"\n', "no column Kernel Name"),
        (RAW.replace('"20,000"', '"many"'), r"cannot read gpu__time_duration.sum, 'many' in unit 'nsecond'"),
        (RAW.replace("nsecond", "fortnight"), "in unit 'fortnight'"),
    ],
)
def test_ncu_table_of_something_else_is_an_error(text, words):
    with pytest.raises(UsageError, match=words):
        nsight.parse(text)


def test_ncu_is_found_on_the_path_then_where_it_is_installed(fake, tmp_path, monkeypatch):
    monkeypatch.setattr(nsight, "PATTERNS", (str(tmp_path / "versions" / "*" / "ncu")[1:],))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(UsageError, match=r"not installed \(looked for ncu on PATH.*--ncu=PATH"):
        nsight.find("")
    with pytest.raises(UsageError, match=r"--ncu=.*gone: must be a program"):
        nsight.find(str(tmp_path / "gone"))
    for version in ("2024.1", "2025.2"):
        (tmp_path / "versions" / version).mkdir(parents=True)
        (tmp_path / "versions" / version / "ncu").touch()
    assert nsight.find("") == tmp_path / "versions" / "2025.2" / "ncu"
    monkeypatch.setenv("PATH", str(fake))
    assert nsight.find("") == nsight.find(str(fake)) == nsight.find(str(fake / "ncu")) == fake / "ncu"


def test_ncu_child_makes_the_calls(monkeypatch, capsys):
    calls = []
    monkeypatch.setenv("KV_THREADS", "1")
    binders = {"eager": lambda _problem, case, inputs: Bound(lambda: calls.append((case, len(inputs))), None, None)}

    def load(what, device, solutions, dtype):
        assert (what, device, solutions, dtype) == ("doubling", "cpu", [Path("s.py")], "float64")
        return Doubling(), binders

    def refuse(*_):
        raise UsageError("no such kernel")

    monkeypatch.setattr(nsight, "load", load)
    command = nsight.child_command("doubling", row(), [Path("s.py")], "float64")
    assert command[1:3] == ["-m", "kernel_velocity.compare.nsight"]
    assert nsight.main(command[3:]) == 0
    assert calls == [("float32-small", 1)] * (profile.WARM_UPS + nsight.CALLS)
    monkeypatch.setattr(nsight, "load", refuse)
    assert nsight.main(command[3:]) == 2
    assert capsys.readouterr().err == "error: no such kernel\n"


def test_ncu_counts_only_the_calls_between_start_and_stop(monkeypatch):
    events = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: events.append("wait"))
    monkeypatch.setattr(torch.cuda.profiler, "start", lambda: events.append("start"))
    monkeypatch.setattr(torch.cuda.profiler, "stop", lambda: events.append("stop"))
    nsight.make_calls(lambda: events.append("call"), "cuda")
    expected = ["call"] * profile.WARM_UPS + ["wait", "start", *["call"] * nsight.CALLS, "wait", "stop"]
    assert events == expected
