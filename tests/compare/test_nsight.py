"""Nsight Compute: the command, its CSV, what is said where it is not there or fails; a script stands in for it."""

import stat
import sys
from pathlib import Path

import pytest

from kernel_velocity.compare import nsight
from kernel_velocity.compare.nsight import Launch, Ours
from kernel_velocity.errors import UsageError
from kernel_velocity.tables import aligned

HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
    '"CC","dram__bytes_read.sum","dram__bytes_write.sum","gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",'
    '"gpu__time_duration.sum","sm__throughput.avg.pct_of_peak_sustained_elapsed"'
)
KERNEL = "void add_mul_exp<4>(float const*, float*, long)"
UNITS = '"","","","","","","","","","","","byte","byte","%","nsecond","%"'


def line(number, kernel, *values):
    quoted = ",".join(f'"{value}"' for value in values)
    return f'"{number}","7","python","127.0.0.1","{kernel}","1","7","(256, 1, 1)","(16384, 1, 1)","0","9.0",{quoted}'


RAW = "\n".join(
    [
        "==PROF== Connected to process 7 (/usr/bin/python3)",
        '==PROF== Profiling "add_mul_exp" - 0: 0%....50%....100% - 1 pass',
        HEADER,
        UNITS,
        line(0, KERNEL, "40,000,000", "20,000,000", "91.50", "20,000", "35.00"),
        line(1, KERNEL, "40,000,000", "20,000,000", "90.50", "20,400", "34.00"),
        line(2, "zero", "0", "n/a", "n/a", "1,000", "2"),
        "==PROF== Disconnected from process 7",
    ]
)
LONG = "\n".join(
    [
        '"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"',
        f'"0","saxpy","Command line profiler metrics","{nsight.DRAM}","%","45.5"',
        f'"0","saxpy","Command line profiler metrics","{nsight.DURATION}","us","1,205.00"',
        f'"0","saxpy","Command line profiler metrics","{nsight.READ}","Mbyte","2.5"',
        f'"0","saxpy","Command line profiler metrics","{nsight.WRITTEN}","Kbyte","640"',
        '"0","saxpy","SpeedOfLight","launch__registers_per_thread","register/thread","18"',
        f'"1","other","Command line profiler metrics","{nsight.SM}","%","n/a"',
    ]
)


