"""Files that disks, editors and merges damaged: each reader gives the same records, or one line that names the damage.

A file that people edit has no checksum: there a changed word is an edit, and only what makes no sense is refused. A
damaged cache is thrown away.
"""

import contextlib
import functools
import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from kernel_velocity import documents
from kernel_velocity.ab import rounds
from kernel_velocity.compare import isolation
from kernel_velocity.counts import compiled
from kernel_velocity.documents import DamagedError
from kernel_velocity.engine import reported
from kernel_velocity.errors import KernelVelocityError
from kernel_velocity.findings import evidence, store
from kernel_velocity.findings.decisions import Expectation
from kernel_velocity.findings.finding import Finding
from kernel_velocity.fleet import archive
from kernel_velocity.nightly import measure
from kernel_velocity.past import past
from kernel_velocity.problem import problem_formats
from kernel_velocity.problem.problem import ProblemError
from kernel_velocity.results import asv_file, foreign
from kernel_velocity.roofline import ceilings
from kernel_velocity.runner import asv, fingerprint
from kernel_velocity.site import writer
from kernel_velocity.suite import config
from kernel_velocity.verdict.verdicts import Verdicts
from tests import synthetic
from tests.findings import evidenced
from tests.findings.nights import WHEN
from tests.findings.test_files import expectation, full
from tests.fleet import node
from tests.machine import test_device_figures
from tests.mutations import PATHS, damage_path, mutants
from tests.problem import test_public_problems
from tests.results import test_foreign

SEED = 20
BLOCKS = 3  # lines of that file
COUNT = 120  # mutants of a format
REFUSED = (KernelVelocityError, ProblemError, DamagedError, OSError)
ROOT = Path(__file__).parents[1]
MACHINES = {
    "box": {"machine": "box", "cpu": "c", "os": "L", "num_cpu": "4", "arch": "x86_64", "ram": "1"},
    "other": {"machine": "other", "cpu": "d"},
    "version": 1,
}
PROJECT = """[project]
name = "kernels"

[tool.kernel-velocity]
build = "make && cp *.so {out}/"
built-from = ["kernels", "Makefile"]
toolchain = ["cc --version"]
sources = ["src/{kernel}"]

[tool.kernel-velocity.kernels.scale]
sources = ["src/scale.c"]
symbols = ["libscale.so:scale"]
"""


@dataclass(frozen=True)
class Format:
    """A file, and what reads it.

    Attributes:
        write: writes a sound file below a folder, and returns its path.
        read: returns what a file says, and lines on what is wrong with it. It may raise one of REFUSED.
        edited: whether people edit it, so that other values may be read.
        slow: how many times as long reading takes as that of a small file.
    """

    write: object
    read: object
    edited: bool = False
    slow: int = 1


def file_of(name, contents):
    """Return a function that writes a file of this name below a folder."""

    def write(folder):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())
        return path

    return write


def settings(path):
    config.asv_settings(path.parent)
    asv.settings()
    config.suite(path.parent)
    return None, ()


def section(path):
    project = config.project(path.parent)
    project.owners(["scale"])("src/scale.c")
    return project, project.symbols_of("scale")[:0]


def machine_file(path):
    return asv_file.machine_entry("box"), ()


def stored(kind, path):
    """Return what people do not edit of a record, as long as its line with the check is there."""
    records, problems = store.read_folder(path.parent, kind)
    if kind is Expectation:
        return records, problems
    if not records or "\ncheck = " not in path.read_text(encoding="utf-8"):
        return None, problems or ("no check",)
    (record,) = records
    return {key: value for key, value in vars(record).items() if key not in store.EDITED}, problems


def read_evidence(path):
    recorded, problems = evidence.read(path.parents[3], path.parent.name)
    return recorded, problems


def write_evidence(folder):
    tree = synthetic.build(folder / "tree")
    finding, bisected = evidenced.regression(tree)
    return evidence.add(folder / "results", finding.id, "box", bisected)


def write_journal(folder):
    path = folder / "box.json"
    night = measure.PlannedNight(began=1.6e9, commits=("a" * 40, "b" * 40), heartbeat=False, judged_from=1.5e9)
    record = measure.NightJournal(path, "setting")
    record.end(["c"], ["c", "d"], ["e"])
    record.begin(night)
    return path


def night(path):
    return measure.NightJournal(path, "setting").record, ()


