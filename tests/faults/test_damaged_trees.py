"""A results tree of which one file is damaged: every command that reads it ends with 0, or with 2 and one line."""

import io
import random
import shutil

import pytest

from kernel_velocity.__main__ import main
from kernel_velocity.past import past
from kernel_velocity.results import lines, sessions
from kernel_velocity.results.lines import FAILURES
from tests import synthetic
from tests.mutations import PATHS, damage_path, mutants

HOW = [how for how in PATHS if how != "removed"]  # which is what somebody wanted
COLUMNS = ("outcome", "rounds", "seconds", "low", "high")


@pytest.fixture(scope="module")
def damaged(whole_tree, tmp_path_factory):
    """A copy of the whole tree in a project's folder, with a spool."""
    folder = tmp_path_factory.mktemp("damaged")
    shutil.copytree(whole_tree.results, folder / "results")
    for path in (folder / "results").glob("*/*-host*.json"):
        synthetic.count_rounds(path)
    (folder / "asv.conf.json").write_text('{"version": 1, "project": "p", "repo": "repository"}')
    for commit in whole_tree.commits:
        for machine in ("bench-1", "bench-2"):
            stem = lines.stem(commit, synthetic.ENVIRONMENT)
            for suffix in (lines.ROUNDS, FAILURES, sessions.SUFFIX):
                beside = folder / "results" / machine / "telemetry" / f"{stem}{suffix}"
                waiting = folder / ".asv" / "spool" / synthetic.ENVIRONMENT / f"{commit}{suffix}"
                lines.append(waiting, lines.texts(beside, [])[:5])
    return folder


def values(result):
    """Return the values of the series of a past, by series and commit."""
    layout = result.layout
    return {
        (key, layout.commits[layout.commit[slot]]): [repr(layout.columns[name][slot].item()) for name in COLUMNS]
        for number, key in enumerate(layout.keys)
        for slot in range(*layout.part(number).indices(len(layout.commit)))
    }


def files(folder):
    """Return the files of a project that the rooms `results` and `engine` write and read."""
    patterns = ("results/benchmarks.json", "results/bench-*/**/*", ".asv/spool/*/*")
    return [path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file()]


def cases(folder, seed, count):
    """Yield (what was done, file), the file damaged. It is restored afterwards."""
    rng = random.Random(seed)
    paths = files(folder)
    for _ in range(count):
        path = rng.choice(paths)
        data = path.read_bytes()
        if rng.random() < 0.1:
            how = rng.choice(HOW)
            damage_path(path, how)
        else:
            ((how, contents),) = mutants(data, rng.randrange(2**32), 1)
            path.write_bytes(contents)
        yield f"{path.name}: {how}", path
        damage_path(path, "removed")
        path.write_bytes(data)


def differences(then, now):
    """Return the series whose value is another one. A value without telemetry has a footnote, and asv's median."""
    changed = {key for key in then if now.get(key) != then[key]}
    return {key for key in changed if not (key in now and now[key][1] == "-1" and is_close(now[key][2], then[key][2]))}


def is_close(now, then):
    return float(now) == pytest.approx(float(then), rel=1e-9)


@pytest.mark.slow
def test_no_value_changes_without_a_note(whole_tree, damaged, tmp_path):
    """What the pages and the table of `track` show of a damaged tree."""
    repository, newest = whole_tree.repository, whole_tree.commits[-1]
    sound = past.open(damaged / "results", repository, folder=tmp_path)
    then, notes = values(sound), set(sound.notes)
    wrong = []
    for done, _ in cases(damaged, 1, 50):
        try:
            result = past.open(damaged / "results", repository, folder=tmp_path)
            list(past.open(damaged / "results", repository, commits=[newest]).at(newest))
        except Exception as error:  # noqa: BLE001 - every one is a finding, and all are wanted
            wrong.append(f"{done}: {type(error).__name__}: {str(error)[:80]}")
            continue
        if set(result.notes) <= notes and (changed := differences(then, values(result))):
            wrong.append(f"{done}: {len(changed)} values changed, such as {sorted(map(str, changed))[0]}")
    assert not wrong, f"{len(wrong)}:\n" + "\n".join(wrong)


def run(argv):
    """Run a command. Return its exit status and what it printed."""
    out = io.StringIO()
    status = main(argv, out, out)
    return status, out.getvalue()


@pytest.mark.slow
def test_ingest_into_a_damaged_tree(damaged, tmp_path):
    wrong = []
    for number, (done, _) in enumerate(cases(damaged, 4, 8)):
        folder = tmp_path / str(number)
        shutil.copytree(damaged, folder, symlinks=True)
        status, text = run(["ingest", "--root", str(folder)])
        again, _ = run(["ingest", "--root", str(folder)])
        if {status, again} - {0, 2} or not text:
            wrong.append(f"{done}: {status}, {again}: {text[-100:]}")
        shutil.rmtree(folder)
    assert not wrong
