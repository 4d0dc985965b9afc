"""A small git repository like ours: a pure-Python package `kernels`, a suite of one kernel, our tools, our asv.

Measuring it needs seconds and no torch: a `torch` that consists of a name and a version stands in a site
folder of its own, where a test may also plant other packages that a host could have.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.commands import git
from tests.waiting import PATIENCE

HERE = Path(__file__).parents[2]
TORCH = "9.9.0"

# Makes the wheel of a commit, and compiles kernels/*.c when there are any. pip would take .6 s more.
BUILD = """
import os, pathlib, shutil, subprocess, sys, zipfile

for source in pathlib.Path("kernels").glob("*.c"):
    compiler = os.environ.get("CXX") or shutil.which("c++")
    if not compiler:
        raise SystemExit("CMake Error: CMAKE_CXX_COMPILER not set, after EnableLanguage")
    if subprocess.call([compiler, "-shared", "-fPIC", "-o", str(source.with_suffix(".so")), str(source)]):
        raise SystemExit("compilation failed")
with zipfile.ZipFile(pathlib.Path(sys.argv[1], "kernels-0-py3-none-any.whl"), "w") as wheel:
    for path in pathlib.Path("kernels").iterdir():
        if path.is_file():
            wheel.write(path)
"""

PYPROJECT = """
[tool.kernel-velocity]
build = "python -S build.py {out}"
built-from = ["kernels"]
sources = ["kernels"]
"""

SUITE = """
from asv_runner.benchmarks import benchmark_types
from kernel_velocity.suite.asv_type import RoundBenchmark

if RoundBenchmark not in benchmark_types:
    benchmark_types.insert(0, RoundBenchmark)
"""

# The commit (kernels.scale) and the environment (TINY_DO, for faults of one round) decide what the kernel does. The
# file `rounds` beside the repository gets a line for every round that begins.
BENCHMARK = """
import os, signal, sys, time
from pathlib import Path
from kernel_velocity.problem.problem import Problem
from kernel_velocity.engine.stopping import from_environment, method_hash
from kernel_velocity.engine.spool import append, location, spool_path
from kernel_velocity.engine.telemetry import Round

LAUNCH = str(time.time())
CASES = ["float32-1k", "float32-2k", "float32-3k"]


class Scale(Problem):
    kernel = "scale"
    implementations = ("eager", "compile", "native")
    core = {"cpu": CASES[:2], "cuda": CASES[:2]}

    def __init__(self):
        super().__init__("scale")

    def reference_solution(self, *inputs):
        return 2

    def generate_test_cases(self):
        return []

    def verify_result(self, expected, actual):
        return expected == actual, {}


class _Suite:
    problem = Scale()
    params = [["eager", "compile", "native"], CASES]
    param_names = ["implementation", "case"]
    version = "1"
    timeout = float(os.environ.get("TINY_TIMEOUT", "60"))  # s; a round takes less than one, on a busy machine a few
    flops = {case: 1000 for case in CASES}
    bytes = {case: 8000 for case in CASES}
    unfused_bytes = {}

    def setup(self, implementation, case):
        import kernels
        folder = os.environ["KV_ARTEFACTS"]
        assert Path(kernels.__file__).is_relative_to(folder), f"kernels comes from {kernels.__file__}"
        self.call = getattr(kernels, "scale", None) if implementation == "native" else (lambda x: 2 * x)
        if self.call is None:
            raise NotImplementedError("no such kernel at this commit")

    def time_hot(self, implementation, case):
        self.call(1)

    def measure(self, name, implementation, case):
        began = time.time()
        log = Path(os.environ["ASV_CONF_DIR"]).parent / "rounds"
        with log.open("a") as rounds:
            rounds.write(f"{os.environ.get('KV_SPOOL', 'history')} {os.environ.get('ASV_COMMIT')} {LAUNCH}\\n")
        result = self.call(1)
        time.sleep(float(os.environ.get("TINY_PAUSE", "0")))  # s; lets a test do something while rounds are left
        if result != 2:
            raise AssertionError(f"scale {implementation} {case} is wrong: got {result}, wanted 2")
        # The commit and TINY_PACE decide what a call takes, so no busy machine can make a test fail. The series of a
        # launch scatter alike, by 0.1%: native moves with its controls, and is adjusted by them.
        launches = len({line.split()[-1] for line in log.read_text().splitlines()})
        slower = getattr(sys.modules["kernels"], "SLOWER", 1) if implementation == "native" else 1
        estimate = 1e-6 * slower * float(os.environ.get("TINY_PACE", "1")) * (1 + 1e-3 * (0.618 * launches % 1))
        record = Round(benchmark=name, params=(implementation, case), time=began, estimate=estimate, n=1, batch=1,
                       spent=0.01, setup=0.01, warmup=0.01, stop="converged", launch=LAUNCH,
                       method=method_hash(from_environment(os.environ), os.environ.get("KV_THREADS")))
        if (where := location(os.environ)) is not None:
            append(spool_path(Path(os.environ["ASV_CONF_DIR"]), *where), record)
        return {"samples": [estimate], "number": 1}