def write_peaks(folder):
    document = test_device_figures.document(test_device_figures.a_machine())
    return ceilings.keep(folder, document)


def peaks(path):
    sessions = [*ceilings.measured_here(path.parents[4], "cpu")]
    return sessions, () if sessions else ("thrown away",)


def figure(path):
    value = reported.read_figure(path, "seconds")
    return value, () if value else ("thrown away",)


def write_figure(folder):
    reported.write_figure(folder / "gauge.json", {"seconds": 0.0012345})
    return folder / "gauge.json"


def info(path):
    build = path.parent
    code = fingerprint.code_hashes(build), compiled.ptxas_of(fingerprint.build_info(build))
    document = documents.read(path)
    for name, target in (("registers", "sm_90"), ("code_bytes", "avx2"), ("spill_bytes", "sm_80")):
        with contextlib.suppress(NotImplementedError):
            compiled.figure(document, "matmul", name, target)
    return code, ()


def manifest(path):
    return archive.Manifest.from_json(path.read_text(encoding="utf-8", errors="replace"), str(path)), ()


def write_tar(folder):
    return node.tar(folder, synthetic.make_repository(folder / "r", synthetic.MESSAGES, "Ada"), measured=(0,))


def unpacked(path, count=[0]):  # noqa: B006 - counts the folders
    count[0] += 1
    into = path.parent / f"into-{count[0]}"
    into.mkdir()
    message = archive.read(path, into)
    return (message, node.contents(into)), ()


def read_blocks(path):
    times = rounds.block_times(path)  # nothing tells that a line is gone, as after a power cut
    return times, () if len(set(times)) == BLOCKS else ("a line is gone",)


def write_blocks(folder):
    lines = [
        documents.with_checksum(json.dumps({"began": 1.7e9 + 60.125 * number, "rounds": 2})) for number in range(BLOCKS)
    ]
    return file_of("blocks.jsonl", "".join(f"{line}\n" for line in lines))(folder)


def checked(path):
    return documents.read_checked(path), ()


def write_checked(folder):
    state = {"machine": "cpu of box", "slices": 3, "done": {"track 1 2": 0, "tests": 1}}
    return file_of("state.json", documents.with_checksum(json.dumps(state)) + "\n")(folder)


def write_death(folder):
    record = isolation.ProcessJournal(folder)
    record._write(doing="timed", implementation="mine", case="small")
    record.record_death(record.step(), "died of SIGSEGV")
    return folder / isolation.DEATHS


def death(path):
    return isolation.ProcessJournal(path.parent).death("mine", "small"), ()


def listing(path):
    return writer._read_manifest(path.parent), ()


def write_listing(folder):
    files = {f"data/{name}.js": [100 + number, "ab" * 32, "cd" * 32] for number, name in enumerate("abc")}
    text = documents.with_checksum(json.dumps({"format": 1, "files": files}))
    return file_of(writer.MANIFEST, text)(folder)


def ran(program, path):
    return foreign.read(program, [path]), ()


def definition(path):
    problem = problem_formats.problem_class(path.with_name("d.json"), None)()
    for test in problem.generate_test_cases():
        problem._extents(dict.fromkeys(problem.variable, 1))
        assert isinstance(test["name"], str)
    return None, ()


def task(path):
    problem = problem_formats.problem_class(path, None)()
    return [test["name"] for test in problem.generate_test_cases()], ()


def beside(written, others):
    """Return a function that writes a file, with others beside it."""

    def write(folder):
        for name, text in others.items():
            file_of(name, text)(folder)
        return file_of(*written)(folder)

    return write


def write_cache(folder):
    tree = synthetic.build(folder / "tree")
    opened = past.open(tree.results, tree.repository, folder=folder / "cache", rounds=True)
    len(Verdicts(opened))
    return folder / "cache" / "report.sqlite"


def cached(path):
    tree = path.parents[1] / "tree"
    opened = past.open(tree / "results", tree / "repository", folder=path.parent, rounds=True)
    commits = [[*opened.at(sha)] for sha in opened.paths]
    levels = Verdicts(opened)
    return (commits, [levels[key].points for key in opened.keys]), ()


