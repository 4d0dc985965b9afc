"""Damaged files: no traceback, and no number that changes without a word.

What asv alone writes cannot be checked: units, work and versions in benchmarks.json, values of `track_` benchmarks, and
times without telemetry. Git's own hash covers those that are committed.
"""

import argparse
import functools
import io
import json
import math
import shutil
import tempfile
from pathlib import Path

import pytest

from kernel_velocity.errors import KernelVelocityError
from kernel_velocity.harness import spool, telemetry
from kernel_velocity.harness.documents import with_checksum
from kernel_velocity.harness.telemetry import Round
from kernel_velocity.results import backup, failures, foreign, ingest, lines, merge, reader, sessions, traces
from kernel_velocity.results.asv_file import StoredFile
from kernel_velocity.results.failures import Failure
from kernel_velocity.results.sessions import SessionFacts
from kernel_velocity.series import packing
from tests.mutations import PATHS, damage_path, mutants
from tests.results.test_foreign import entry, google_benchmark

COMMIT, ENVIRONMENT = "c0ffee00" * 5, "host-py3.11-torch2.0"
BEGAN = 1_767_225_600.0
PARAMS = [(name, case) for name in ("eager", "native") for case in ("float32-1k", "float32-1M")]
NAME = "matmul.Cpu.time_hot"
CONF = {"version": 1, "project": "p", "repo": ".", "benchmark_dir": "benchmarks", "environment_type": "host"}


def round_of(params, number):
    """Return a round of a series, each with another estimate."""
    estimate = (1e-4 + 1e-5 * PARAMS.index(params)) * math.exp(0.01 * math.sin(7 * number + len(params[0])))
    facts = {"half_width": 0.01, "cv": 0.1, "core_gauge": 3e-5, "memory_gauge": 7e-5, "load": 1.0, "flags": ()}
    return Round(
        benchmark=NAME, params=params, time=BEGAN + 10 * number + PARAMS.index(params), estimate=estimate, n=64,
        batch=4, spent=0.1, stop="converged", method="a1b2c3d4", launch=f"l{number}", **facts,
    )  # fmt: skip


ROUNDS = [round_of(params, number) for number in range(8) for params in PARAMS]
FAILURES = [Failure(benchmark=NAME, params=("triton", case), time=BEGAN, error="no GPU: é", died=True) for case in "ab"]
SESSIONS = [SessionFacts(began=BEGAN + t, facts={"cpu": "C", "n": str(t)}, code={"matmul": "ab"}) for t in range(3)]


@functools.cache
def recorded():
    """Return asv's file of a commit, with all of asv's statistics and samples."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m", f"{lines.stem(COMMIT, ENVIRONMENT)}.json")
        file = StoredFile.create(path, commit=COMMIT, date=BEGAN, environment=ENVIRONMENT, facts={"cpu": "C"})
        samples = {pair: [round_.estimate for round_ in ROUNDS if round_.params == pair] for pair in PARAMS}
        file.put(NAME, "1", {tuple(map(repr, pair)): estimates for pair, estimates in samples.items()}, BEGAN)
        file.save()
        return path.read_bytes()


def record(folder, *, beside=True):
    """Write the results file of a commit, and what lies beside it. Return its path."""
    path = folder / "results" / "m" / f"{lines.stem(COMMIT, ENVIRONMENT)}.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(recorded())
    (path.parent / "machine.json").write_text('{"machine": "m", "cpu": "C", "version": 1}')
    (folder / "asv.conf.json").write_text(json.dumps(CONF))
    if beside:
        lines.append(lines.beside(path, lines.ROUNDS), [*map(telemetry.encode, ROUNDS)])
        lines.append(lines.beside(path, failures.SUFFIX), [*map(failures.encode, FAILURES)])
        lines.append(lines.beside(path, sessions.SUFFIX), [*map(sessions.encode, SESSIONS)])
    return path


def values(path):
    """Return the values of the recorded series, the records beside them, and the notes."""
    notes = []
    file = reader.read_file(path, notes)
    if file is None:
        return {}, set(), notes
    names = packing.Names()
    packed = packing.pack(file, names, notes)
    columns = ("outcome", "rounds", "seconds", "low", "high")
    series = {names.series[int(row["series"])][2:5]: tuple(row[key] for key in columns) for row in packed.entries}
    records = {line for several in (*file.rounds.values(), *file.failures.values()) for line in several}
    return series, records | set(map(sessions.encode, file.sessions)), notes


def damage_results(folder, data):
    """Damage asv's file: each of its values stays, or a note says what is wrong."""
    path = record(folder)
    before, records, _ = values(path)
    path.write_bytes(data)
    after, others, notes = values(path)
    assert notes or {key: after.get(key) for key in before} == before
    assert others <= records


def damage_rounds(folder, data):
    path = record(folder)
    before, records, _ = values(path)
    lines.beside(path, lines.ROUNDS).write_bytes(data)
    after, others, notes = values(path)
    assert notes or after == before or is_without_telemetry(after, before)
    assert others <= records


def is_without_telemetry(after, before):
    """Whether values without any telemetry, which have a footnote, are asv's own: the medians of the same rounds."""
    pairs = [(after[key], before[key]) for key in before]
    return all(now == then or (now[1] == -1 and now[2] == pytest.approx(then[2], rel=1e-12)) for now, then in pairs)


