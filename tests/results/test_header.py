"""The C++ header: what a program writes that times itself, as `kv ingest` reads it."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import kernel_velocity
from kernel_velocity.results import foreign

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "ci.md"
INCLUDE = Path(kernel_velocity.__file__).parent / "include"
COMPILER = shutil.which("c++") or shutil.which("g++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C++ compiler")
SUITE = """
#include "kernel_velocity.h"
#include <stdexcept>

int main(int argc, char **argv) {
    kv::Suite suite(argc, argv);
    long calls = 0;
    suite.time("count/8", [&] { ++calls; kv::keep(calls); });
    suite.time_manually("gpu \\"a\\\\b\\n\\"/8", [] { return 0.25; });
    suite.time("broken", [] { throw std::runtime_error("no memory"); });
    std::cerr << calls;
    return suite.write();
}
"""
PROGRAM = """
#include "kernel_velocity.h"
void kept() { double x = 21.5 * 2; %s }
"""


def compiled(folder, source, *options):
    (folder / "suite.cpp").write_text(source)
    strict = ("-std=c++17", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{INCLUDE}")
    subprocess.run([COMPILER, *strict, *options, "suite.cpp"], cwd=folder, check=True)


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    folder = tmp_path_factory.mktemp("suite")
    compiled(folder, SUITE, "-pthread", "-o", "suite")
    return folder / "suite"


def run(suite, folder, *options):
    return subprocess.run([suite, *options], cwd=folder, capture_output=True, text=True, check=False)


def test_file_becomes_series(suite, tmp_path):
    done = run(suite, tmp_path, "--out", "out.json", "--repetitions", "3", "--seconds", "0.001")
    assert (done.returncode, done.stdout) == (0, "")
    series = foreign.read("google-benchmark", [tmp_path / "out.json"]).series
    gpu = series["gpu_a_b.Cpu.time_hot", "native", "8"]
    assert [round_.estimate for round_ in gpu] == [0.25, 0.25, 0.25]
    assert series["broken.Cpu.time_hot", "native", "default"].error == "no memory"
    assert len(series["count.Cpu.time_hot", "native", "8"]) == 3


def test_every_call_is_made(suite, tmp_path):
    done = run(suite, tmp_path, "--seconds", "0.001")
    entries = json.loads(done.stdout)["benchmarks"]
    counted = [entry["iterations"] for entry in entries if entry["name"] == "count/8"]
    assert len(counted) == 8 and int(done.stderr) > sum(counted)  # those before the repetitions, too
    (broken,) = [entry for entry in entries if entry["name"] == "broken"]
    assert (broken["error_message"], broken["real_time"]) == ("no memory", 0)


@pytest.mark.parametrize(
    "options", [("--out",), ("--repetitions", "0"), ("--repetitions", "2.5"), ("--seconds", "x"), ("--help", "me")]
)
def test_bad_options_are_one_line(suite, tmp_path, options):
    done = run(suite, tmp_path, *options)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_file_that_cannot_be_written_is_an_error(suite, tmp_path):
    done = run(suite, tmp_path, "--out", "nowhere/out.json", "--seconds", "0.001", "--repetitions", "1")
    assert done.returncode == 2 and "--out nowhere/out.json: cannot be written" in done.stderr


def test_example_of_the_page_compiles_and_runs(tmp_path):
    (source,) = re.findall(r"```cpp\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    compiled(tmp_path, source, "-pthread", "-o", "suite")
    assert run(tmp_path / "suite", tmp_path, "--out", "out.json", "--seconds", "0.001").returncode == 0
    assert len(foreign.read("google-benchmark", [tmp_path / "out.json"]).series) == 2


def test_kept_value_is_computed(tmp_path):
    texts = []
    for use in ("kv::keep(x);", "(void)x;"):
        compiled(tmp_path, PROGRAM % use, "-S", "-o", "out.s")
        texts.append((tmp_path / "out.s").read_text())
    assert texts[0].count("\n") > texts[1].count("\n")