INFO = {
    "cxx_compiler": "GNU",
    "kernels": {
        "matmul": {
            "code_hash": "ab" * 32,
            "code_bytes": {"avx2": 9468},
            "ptxas": [
                {
                    "architecture": name,
                    "registers": 30,
                    "shared_bytes": 0,
                    "spill_load_bytes": 4,
                    "spill_store_bytes": 4,
                }
                for name in ("sm_80", "sm_90")
            ],
        }
    },
}
OTHERS = {name: text for name, text in test_public_problems.TASK_FILES.items() if name != "task.yml"}


def write_verdict(folder):
    record = store.NightRecord(
        machine="box", when=WHEN, summary="2 findings", exit_status=10, measured=24, failures=("a: b",)
    )
    return store.write_night(folder, record)


def write_manifest(folder):
    return file_of("manifest.json", node.manifest(("a" * 40, "b" * 40)).to_json())(folder)


GOOGLE = json.dumps(test_foreign.google_benchmark(*test_foreign.COPIES))
NVBENCH = json.dumps(test_foreign.nvbench(test_foreign.state("a", [("N", "1024")], batch=1e-6, cold=2e-6)))
WORKLOADS = "".join(json.dumps({"workload": {"axes": {"batch_size": size}}}) + "\n" for size in (32, 7))
DEFINITION = test_public_problems.definition()
FORMATS = {
    "asv.conf.json": Format(
        beside(("asv.conf.json", (ROOT / "asv.conf.json").read_bytes()), {"benchmarks/__init__.py": ""}),
        settings,
        True,
        8,
    ),
    "pyproject.toml": Format(file_of("pyproject.toml", PROJECT), section, True),
    "kernel-velocity.toml": Format(
        file_of("kernel-velocity.toml", PROJECT.partition("velocity]\n")[2].replace("tool.kernel-velocity.", "")),
        section,
        True,
    ),
    "machines": Format(file_of("home/.asv-machine.json", json.dumps(MACHINES, indent=4)), machine_file, True),
    "finding": Format(lambda folder: store.write(folder, full()), functools.partial(stored, Finding)),
    "expectation": Format(
        lambda folder: store.write(folder, expectation()), functools.partial(stored, Expectation), True
    ),
    "verdict": Format(write_verdict, functools.partial(stored, store.NightRecord)),
    "evidence": Format(write_evidence, read_evidence, slow=8),
    "journal": Format(write_journal, night),
    "peaks": Format(write_peaks, peaks, slow=4),
    "figure": Format(write_figure, figure),
    "build-info": Format(file_of("build/build-info.json", json.dumps(INFO)), info, True),
    "node's manifest": Format(write_manifest, manifest, True),
    "node's tar": Format(write_tar, unpacked, slow=8),
    "blocks": Format(write_blocks, read_blocks),
    "state of a slice": Format(write_checked, checked),
    "deaths": Format(write_death, death),
    "site": Format(write_listing, listing),
    "Google Benchmark": Format(file_of("g.json", GOOGLE), functools.partial(ran, "google-benchmark"), True),
    "nvbench": Format(file_of("n.json", NVBENCH), functools.partial(ran, "nvbench"), True),
    "definition": Format(file_of("d.json", DEFINITION["d.json"]), definition, True),
    "workloads": Format(beside(("d.jsonl", WORKLOADS), DEFINITION), definition, True),
    "task": Format(beside(("task.yml", test_public_problems.TASK_FILES["task.yml"]), OTHERS), task, True, 8),
    "cache": Format(write_cache, cached, slow=24),
}


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_file_is_named_or_says_the_same(tmp_path, monkeypatch, name):
    kind = FORMATS[name]
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    path = kind.write(tmp_path)
    monkeypatch.chdir(path.parent)
    sound, (expected, problems) = path.read_bytes(), kind.read(path)
    assert not problems
    for done, damaged in mutants(sound, SEED, max(COUNT // kind.slow, 3)):
        path.write_bytes(damaged)
        check(kind, path, expected, f"{name}, seed {SEED}: {done}")
    for how in PATHS:
        path.unlink()
        path.write_bytes(sound)
        damage_path(path, how)
        check(kind, path, expected, f"{name}: {how}", is_there=how not in ("removed", "link to nothing"))
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        path.touch()


def check(kind, path, expected, what, is_there=True):
    """Check that a damaged file is refused in a line, that the damage is named, or that the file says the same."""
    try:
        value, problems = kind.read(path)
    except REFUSED as error:
        assert "\n" not in str(error), what
        return
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    assert not any("\n" in line for line in problems), what
    assert problems or kind.edited or not is_there or value == expected, what
