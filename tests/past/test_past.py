"""The store says what reading everything says, reads only what changed, and survives what happens to its cache."""

import dataclasses
import errno
import json
import math
import mmap
import os
import shutil
import sqlite3
import types

import git
import numpy as np
import pytest

from kernel_velocity.past import cache, layout, packing, past, reading
from kernel_velocity.results import reader
from kernel_velocity.site import model
from tests import large_tree, one_thread, synthetic
from tests.past.one_by_one import everything
from tests.site.pages import make_na


def read(tree):
    return model.read(tree.results, tree.repository)


def cache_of(tree):
    return tree.results.parent / past.CACHE_FOLDER / cache.FILE_NAME


def values_of(site):
    """Return everything that a site says of its values, through its series and through its commits."""
    series = {
        (key, site.line[columns.position[entry]]): columns.measurement(entry, site.line)
        for key in site.keys
        for columns in [site.series(key)]
        for entry in range(len(columns))
    }
    return series, {
        (measurement.key, measurement.commit): measurement for sha in site.measured for measurement in site.past.at(sha)
    }


def check_same(values, wanted):
    """Check measurements, to the last bit. How one was adjusted, the site says of the newest only."""
    assert values.keys() == wanted.keys()
    for pair, measurement in wanted.items():
        adjusted = None if measurement.adjusted is None else dataclasses.replace(measurement.adjusted, fit=None)
        assert values[pair] == dataclasses.replace(measurement, adjusted=adjusted)


def check(tree, site=None, notes=()):
    """Check a site against everything read at once. Return it."""
    site = read(tree) if site is None else site
    data = everything(tree)
    series, commits = values_of(site)
    check_same(commits, {(measurement.key, measurement.commit): measurement for measurement in data.measurements})
    check_same(series, {(value.key, value.commit): value for trend in data.trends.values() for value in trend})
    assert set(site.keys) == set(data.trends)
    assert (site.platforms, site.past.machines) == (data.platforms, data.machines)
    assert site.past.problems == (*notes, *data.problems)
    return site


def path_of(tree, index, machine=synthetic.MACHINE):
    return tree.results / machine / f"{tree.commits[index][:8]}-{synthetic.ENVIRONMENT}.json"


def names(tree, *indices):
    return tuple(sorted(f"{synthetic.MACHINE}/{path_of(tree, index).name}" for index in indices))


def rewrite(path, change):
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def halve(data):
    for row in data["results"].values():
        for column in (0, 5, 6):
            row[column] = [value and value / 2 for value in row[column]]


def test_second_open_reads_nothing(tree):
    assert check(tree).past.directory.read == names(tree, 0, 1, 2, 3, 4)
    assert check(tree).past.directory.read == ()


def test_changed_results_file_is_read_again(tree):
    read(tree)
    rewrite(path_of(tree, 1), halve)
    assert check(tree).past.directory.read == names(tree, 1)


@pytest.mark.parametrize("suffix", [".jsonl", ".failures.jsonl", ".sessions.jsonl"])
def test_changed_telemetry_is_read_again(tree, suffix):
    read(tree)
    beside = path_of(tree, 2).parent / "telemetry" / f"{path_of(tree, 2).stem}{suffix}"
    beside.write_text("" if suffix == ".jsonl" else "not a line of it\n")
    site = check(tree)
    assert site.past.directory.read == names(tree, 2)
    assert len(site.notes) == (suffix != ".jsonl")
    assert check(tree).past.directory.read == ()  # its note is kept
    beside.unlink()
    assert check(tree).past.directory.read == names(tree, 2)