def damage_beside(suffix):
    """Damage failures or sessions: what is read was recorded. A line that is gone as a whole is not missed."""

    def damage(folder, data):
        path = record(folder)
        before, records, _ = values(path)
        lines.beside(path, suffix).write_bytes(data)
        after, others, _ = values(path)
        assert others <= records
        assert after == before

    return damage


def damage_stored(folder, data):
    """Damage the file that ingest and merge change: it is refused, or it can be changed and written."""
    path = record(folder)
    other = record(folder / "other")
    path.write_bytes(data)
    merge.merge_file(path, other, {NAME: "1"})
    file = StoredFile(path)
    for series, _ in file.series():
        file.withdraw(series)
    file.save()


def damage_spool(folder, data):
    """Damage the spool: what moves beside the results was measured, and what does not move is named."""
    path = record(folder, beside=False)
    waiting = spool.spool_path(folder, ENVIRONMENT, COMMIT)
    waiting.parent.mkdir(parents=True)
    waiting.write_bytes(data)
    _, records, _ = values(record(folder / "other"))
    done = ingest.ingest(folder, now=BEGAN)
    _, moved, notes = values(path)
    assert moved <= records
    assert len(moved) == len(ROUNDS) or done.problems or notes or done.moved == len(moved)


def run_ingest(folder):
    """Run the command. Return its exit status."""
    parser = argparse.ArgumentParser()
    ingest.add_arguments(parser)
    out, err = io.StringIO(), io.StringIO()
    return ingest.run(parser.parse_args(["--root", str(folder)]), out, err)


def damage_backup(folder, data):
    """Damage a backup: the recorded file stays as it is, or is replaced by a whole one."""
    path = record(folder)
    before, _, _ = values(path)
    copy = folder / backup.FOLDER / "m" / path.name
    copy.parent.mkdir(parents=True)
    copy.write_bytes(data)
    assert run_ingest(folder) in (0, 2)
    assert values(path)[0].keys() == before.keys()
    assert not copy.exists()


def damage_trace(folder, data):
    path = folder / "trace.json"
    path.write_bytes(TRACE.encode())
    (before,) = traces.read([path])
    path.write_bytes(data)
    (after,) = traces.read([path])
    assert after == before


TRACE = with_checksum(
    json.dumps({"format": 1, "unit": "s", "batch": 4, "seconds": [1e-5 + 1e-8 * number for number in range(40)]})
)


def damage_foreign(folder, data):
    path = folder / "run.json"
    path.write_bytes(data)
    foreign.read("google-benchmark", path)


def damage_list(folder, data):
    """Damage benchmarks.json and machine.json."""
    for name in ("benchmarks.json", "machine.json"):
        (folder / name).write_bytes(data)
    reader.read_benchmarks(folder / "benchmarks.json", [])
    reader.read_machine(folder, [])


def text_of(records, encode):
    return "".join(f"{encode(record)}\n" for record in records).encode()


LISTED = {
    "version": 2,
    "machine": "m",
    NAME: {
        "params": [["'eager'"], ["'a'", "'b'"]], "version": "1", "unit": "seconds", "flops": {"a": 2e6, "b": 3},
        "bytes": {"a": 2e6},
    },
}  # fmt: skip
FORMATS = {  # what damages, and what is damaged; None: asv's file
    "results": (damage_results, None),
    "stored": (damage_stored, None),
    "backup": (damage_backup, None),
    "rounds": (damage_rounds, text_of(ROUNDS, telemetry.encode)),
    "failures": (damage_beside(failures.SUFFIX), text_of(FAILURES, failures.encode)),
    "sessions": (damage_beside(sessions.SUFFIX), text_of(SESSIONS, sessions.encode)),
    "spool": (damage_spool, text_of(ROUNDS, telemetry.encode)),
    "trace": (damage_trace, TRACE.encode()),
    "foreign": (damage_foreign, json.dumps(google_benchmark(entry("BM_Copy/8", 1e-6), entry("BM", 1e-3))).encode()),
    "list": (damage_list, json.dumps(LISTED).encode()),
}


def campaign(folder, name, seed, count):
    """Damage a format's file `count` times. An error that a user can cure is an answer, any other exception is not."""
    damage, data = FORMATS[name]
    data = recorded() if data is None else data
    wrong = []
    for number, (done, damaged) in enumerate(mutants(data, seed, count)):
        scratch = folder / str(number)
        scratch.mkdir()
        try:
            damage(scratch, damaged)
        except KernelVelocityError as error:
            assert len(str(error).splitlines()) == 1
        except Exception as error:  # noqa: BLE001 - every one is a finding, and all are wanted
            wrong.append(f"{done}: {type(error).__name__}: {str(error).splitlines()[:1]}")
        shutil.rmtree(scratch)
    print(f"{name}: {count} damaged files, seed {seed}")
    assert not wrong, f"{len(wrong)} of {count}:\n" + "\n".join(wrong[:20])


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_file(tmp_path, name):
    campaign(tmp_path, name, 1, 40)


@pytest.mark.parametrize("how", PATHS)
@pytest.mark.parametrize("what", ["", lines.ROUNDS, failures.SUFFIX, sessions.SUFFIX, "machine.json"])
def test_path_that_is_no_file(tmp_path, how, what):
    path = record(tmp_path)
    target = path.with_name(what) if what == "machine.json" else lines.beside(path, what) if what else path
    damage_path(target, how)
    values(path)
    reader.read_machine(path.parent, [])
    spool.append(spool.spool_path(tmp_path, ENVIRONMENT, COMMIT), ROUNDS[0])
    assert run_ingest(tmp_path) in (0, 2)
