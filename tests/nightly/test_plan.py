"""Which commits a night measures, within its time, and on which device."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_velocity.errors import NothingMeasured, UsageError
from kernel_velocity.nightly import measure
from kernel_velocity.nightly.measure import FIRST_NIGHT, MEASURING, RETRIES, CommitState, Why
from tests.results.spooled import NAME, write_result

MEASURED = 1_000.0  # Unix time, s, that `write` says
DAY = 86400.0


def line(text):
    """Return commits, newest first, one for each letter.

    k changes a kernel, d documentation. A capital is measured. A digit after a letter counts the builds that failed.
    An exclamation mark after a letter: the results of the commit cannot be read.
    """
    commits = []
    for letter in text:
        if letter.isdigit():
            commits[-1] = replace(commits[-1], failed_builds=int(letter))
        elif letter == "!":
            commits[-1] = replace(commits[-1], is_readable=False)
        else:
            recorded = {"changes_kernels": letter.lower() == "k", "is_measured": letter.isupper()}
            commits.append(CommitState(commit=str(len(commits)), **recorded))
    return commits


def planned(text, *, budget=1e6):
    tonight, left = measure.plan(line(text), budget=budget, seconds_per_commit=60.0)
    return list(tonight.items()), list(left.items())


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("kdkK", [("0", Why.NEW), ("2", Why.NEW)]),  # documentation alone cannot change a kernel
        ("KkkKk", [("1", Why.HOLE), ("2", Why.HOLE)]),  # what is older than all that is measured is not wanted
        ("kKkK", [("0", Why.NEW), ("2", Why.HOLE)]),
        ("Kk1kK", [("2", Why.HOLE), ("1", Why.BUILD_AGAIN)]),
        ("k1K", [("1", Why.HEARTBEAT), ("0", Why.BUILD_AGAIN)]),  # what may not build again measures nothing
        ("ddK", [("0", Why.HEARTBEAT)]),  # the newest: its kernels are those of the last
        ("d", [("0", Why.HEARTBEAT)]),
        ("k1", [("0", Why.HEARTBEAT)]),
        ("K!K", [("1", Why.HEARTBEAT)]),  # nothing can be added to what is recorded of the newest
        (f"Kk{RETRIES + 1}K", [("0", Why.HEARTBEAT)]),  # it had its second chance
        ("dkkdkkkk", [("1", Why.NEW), ("2", Why.NEW), ("4", Why.NEW)][:FIRST_NIGHT]),  # not a whole history
    ],
)
def test_night_measures(text, wanted):
    assert planned(text) == (wanted, [])


@pytest.mark.parametrize(("budget", "number"), [(200.0 / MEASURING, 3), (1.0, 1)])
def test_night_leaves_what_there_is_no_time_for(budget, number):
    new = [(str(index), Why.NEW) for index in range(4)]
    assert planned("kkkkK", budget=budget) == (new[:number], new[number:])


@given(st.text(alphabet="kdKD", min_size=1, max_size=30), st.floats(1, 1e5))
def test_nothing_is_lost_or_measured_twice(text, budget):
    tonight, left = planned(text, budget=budget)
    everything = [commit for commit, _ in (*tonight, *left)]
    assert len(set(everything)) == len(everything) and tonight
    recorded = line(text)
    oldest = max((index for index, state in enumerate(recorded) if state.is_measured), default=0)
    wanted = {state.commit for state in recorded[:oldest] if state.changes_kernels and not state.is_measured}
    assert wanted <= set(everything)
    assert not wanted or Why.HEARTBEAT not in dict(tonight).values()


def write_times(path, counts, device):
    """Write a results file of a device."""
    values, drawn = [count and 1e-3 * count for count in counts], [count and [1e-3 * count] * count for count in counts]
    text = write_result(path.parents[1] / "elsewhere", values, drawn).read_text()
    path.write_text(text.replace(NAME, f"k.{device}.time_hot"))


@pytest.fixture
def folder(tmp_path):
    """A machine's results, with a time of its GPU beside one of its CPU and a file that cannot be read."""
    (tmp_path / "box").mkdir()
    for number, device in enumerate(("Cpu", "Cuda")):
        write_times(tmp_path / "box" / f"{number}.json", [8, 8], device)
    (tmp_path / "box" / "2.json").write_text('{"k.Cuda.time_hot": ')
    return tmp_path / "box"


@pytest.fixture
def usable(monkeypatch):
    """Let PyTorch use a device."""
    return lambda device: monkeypatch.setattr(measure.host, "device", lambda: device)


@pytest.mark.parametrize(
    ("requested", "there", "chosen"), [(None, "cuda", "cuda"), ("cuda", "cuda", "cuda"), ("cpu",) * 3]
)
def test_device_is_the_gpu_where_there_is_one(folder, usable, requested, there, chosen):
    usable(there)
    assert measure.choose(requested, folder, MEASURED) == chosen


def test_lost_gpu_is_no_reason_to_measure_the_cpu(folder, usable):
    usable("cpu")
    with pytest.raises(NothingMeasured) as caught:
        measure.choose(None, folder, MEASURED + 1.5 * DAY)
    assert str(caught.value).startswith("box: nothing was measured: the GPU that was measured here 1.5 days ago")
    assert "--device cpu" in str(caught.value)
    assert measure.choose("cpu", folder, MEASURED) == "cpu"
    assert measure.choose(None, folder, MEASURED + 91 * DAY) == "cpu"  # given away


@pytest.mark.parametrize("values", [None, [None, None]])
def test_machine_without_a_time_of_a_gpu_measures_its_cpu(folder, usable, values):
    usable("cpu")
    path = folder / "1.json"
    path.unlink()
    if values is not None:
        write_times(path, values, "Cuda")
    assert measure.choose(None, folder, MEASURED) == "cpu"
    assert measure.choose(None, folder / "new", MEASURED) == "cpu"


@pytest.mark.parametrize(
    ("requested", "words"), [("cuda", "PyTorch sees no GPU here"), ("gpu", "cpu or cuda is wanted")]
)
def test_device_that_is_not_there_is_refused(folder, usable, requested, words):
    usable("cpu")
    with pytest.raises(UsageError, match=words):
        measure.choose(requested, folder, MEASURED)