def script(path, body):
    path.write_text(f"#!{sys.executable}\n{body}", encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def fake(tmp_path):
    """A script that is called as ncu is: it runs the child, and writes the CSV into the log."""
    (tmp_path / "raw.csv").write_text(RAW, encoding="utf-8")
    body = f"""
import json, pathlib, subprocess, sys
folder = pathlib.Path({str(tmp_path)!r})
(folder / "arguments.json").write_text(json.dumps(sys.argv[1:]))
log = sys.argv[sys.argv.index("--log-file") + 1]
child = sys.argv[sys.argv.index("--metrics") + 2:]
ended = subprocess.run(child).returncode
pathlib.Path(log).write_text((folder / "raw.csv").read_text())
sys.exit(ended)
"""
    return script(tmp_path / "ncu", body)


def test_the_raw_page_is_read():
    first, second, third = nsight.parse(RAW)
    assert first == Launch(
        kernel=KERNEL,
        seconds=pytest.approx(20e-6),
        dram=pytest.approx(0.915),
        sm=pytest.approx(0.35),
        bytes=pytest.approx(60e6),
    )
    assert second.seconds == pytest.approx(20.4e-6)
    assert (third.kernel, third.dram, third.bytes, third.sm) == ("zero", None, None, pytest.approx(0.02))


def test_a_line_per_metric_is_read_too():
    first, second = nsight.parse(LONG)
    assert first.seconds == pytest.approx(1.205e-3)
    assert first.bytes == pytest.approx(3.14e6)
    assert (first.dram, first.sm) == (pytest.approx(0.455), None)
    assert second == Launch(kernel="other", seconds=None, dram=None, sm=None, bytes=None)


def test_a_table_of_something_else_is_an_error():
    assert nsight.parse("nothing at all\n") == ()
    with pytest.raises(UsageError, match="no column Kernel Name"):
        nsight.parse('"ID","Name"\n"1","a"\n')
    with pytest.raises(UsageError, match=r"gpu__time_duration.sum is 'many' nsecond"):
        nsight.parse(RAW.replace('"20,000"', '"many"'))
    with pytest.raises(UsageError, match="unit 'fortnight'"):
        nsight.parse(RAW.replace("nsecond", "fortnight"))


def test_the_command():
    found = nsight.command(Path("/opt/ncu"), ("python", "x.py"), Path("/tmp/log"), full=True)
    assert found[0] == "/opt/ncu"
    assert found[-2:] == ["python", "x.py"]
    options = (["--csv"], ["--page", "raw"], ["--print-units", "base"], ["--set", "full"], ["--log-file", "/tmp/log"])
    for wanted in options:
        place = found.index(wanted[0])
        assert found[place : place + len(wanted)] == wanted
    assert found[found.index("--metrics") + 1].split(",") == list(nsight.METRICS)
    assert "--set" not in nsight.command(Path("ncu"), ("x",), Path("log"))


def test_the_child_runs_under_it_and_its_launches_come_back(fake, tmp_path):
    done = tmp_path / "done"
    child = (sys.executable, "-c", f"open({str(done)!r}, 'w').close()")
    launches = nsight.ncu(child, path=str(fake))
    assert done.exists()
    assert [launch.kernel for launch in launches][-1] == "zero"
    assert nsight.ncu(child, path=str(tmp_path)) == launches  # its folder, too


def test_what_it_says_when_it_fails_is_passed_on(fake, tmp_path):
    child = (sys.executable, "-c", "import sys; print('first'); sys.exit('no such kernel')")
    with pytest.raises(UsageError, match=r"ended with status 1: .*no such kernel"):
        nsight.ncu(child, path=str(fake))
    (tmp_path / "raw.csv").write_text("==ERROR== ERR_NVGPUCTRPERM - no permission", encoding="utf-8")
    with pytest.raises(UsageError, match="may not read the GPU's counters"):
        nsight.ncu((sys.executable, "-c", "raise SystemExit(1)"), path=str(fake))
    (tmp_path / "raw.csv").write_text("==WARNING== No kernels were profiled.", encoding="utf-8")
    with pytest.raises(UsageError, match="no kernel was profiled"):
        nsight.ncu((sys.executable, "-c", ""), path=str(fake))


def test_where_it_is_not_installed_it_says_what_was_looked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(nsight, "PLACES", (str(tmp_path / "nowhere"),))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"not installed \(looked for ncu and nv-nsight-cu-cli on PATH.*--ncu=PATH"):
        nsight.find()
    with pytest.raises(UsageError, match=r"--ncu=.*gone: no program"):
        nsight.find(str(tmp_path / "gone"))


def test_it_is_found_on_the_path_then_where_it_is_installed(tmp_path, monkeypatch):
    installed = tmp_path / "nsight-compute"
    for version in ("2024.1", "2025.2"):
        (installed / version).mkdir(parents=True)
        script(installed / version / "ncu", "")
    monkeypatch.setattr(nsight, "PLACES", (f"{installed}/*",))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert nsight.find() == installed / "2025.2" / "ncu"
    (tmp_path / "bin").mkdir()
    program = script(tmp_path / "bin" / "ncu", "")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert nsight.find() == program


def test_the_table_has_ours_beside_theirs():
    ours = Ours(seconds=21e-6, bandwidth=2.86e12, efficiency=0.9)
    text = aligned(nsight.table(nsight.parse(RAW), ours))
    lines = text.splitlines()
    assert lines[2].removeprefix(KERNEL).split() == ["2", "20.2", "µs", "2,970", "GB/s", "91.0%", "34.5%", "-"]
    assert lines[3].split()[:3] == ["zero", "1", "1.00"]
    assert "ours, a call as timed" in lines[4]
    assert lines[4].split()[-1] == "90.0%"
    assert len(nsight.table(nsight.parse(RAW)).rows) == 2


def test_the_childs_command_is_one_that_it_understands():
    found = nsight.child_command("matmul", "native", "float32-512", device="cuda", solutions=(Path("a.so"),))
    assert found[1:3] == ("-m", "kernel_velocity.compare.nsight")
    assert found[3:6] == ("matmul", "native", "float32-512")
    assert found[found.index("--solution") + 1] == "a.so"