def test_file_of_equal_time_and_size_is_read_again(tree):
    old = path_of(tree, 1).with_suffix(".old")
    shutil.copy2(path_of(tree, 1), old)
    rewrite(path_of(tree, 1), halve)
    read(tree)
    old.replace(path_of(tree, 1))
    assert check(tree).past.directory.read == names(tree, 1)
    text = path_of(tree, 1).read_text()
    before = path_of(tree, 1).stat()
    path_of(tree, 1).write_text(text.replace("0.00", "0.01"))
    os.utime(path_of(tree, 1), ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path_of(tree, 1).stat().st_size == before.st_size
    assert check(tree).past.directory.read == names(tree, 1)


def test_removed_and_restored_files(tree):
    read(tree)
    text = path_of(tree, 3).read_text()
    path_of(tree, 3).unlink()
    site = check(tree)
    assert (site.past.directory.read, tree.commits[3] in site.measured) == ((), False)
    path_of(tree, 3).write_text(text)
    assert check(tree).past.directory.read == names(tree, 3)
    shutil.rmtree(tree.results / synthetic.MACHINE)
    assert check(tree).keys == ()


def test_line_moves_with_head(tree):
    read(tree)
    git.Repo(tree.repository).git.reset("--hard", tree.commits[2])
    site = check(tree)
    assert site.past.directory.read == ()
    assert site.measured[:3] == tree.commits[:3]
    assert set(site.measured[3:]) == set(tree.commits[3:])


def test_deepened_clone_shifts_all_places(tree, tmp_path):
    clone = git.Repo.clone_from(tree.repository.as_uri(), tmp_path / "clone", depth=3)
    shifted = dataclasses.replace(tree, repository=tmp_path / "clone")
    assert len(check(shifted).measured) == 3
    clone.git.fetch("--unshallow")
    site = check(shifted)
    assert (site.past.directory.read, site.measured) == ((), tree.commits)


def test_benchmarks_json_is_read_every_time(tree):
    read(tree)
    benchmarks = tree.results / "benchmarks.json"
    rewrite(benchmarks, lambda data: data["matmul.Cpu.time_hot"].update(version="2"))
    site = check(tree)
    note = "matmul.Cpu.time_hot was recorded in another version (1, now it is 2): 30 values kept, not shown"
    assert site.notes == (note,)
    rewrite(benchmarks, lambda data: data.pop("add_mul_exp.Cpu.time_hot"))
    check(tree)
    benchmarks.write_text("")
    assert check(tree).past.directory.read == ()


def test_value_without_version_and_value_in_two_files(tree):
    rewrite(path_of(tree, 1), lambda data: [row.__setitem__(2, None) for row in data["results"].values()])
    shutil.copy(path_of(tree, 2), path_of(tree, 2).with_name("again.json"))
    site = check(tree)
    assert len(site.keys) == 12
    (note,) = site.notes
    assert "stands in two files" in note and "12 values of 2 such benchmarks" in note


def test_corrected_file_leaves_no_series_behind(tree):
    good = path_of(tree, 0).read_text()
    path_of(tree, 0).write_text(good.replace("'eager'", "'eagre'"))
    read(tree)
    path_of(tree, 0).write_text(good)
    site = read(tree)
    assert set(site.past.layout.keys) == set(site.keys)  # of the cache's names, those that a file still has


def truncate(path):
    with path.open("r+b") as stream:
        stream.truncate(path.stat().st_size // 2)


def overwrite_the_middle(path):
    content = path.read_bytes()
    path.write_bytes(content[:40_000] + b"\xff" * 60_000 + content[100_000:])


def number_a_version(path):
    with sqlite3.connect(path) as connection:
        connection.execute("""UPDATE name SET value = replace(value, '"1"]', '1]') WHERE kind = 'series'""")


def change_the_identity(path):
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE made SET identity = 'another'")


def change_a_bit(table, column):
    """Return a function that flips a bit of what a table has in a column."""

    def damage(path):
        with sqlite3.connect(path) as connection:
            rows = connection.execute(f"SELECT rowid, {column} FROM {table} WHERE length({column}) > 0").fetchall()
            number, blob = rows[0]
            changed = blob[:-3] + bytes([blob[-3] ^ 1]) + blob[-2:]
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", [changed, number])

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        change_a_bit("file", "entries"),
        change_a_bit("adjustment", "entries"),
        truncate,
        overwrite_the_middle,
        change_the_identity,
        number_a_version,
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"not a database"),
        lambda path: path.unlink(),
    ],
)
def test_damaged_or_foreign_cache_is_made_anew(tree, damage):
    read(tree)
    damage(cache_of(tree))
    assert len(check(tree).past.directory.read) == 5
    assert check(tree).past.directory.read == ()


