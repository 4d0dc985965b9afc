"""Files of strangers among the results: the report of all the others is made, in about its usual time."""

import io
import json
import os
import random
import shutil

import pytest

from kernel_velocity.__main__ import main
from tests.mutations import PATHS, damage_path, mutants

STRANGERS = [f"stranger-{number}" for number in range(5)]
FILES = 100  # of strangers in a tree: five machines with sixteen files each, and the findings
TRIES = 3  # of a report that took longer than twice the usual: the machine may be busy
NAMES = (
    *("x\0y", "x\udc80y", "../../../etc", "a" * 260, "é" * 130, ".", "..", "a/b", "con\x1b[2J\x07", "\u202eexe.x", ""),
    *("<script>alert(1)</script>", "{{ 7 * 7 }}", "a\nb", "-rf", "%00", "C:\\x", "é"),
)


def endless(path, _random):
    path.symlink_to("/dev/zero")


def pipe(path, _random):
    os.mkfifo(path)


def huge(path, _random):
    with path.open("wb") as stream:
        stream.truncate(10 << 30)  # no block of it is on the disk


def many_lines(path, _random):
    path.write_text('{"b":"matmul.Cpu.time_hot","p":["eager","x"],"t":1.0,"est":1.0}\n' * 300_000)


def one_line(path, _random):
    path.write_bytes(b"{" * (8 << 20))


def damaged(path, rng):
    damage_path(path, rng.choice([how for how in PATHS if how != "removed"]))


STRANGE = (endless, pipe, huge, one_line, damaged, damaged)


def named(data, rng):
    """Return a document of asv with strange names of benchmarks, of implementations and of cases."""
    text, name = data.decode(), json.dumps(rng.choice(NAMES))[1:-1]
    old = rng.choice(["matmul.Cpu", "add_mul_exp", "eager", "native", "float32", "time_hot", "hosttorch"])
    return text.replace(old, name).encode()


def harm(path, rng, data):
    """Replace a file by a stranger's, and return what it is."""
    kind = rng.random()
    if kind < 0.04:
        (make,) = rng.choices(STRANGE)
        if make is not damaged:
            path.unlink()
        make(path, rng)
        return make.__name__
    if kind < 0.2:
        path.write_bytes(named(data, rng))
        return "names"
    ((how, contents),) = mutants(data, rng.randrange(2**32), 1)
    path.write_bytes(contents)
    return how


class Report:
    """A report, the s of the CPU that it took, and what it printed."""

    def __init__(self, folder, results, repository):
        shutil.rmtree(folder, ignore_errors=True)
        options = {"results": results, "repository": repository, "out": folder / "site", "cache": folder / "cache"}
        out, began = io.StringIO(), sum(os.times()[:4])
        self.status = main(["report", *(f"--{name}={path}" for name, path in options.items())], out, out)
        self.seconds, self.printed = sum(os.times()[:4]) - began, out.getvalue()
        self.pages = {path.relative_to(folder / "site") for path in (folder / "site").rglob("*.html")}


@pytest.fixture(scope="module")
def visited(whole_tree, tmp_path_factory):
    """Results with five more machines, which are sound."""
    folder = tmp_path_factory.mktemp("visited")
    shutil.copytree(whole_tree.results, folder / "results")
    for name in STRANGERS:
        shutil.copytree(folder / "results" / "bench-2", folder / "results" / name)
        for path in (folder / "results" / name).rglob("*.json"):
            path.write_text(path.read_text().replace("bench-2", name))
    return folder


def harmed(visited, folder, rng):
    """Return a copy of the results with FILES files of strangers, and what each is."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(visited / "results", folder)
    paths = [path for name in STRANGERS for path in sorted((folder / name).rglob("*")) if path.is_file()]
    for path in sorted((folder / "findings").iterdir()):
        paths.append(path.with_name(f"other-{path.name}"))
        shutil.copy(path, paths[-1])
    rng.shuffle(paths)
    listed = folder / "benchmarks.json"
    document = json.loads(listed.read_text())
    for number, name in enumerate(rng.sample(NAMES, 4)):
        entry = document["matmul.Cpu.time_hot"]
        document[f"{name}.time_{number}"] = {**entry, "name": f"{name}.time_{number}"}
    listed.write_text(json.dumps(document))
    return [f"{path.name}: {harm(path, rng, path.read_bytes())}" for path in paths[:FILES]]


def complaints(visited, whole_tree, folder, usual, seed):
    """Yield what is wrong with the report of a tree of strangers."""
    rng = random.Random(seed)
    harmed(visited, folder / "results", rng)
    for attempt in range(TRIES):
        try:
            report = Report(folder / "made", folder / "results", whole_tree.repository)
        except Exception as error:  # noqa: BLE001 - every one is a finding, and all are wanted
            yield f"{seed}: {type(error).__name__}: {str(error)[:300]}"
            return
        if attempt == 0 and report.status != 0:
            yield f"{seed}: status {report.status}: {report.printed[-300:]}"
        if attempt == 0 and (missing := usual.pages - report.pages):
            yield f"{seed}: {len(missing)} pages are missing, such as {min(map(str, missing))}"
        if attempt == 0 and any(len(line) > 1000 for line in report.printed.splitlines()):
            yield f"{seed}: a line of {max(map(len, report.printed.splitlines()))} letters"
        if report.seconds <= 2 * usual.seconds + 0.2:
            return
        usual = Report(folder / "usual", visited / "results", whole_tree.repository)
    yield f"{seed}: {report.seconds:.2f} s for {usual.seconds:.2f} s"


@pytest.mark.parametrize(
    "seeds",
    [pytest.param(range(1), id="one"), pytest.param(range(1, 3), id="two", marks=pytest.mark.slow)],
)
def test_report_of_the_others_is_made(visited, whole_tree, tmp_path, seeds):
    usual = Report(tmp_path / "usual", visited / "results", whole_tree.repository)
    assert usual.status == 0 and usual.pages
    wrong = [text for seed in seeds for text in complaints(visited, whole_tree, tmp_path, usual, seed)]
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)