class Cpu(_Suite):
    pass


class Cuda(_Suite):
    def setup(self, implementation, case):
        raise NotImplementedError("no GPU")
"""

GOOD = "def scale(x):\n    return 2 * x\n"
SLOWER = f"{GOOD}SLOWER = 1.1\n"  # by 10%, says what measures it
WRONG = "def scale(x):\n    return 3\n"
FASTER = "def scale(x):\n    return x + x\n"


@dataclass(frozen=True)
class Tiny:
    """The repository, and the folders around it."""

    root: Path

    @property
    def host(self) -> Path:
        """A site folder of the host."""
        return self.root.parent / "host" / "site-packages"

    @property
    def python(self) -> str:
        """The Python of the environment's name."""
        return f"{sys.version_info.major}.{sys.version_info.minor}"

    @property
    def environment(self) -> str:
        """asv's name of the environment."""
        return f"host-py{self.python}-torch{TORCH}"

    @property
    def results(self) -> Path:
        """The results of the machine `box`."""
        return self.root / "results" / "box"

    def variables(self, **more: str) -> dict[str, str]:
        """Return the environment variables of every command run here."""
        home = str(self.root.parent)
        dropped = {key for key in os.environ if key.startswith(("KV_", "ASV"))}
        stored = {key: value for key, value in os.environ.items() if key not in dropped}
        return {
            **stored,
            "HOME": home,
            "KV_LOCK_FOLDER": home,
            "PYTHONPATH": str(self.host),
            "GIT_CONFIG_NOSYSTEM": "1",
            **more,
        }

    def copy(self, folder: Path) -> Tiny:
        """Copy everything, the home and the host's packages too."""
        shutil.copytree(self.root.parent, folder / "copy", symlinks=True)
        return Tiny(folder / "copy" / self.root.name)

    def git(self, *args: str) -> str:
        """Run git and return what it printed."""
        return git(self.root, *args)

    def commit(self, message: str, **files: str | None) -> str:
        """Write files of the package (`kernel` is kernels/__init__.py, None removes) and commit them."""
        for name, text in files.items():
            path = self.root / "kernels" / {"kernel": "__init__.py", "source": "fast.c"}.get(name, f"{name}.py")
            path.unlink(missing_ok=True) if text is None else path.write_text(text)
        self.git("add", "-A", "kernels")
        self.git("commit", "-q", "-m", message)
        return self.git("rev-parse", "HEAD")

    def run(self, *args: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a Python module here. Standard error is part of the output."""
        return subprocess.run(
            [sys.executable, "-m", *args],
            cwd=self.root,
            env=self.variables(**more),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def begin(self, *args: str, **more: str) -> subprocess.Popen[str]:
        """Start a command of `kv` here, in a process group of its own. Standard error is part of the output."""
        return subprocess.Popen(
            [sys.executable, "-m", "kernel_velocity", *args],
            cwd=self.root,
            env=self.variables(**more),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def asv(self, *args: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run asv as a user would."""
        return self.run("asv", *args, **more)

    def track(self, *, site: bool = False, **more: str) -> subprocess.CompletedProcess[str]:
        """Run what `kv track` runs. A site takes twice as long as all the rest of a run that measures nothing."""
        options = () if site else ("--no-site",)
        return self.run("kernel_velocity", "track", *options, **{"KV_ROUNDS": "1", "KV_MACHINE": "box", **more})

    def nightly(self, *args: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run what `make nightly` runs, on one series."""
        settings = {"KV_MACHINE": "box", "KV_TIER": "core", "KV_BENCH": "native.*1k", **more}
        return self.run("kernel_velocity", "nightly", "--no-site", *args, **settings)


def make(folder: Path) -> Tiny:
    """Make the repository, with one good commit."""
    tiny = Tiny(folder / "tiny")
    (tiny.root / "kernels").mkdir(parents=True)
    (tiny.root / "benchmarks").mkdir()
    shutil.copy(HERE / "asv.conf.json", tiny.root)
    texts = {"build.py": BUILD, "pyproject.toml": PYPROJECT, ".gitignore": ".asv/\nresults/\n__pycache__/\n"}
    texts |= {"benchmarks/__init__.py": SUITE, "benchmarks/scale.py": BENCHMARK, "kernels/__init__.py": GOOD}
    for name, text in texts.items():
        (tiny.root / name).write_text(text)
    plant(tiny.host, "torch", TORCH)
    tiny.git("init", "-q", "-b", "main")
    tiny.git("add", "-A")
    tiny.git("commit", "-q", "-m", "Add scale")
    machine = ["machine", "--yes", "--machine", "box", "--os", "L", "--arch", "x", "--cpu", "c", "--num_cpu", "1"]
    assert tiny.asv(*machine, "--ram", "1").returncode == 0
    return tiny


def plant(site: Path, name: str, version: str, source: str = "") -> None:
    """Put an installed package into a site folder."""
    (site / name).mkdir(parents=True)
    (site / name / "__init__.py").write_text(source)
    info = site / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def rounds_begun(tiny, where="history"):
    """Return how many rounds each commit began, of the history or of looking again (`.asv/ab/...`)."""
    log = tiny.root.parent / "rounds"
    begun = [line.split() for line in log.read_text().splitlines()] if log.exists() else []
    return Counter(commit for spool, commit, _ in begun if spool.startswith(where))


def lines_with(text, *words):
    """Return the lines of a text that have all of some words."""
    return [line for line in text.splitlines() if all(word in line for word in words)]


def recorded(tiny, commit, implementation="native", case="float32-1k", column="result"):
    """Return what asv stored of a series."""
    data = json.loads((tiny.results / f"{commit[:8]}-{tiny.environment}.json").read_text())
    row = dict(zip(data["result_columns"], data["results"]["scale.Cpu.time_hot"], strict=False))
    implementations, cases = row["params"]
    index = implementations.index(repr(implementation)) * len(cases) + cases.index(repr(case))
    return None if row[column] is None else row[column][index]


def page(tiny):
    """Return all our pages in one text."""
    folder = tiny.root / ".asv" / "html" / "kernel-velocity"
    return "".join(path.read_text() for path in sorted(folder.glob("*.html")))


def until(process, word):
    """Read a process's output up to a line with a word."""
    for line in process.stdout:
        if word in line:
            return
    raise AssertionError(f"{word!r} was not printed")


def end(process, number):
    """Send a signal to a process and its children. Return the rest of its output."""
    os.killpg(process.pid, number)
    return process.communicate(timeout=PATIENCE)[0]