def test_cache_of_another_repository_is_made_anew(tree, tmp_path):
    read(tree)
    shutil.copytree(tree.repository, tmp_path / "copy")
    other = dataclasses.replace(tree, repository=tmp_path / "copy")
    assert len(check(other).past.directory.read) == 5


def test_interrupted_reading_leaves_the_old_cache(tree, monkeypatch):
    read(tree)
    for index in (1, 2, 3):
        rewrite(path_of(tree, index), halve)
    packed, whole = [], packing.pack

    def pack(file, names):
        if packed:
            raise KeyboardInterrupt
        packed.append(whole(file, names))
        return packed[0]

    with monkeypatch.context() as patch:
        patch.setattr(reading.packing, "pack", pack)
        with pytest.raises(KeyboardInterrupt):
            read(tree)
    assert [path.name for path in cache_of(tree).parent.iterdir()] == [cache.FILE_NAME]
    assert check(tree).past.directory.read == names(tree, 1, 2, 3)


def test_unusable_cache_is_noted(tree, tmp_path):
    (tmp_path / "file").write_text("")
    for _ in range(2):
        site = model.read(tree.results, tree.repository, tmp_path / "file")
        assert len(site.past.directory.read) == 5
        (note,) = site.notes
        assert note.startswith("the cache cannot be used, so everything was read anew: ")
        check(tree, site, notes=(note,))


def full(*_args):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def full_to_sqlite(opened, save=cache.Cache.save):
    """Save a cache. On the disk SQLite says that there is no room."""
    if opened.folder is not None:
        raise sqlite3.OperationalError("database or disk is full")
    save(opened)


def full_once(monkeypatch):
    """Have no room for the scratch file. Without a cache it then lies in the temporary folder, where there is some."""
    calls = [os.posix_fallocate, full]

    def allocate(*args):
        calls.pop()(*args)

    monkeypatch.setattr(layout.os, "posix_fallocate", allocate)


def full_to_sqlite_always(monkeypatch):
    monkeypatch.setattr(cache.Cache, "save", full_to_sqlite)


@pytest.mark.parametrize("what", [full_once, full_to_sqlite_always])
def test_full_disk_is_noted(tree, monkeypatch, what):
    with monkeypatch.context() as patch:
        what(patch)
        site = read(tree)
    (note,) = site.notes
    assert note.startswith("the cache cannot be used") and ("full" in note or "No space" in note)
    check(tree, site, notes=(note,))


def test_scratch_file_has_no_holes(tree, monkeypatch):
    """To write into a hole of a mapped file on a full disk is a bus error: it ended a night without its verdict."""
    sizes = []

    def mapped(descriptor, size, of=layout.mmap.mmap):
        sizes.append((os.fstat(descriptor).st_blocks * 512, size))
        return of(descriptor, size)

    monkeypatch.setattr(layout, "mmap", types.SimpleNamespace(mmap=mapped, MADV_DONTNEED=mmap.MADV_DONTNEED))
    read(tree)
    ((held, size),) = sizes
    assert held >= size


