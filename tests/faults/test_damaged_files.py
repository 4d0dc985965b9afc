"""Commands that read damaged files of a small repository: never a traceback, and at most one line of an error.

Of files that people edit, whose changed values reach the commands. `tests/test_damaged_files.py` damages these and all
others in many more ways, and checks what each reader says.
"""

import io
import json
import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from kernel_velocity.__main__ import main
from kernel_velocity.findings import store
from kernel_velocity.runner import host
from tests.faults.tiny import Tiny, make
from tests.findings.test_files import expectation
from tests.mutations import PATHS, damage_path, mutants
from tests.results import test_foreign

pytestmark = pytest.mark.slow
SEED = 2020
STATUSES = {0, 2, 10, 11, 20, 21, 22, 30}  # of the contract
TRACK = ("track", "--range", "HEAD", "--no-site")
REPORT, LIST = ("report",), ("findings", "list", "--all")


def measured(folder) -> Tiny:
    """Return a repository with a measured commit, an expectation, and files of other programs."""
    tiny = make(folder)
    assert tiny.track(KV_ROUNDS="2", KV_TIER="core", KV_BENCH="native.*1k").returncode == 0
    results = tiny.root / "results"
    store.write(results, expectation())
    (tiny.root / "suite.json").write_text(json.dumps(test_foreign.google_benchmark(*test_foreign.COPIES)))
    (tiny.root / "gpu.json").write_text(json.dumps(test_foreign.nvbench(test_foreign.state("a", batch=1e-6))))
    return tiny


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return measured(tmp_path_factory.mktemp("damaged"))


@pytest.fixture
def here(tiny, monkeypatch):
    """Be in the repository, with its home, its torch and its settings."""
    for name in [name for name in os.environ if name.startswith(("KV_", "ASV"))]:
        monkeypatch.delenv(name)
    for name, value in tiny.variables(KV_MACHINE="box", KV_ROUNDS="2", KV_TIER="core", KV_BENCH="native.*1k").items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(str(tiny.host))
    monkeypatch.setattr(host, "device", lambda: "cpu")
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.chdir(tiny.root)
    ours = taken_out()  # the repository has packages of the same names
    yield tiny
    taken_out()
    sys.modules.update(ours)
    os.chdir("/")


def taken_out():
    """Take the suite and the package under test out of the imported modules, and return them."""
    names = [name for name in sys.modules if name.partition(".")[0] in ("benchmarks", "kernels")]
    return {name: sys.modules.pop(name) for name in names}


FILES = [  # below the repository; the commands that read it; damaged copies
    ("asv.conf.json", (TRACK, REPORT), 12),
    ("../.asv-machine.json", (TRACK,), 12),
    ("pyproject.toml", (TRACK,), 12),
    ("pyproject.toml", (("init",),), 12),
    (".asv/env/*/asv-build-cache/*/toolchain.txt", (TRACK,), 2),
    (".asv/env/*/asv-build-cache/*/unpacked/**/build-info.json", (TRACK,), 4),
    ("results/findings/expected/*.toml", (LIST, REPORT), 12),
    ("suite.json", (("ingest", "--google-benchmark", "suite.json", "--machine", "g"),), 30),
    ("gpu.json", (("ingest", "--nvbench", "gpu.json", "--machine", "n"),), 30),
]


@pytest.mark.parametrize(("name", "commands", "count"), FILES, ids=[f"{name} {argv[0][0]}" for name, argv, _ in FILES])
def test_command_that_reads_a_damaged_file_has_no_traceback(here, name, commands, count):
    path = sorted(here.root.glob(name))[0] if not name.startswith("..") else here.root.parent / Path(name).name
    sound, statuses = path.read_bytes(), Counter()
    for argv in commands:
        assert run(argv, "undamaged") == 0
    try:
        for number, (done, damaged) in enumerate(mutants(sound, SEED, count)):
            path.write_bytes(damaged)
            argv = commands[number % len(commands)]
            statuses[run(argv, f"{' '.join(argv)} with {name}, seed {SEED}: {done}")] += 1
        for how in PATHS if commands[0] is not TRACK else ():
            damage_path(path, how)
            run(commands[0], f"{name}: {how}")
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
            path.write_bytes(sound)
    finally:
        path.write_bytes(sound)
    print(f"{name}: seed {SEED}, statuses {dict(statuses)}")


def run(argv, what):
    """Run a command in this process. Return its status."""
    out, err = io.StringIO(), io.StringIO()
    try:
        status = main(argv, out, err)
    except BaseException as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    errors = [line for line in err.getvalue().splitlines() if line.startswith("error: ")]
    assert status in STATUSES and "Traceback" not in out.getvalue() + err.getvalue(), what
    assert len(errors) <= 1 and (not errors or err.getvalue().splitlines()[-1] == errors[0]), (
        f"{what}: {err.getvalue()}"
    )
    return status