def test_locked_cache_is_noted(tree, monkeypatch):
    read(tree)
    monkeypatch.setattr(cache, "_PATIENCE", 0.05)
    with sqlite3.connect(cache_of(tree), isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        site = read(tree)
    assert len(site.past.directory.read) == 5
    assert "locked" in site.notes[0]
    assert check(tree).past.directory.read == ()


@pytest.mark.parametrize("machine", ["<i>&\N{ROCKET}\u202e", os.fsdecode(b"m\xff"), "x" * 200, "a'; DROP TABLE file"])
def test_odd_machine_names(tmp_path, machine):
    tree = synthetic.build(tmp_path, machine=machine)
    for _ in range(2):
        site = check(tree)
    assert site.past.directory.read == ()
    assert site.keys[0].machine == machine


@pytest.fixture(scope="module")
def gauged(tmp_path_factory):
    """A tree whose rounds have gauges: two benchmarks, each of 20 series."""
    folder = tmp_path_factory.mktemp("gauged")
    shape = large_tree.Shape(commits=4, series=40, telemetry=True)
    commits = large_tree.build(folder, shape)
    return synthetic.Tree(repository=folder / "repository", results=folder / "results", commits=commits)


def test_adjusted_times_of_changed_series_only(gauged):
    site = check(gauged)
    assert (
        site.past.adjustments.computed
        == sum(measurement.rounds is not None for measurement in values_of(site)[1].values())
        > 150
    )
    assert sum(measurement.adjusted is not None for measurement in values_of(site)[1].values()) > 50
    assert check(gauged).past.adjustments.computed == 0
    folder = gauged.results / large_tree.MACHINE / "telemetry"
    path = folder / f"{gauged.commits[2][:8]}-{large_tree.ENVIRONMENT}.jsonl"
    lines = [line for line in path.read_text().splitlines(keepends=True) if not _is_of(line, "eager", "float32-1M")]
    path.write_text("".join(lines))
    whole = 40 - 2  # of the file, as it was read again
    assert check(gauged).past.adjustments.computed == whole + 2 * 3  # and of two series, their other three commits


def _is_of(line, *params):
    return json.loads(line)["p"] == list(params)


READ = """
import os, sys
from pathlib import Path
from kernel_velocity.past import reading
from kernel_velocity.site import model as site
from kernel_velocity.errors import KernelVelocityError
os.sched_getaffinity = lambda _: {0, 1}
reading.FILES_A_PROCESS, read_one, here = 2, reading._read, os.getpid()
results, repository, cache = sys.argv[1:]

def read(path, signature, names):
    if os.getpid() != here:
        os._exit(3)
    return read_one(path, signature, names)

reading._read = read
try:
    site.read(Path(results), Path(repository), Path(cache))
except KernelVelocityError as error:
    print(error)
"""


def test_killed_reading_process_is_an_error(gauged, tmp_path):
    notes = one_thread.run(READ, gauged.results, gauged.repository, tmp_path).stdout
    assert notes == ("the process that makes a part of the site ended with status 3, without a result: run it again\n")
    check(gauged, model.read(gauged.results, gauged.repository, tmp_path))


def test_digest_changes_with_results_and_costs(tree):
    shutil.rmtree(path_of(tree, 4).parent / "telemetry")  # by which times of older commits are adjusted anew
    before = read(tree)

    def change(data):
        data["results"]["matmul.Cpu.time_hot"][0][0] = 7.0

    rewrite(path_of(tree, 4), change)
    site = read(tree)
    assert all(site.digest(key) != before.digest(key) for key in site.keys)
    assert all(site.digest(key, 2) == before.digest(key, 2) for key in site.keys)
    rewrite(tree.results / "benchmarks.json", lambda data: data["matmul.Cpu.time_hot"]["flops"].clear())
    again = read(tree)
    assert all((again.digest(key) == site.digest(key)) == key.benchmark.startswith("add") for key in site.keys)


def test_implementation_of_the_other_device_is_left_out(tree):
    name = "matmul.Cpu.time_hot"
    for index in range(4):
        make_na(tree, index, name, list(synthetic.CASES[name]), ("triton",))
    assert {key.implementation for key in check(tree).keys if key.benchmark == name} == {"eager", "native", "triton"}
    make_na(tree, 4, name, list(synthetic.CASES[name]), ("triton",))
    assert {key.implementation for key in check(tree).keys if key.benchmark == name} == {"eager", "native"}
    for index in range(5):
        make_na(tree, index, name, list(synthetic.CASES[name]), ("native",))
    assert {key.implementation for key in check(tree).keys if key.benchmark == name} == {"eager", "native"}


def test_tracked_values_are_series(tree):
    for index, error in ((0, 1e-7), (3, 2e-7), (4, None)):
        rewrite(path_of(tree, index), lambda data, error=error: data["results"].update(tracked_rows(error)))
    copy = path_of(tree, 3).with_stem(f"{path_of(tree, 3).stem}-again")
    shutil.copy(path_of(tree, 3), copy)
    rewrite(max(copy, path_of(tree, 3)), lambda data: data["results"].update(tracked_rows(3e-7)))  # the first counts
    for site in (past.open(tree.results, tree.repository), past.open(tree.results, tree.repository)):  # and stored
        (errors,) = site.tracked.values()
        assert (errors.key.benchmark, errors.key.implementation) == ("matmul.Cpu.track_max_error", "native")
        assert errors.position.tolist() == [0, 3]
        assert errors.value.tolist() == [1e-7, 2e-7]
        assert errors.began.tolist() == [5.0, 5.0]


def tracked_rows(error):
    """Return rows with one value of 0 or more, which comes second."""
    axes = [["'eager'", "'native'"], ["'a'"]]
    return {"matmul.Cpu.track_max_error": [[-1.0, error], axes, "1", 5000, 1.0, None, None]}


def test_open_with_some_commits(tree, monkeypatch):
    whole = past.open(tree.results, tree.repository)
    paths = []
    monkeypatch.setattr(
        reader, "read_file", lambda path, notes, read=reader.read_file: paths.append(path) or read(path, notes)
    )
    site = past.open(tree.results, tree.repository, commits=[tree.commits[1], tree.commits[3]])
    assert sorted(paths) == sorted([path_of(tree, 1), path_of(tree, 3)])
    assert set(site.commits) == {tree.commits[1], tree.commits[3]}
    for sha in site.commits:
        assert [dataclasses.replace(measurement, adjusted=None) for measurement in whole.at(sha)] == list(site.at(sha))


def test_rows_without_telemetry_are_packed_as_value_by_value(tree):
    shutil.rmtree(tree.results / synthetic.MACHINE / "telemetry", ignore_errors=True)
    path = min((tree.results / synthetic.MACHINE).glob("[0-9a-f]*.json"))
    document = json.loads(path.read_text())
    row = next(row for name, row in document["results"].items() if name.endswith("time_hot"))
    failed, unbounded, *_ = (index for index, value in enumerate(row[0]) if not math.isnan(value))
    row[0][failed] = row[5][unbounded] = row[6][unbounded] = None  # the ends of asv's interval
    path.write_text(json.dumps(document))
    packed = []
    plain = reader.read_file(path, [])
    one_by_one = {(row.benchmark, *pair): () for row, pair in plain.series()}  # as if each had a failure
    for file in (plain, dataclasses.replace(plain, failures=one_by_one)):
        names = packing.Names()
        entries = packing.pack(file, names).entries
        texts = [[number and names.texts[number] for number in entries["interval_method"].tolist()]]
        texts += [[number and names.remarks[number] for number in entries["remark"].tolist()]]
        packed.append((texts, entries))
    (texts, entries), (texts_of_values, values) = packed
    assert texts == texts_of_values
    for column in set(entries.dtype.names) - {"interval_method", "remark"}:
        np.testing.assert_array_equal(entries[column], values[column])
    assert np.isnan(entries["began"]).any() and np.isfinite(entries["began"]).any()
