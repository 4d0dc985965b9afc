"""False alarms: sessions of identical code, measured by a stand-in for asv, read from files, and judged in pairs."""

import argparse
import gzip
import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from kernel_velocity import lock
from kernel_velocity.ab import false_alarms, session
from kernel_velocity.ab.false_alarms import ADJUSTED, EARLY, RAW, judge
from kernel_velocity.engine.sampling import ROUNDS
from kernel_velocity.engine.spool import append
from kernel_velocity.engine.telemetry import decode, encode, parse
from kernel_velocity.errors import NothingMeasured, ResultsError, UsageError
from kernel_velocity.runner import select
from kernel_velocity.runner.asv import Ended
from kernel_velocity.stats.adjust import slopes
from tests.ab import identical_sessions as generated
from tests.ab.identical_sessions import series
from tests.commands import kv
from tests.golden import check_golden

GOLDEN = Path(__file__).parent / "golden" / "false_alarms.txt"


# From sessions to tables.
@pytest.fixture
def command(tmp_path):
    """Return a function that writes sessions and returns the command's status, output and errors."""

    def run(by_session, folder="sessions", **how):
        return kv("false-alarms", "--read", generated.write(by_session, tmp_path / folder, **how))

    return run


def is_matmul(round_):
    return round_.benchmark == series()[0]


def replaced(by_session, name, change, chosen):
    """Return the sessions with other rounds in one of them."""
    return by_session | {name: [change(round_) if chosen(round_) else round_ for round_ in by_session[name]]}


def test_golden(command, accept):
    result = generated.sessions(7, common=0.01, kernels=("add", "matmul"), implementations=("native", "eager"))
    status, out, err = command(result)
    assert (status, err) == (0, "")
    check_golden(GOLDEN, out, accept=accept)


def test_planted_change_is_found_by_its_size():
    result = judge(generated.sessions(8, changes=[1.2]))
    assert result[ROUNDS, ADJUSTED].alarms.different == 7  # of the session that no gauge explains
    powers = judge(generated.sessions(8))[ROUNDS, RAW].powers
    assert [min(powers[change].values()) for change in (0.02, 0.03, 0.05)] == [1, 1, 1]
    assert min(powers[0.01].values()) < 1


def test_every_series_has_a_row(command):
    result = generated.sessions(8, kernels=("add", "matmul"))
    wild = replaced(result, "03", lambda round_: generated.slowed(round_, 1.2), is_matmul)
    calm, odd = (line.split() for line in command(wild)[1].splitlines()[-2:])
    assert (calm[0], odd[0]) == ("add.Cpu.time_hot", "matmul.Cpu.time_hot")
    assert (calm[3:7], odd[3], odd[5]) == (["0%", "<52.7%", "0%", "<52.7%"], "25.0%", "25.0%")


def test_series_with_too_few_rounds_is_left_out():
    result = generated.sessions(5, kernels=("add", "matmul"), count=16)
    add, matmul = series(kernel="add"), series()
    result["02"] = [round_ for round_ in result["02"] if round_.benchmark == matmul[0] or round_.time < 2009]
    judged = judge(result)
    assert {key: set(answer.by_series) for key, answer in judged.items()} == {
        **{(count, kind): {add, matmul} for count in (8, EARLY) for kind in (RAW, ADJUSTED)},
        **{(16, kind): {matmul} for kind in (RAW, ADJUSTED)},
    }


def test_series_without_gauges_has_no_adjusted_figures(command):
    def bare(round_):
        return replace(round_, core_gauge=None, memory_gauge=None)

    def single(round_):
        return is_matmul(round_) and round_.launch == "2-3"

    status, out, err = command(replaced(generated.sessions(5, kernels=("add", "matmul")), "02", bare, single))
    assert (status, err) == (0, "")
    cells = out.splitlines()[-1].split()
    assert cells[0] == "matmul.Cpu.time_hot"
    assert [text == "-" for text in cells[3:]] == [False, False, True, True, *[False, True] * 3]
    _, out, _ = command({name: list(map(bare, rounds)) for name, rounds in generated.sessions(5).items()}, "none")
    assert not any(line.split()[1:2] == ["adjusted"] for line in out.splitlines())
    assert out.splitlines()[-1].split()[3:7] == ["0%", "<77.6%", "-", "-"]


def test_too_little_is_an_error(command):
    status, out, err = command(generated.sessions(4))
    assert (status, out, err) == (2, "", "error: 4 sessions: wanted at least 5, to estimate a false-alarm rate\n")
    result = generated.sessions(5)
    with pytest.raises(ResultsError, match="no series has 8 rounds in every one of 5 sessions"):
        judge(result | {"03": result["03"][:-1]})
    with pytest.raises(ResultsError, match="no series has 8 rounds"):
        judge(generated.sessions(5, implementations=("eager",)))


# Sessions: measured by a stand-in for asv, and read ------------------------------------------------------------------

COMMIT = "c0ffee" * 6
PATH = Path("kept", "01.jsonl")


class Asv:
    """Runs instead of asv: it spools the rounds of the next session and ends as planned."""

    def __init__(self):
        self.sessions = list(generated.sessions(6, common=0.03, kernels=("add", "matmul")).values())
        self.calls = []
        self.ends = 0  # a status, or an exception
        self.spools = True

    def __call__(self, arguments, *, root, environment, log, on_line):
        rounds = self.sessions[len(self.calls)]
        self.calls.append((arguments, environment))
        spool = Path.cwd() / environment["KV_SPOOL"] / "env" / f"{COMMIT}.jsonl"
        for round_ in rounds if self.spools else ():
            append(spool, round_)
        Path("results", session.MACHINE).mkdir(parents=True)
        Path("results", "benchmarks.json").write_text("asv's list of the session")
        if isinstance(self.ends, BaseException):
            raise self.ends
        return Ended(self.ends, "", log)


def left_behind():
    """Return the files and folders of a session that nobody would remove."""
    paths = PATH.with_suffix(""), Path("results", session.MACHINE), Path("results", "benchmarks.json")
    return [path for path in paths if path.exists()]


@pytest.fixture
def asv(tmp_path, monkeypatch):
    """A stand-in for asv in an empty repository."""
    stand_in = Asv()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(lock.HOLDER, "")
    monkeypatch.setattr(false_alarms, "environment_of", lambda _: argparse.Namespace(name="env"))
    for module in (false_alarms, session):
        monkeypatch.setattr(module, "settings", lambda: argparse.Namespace(results_dir="results"))
    monkeypatch.setattr(session, "machine", lambda name: name)
    monkeypatch.setattr(session, "run_asv", stand_in)
    monkeypatch.setattr(false_alarms, "device", lambda: "cpu")
    monkeypatch.setattr(false_alarms.git, "commits", lambda root, wanted: [COMMIT])
    chosen = argparse.Namespace(series=())
    monkeypatch.setattr(select, "expressions", lambda series: ["one", "two"])
    monkeypatch.setattr(false_alarms.config, "suite", lambda root: None)
    monkeypatch.setattr(false_alarms.select, "select", lambda *_: chosen)
    return stand_in


def measure():
    return false_alarms._measure(COMMIT, (), ROUNDS, PATH)


def obtain(*argv):
    """Return the sessions that a command line names, measured or read, with what is printed."""
    parser, out, err = argparse.ArgumentParser(), io.StringIO(), io.StringIO()
    false_alarms.add_arguments(parser)
    return false_alarms.obtain(parser.parse_args(argv), 3, out, err), out.getvalue(), err.getvalue()


def test_session_stores_the_telemetry_of_a_run(asv):
    assert measure() is False
    (read,) = false_alarms.read(PATH.parent).values()
    assert read == [decode(encode(round_)) for round_ in asv.sessions[0]]
    ((arguments, _),) = asv.calls
    assert Path(arguments[1].removeprefix("HASHFILE:")).read_text() == f"{COMMIT}\n"
    assert f"rounds={ROUNDS}" in arguments and "--interleave-rounds" in arguments
    assert arguments[-4:] == ["--bench", "one", "--bench", "two"]
    assert arguments[arguments.index("--machine") + 1] == session.MACHINE


@pytest.mark.parametrize(
    ("ends", "spools", "error", "text"),
    [
        (0, True, None, ""),
        (2, True, None, ""),  # a series failed, and the others are kept
        (1, True, NothingMeasured, "status 1"),
        (0, False, NothingMeasured, "status 0"),
        (KeyboardInterrupt("now"), True, KeyboardInterrupt, "now"),
        (OSError("no space left"), True, OSError, "no space left"),
    ],
)
def test_session_leaves_nothing_behind(asv, *, ends, spools, error, text):
    asv.ends, asv.spools = ends, spools
    if error is None:
        assert measure() is (ends == 2)
    else:
        with pytest.raises(error, match=text):
            measure()
    assert left_behind() == []
    assert PATH.exists() == (error is None)


@pytest.mark.parametrize("compressed", [False, True])
def test_only_missing_sessions_are_measured(asv, compressed):
    asv.ends = 2
    by_name, out, err = obtain("--sessions", "3")
    assert list(by_name) == ["01", "02", "03"]
    assert [line.partition(":")[0] for line in out.splitlines()] == [f"session {n}/3" for n in (1, 2, 3)]
    failed = [f"session {n}: a series failed" for n in (1, 2, 3)]
    assert [line.partition(" (")[0] for line in err.splitlines()] == failed
    (folder,) = Path(".asv", "sessions").glob(f"env-*/{COMMIT}")
    path = folder / "01.jsonl"
    if compressed:
        path.with_name("01.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    before = {path: path.read_bytes() for path in folder.iterdir()}
    _, out, _ = obtain("--sessions", "4")
    assert len(asv.calls) == 4 and out.startswith("session 4/4: ")
    assert {path: path.read_bytes() for path in before} == before
    assert set(folder.iterdir()) - set(before) == {folder / "04.jsonl"}


@pytest.mark.parametrize("other", ["rounds", "bench", "method"])
def test_other_choices_are_other_sessions(asv, monkeypatch, other):
    obtain("--sessions", "3")
    if other == "method":
        monkeypatch.setenv("KV_THREADS", "2")
    obtain("--sessions", "3", *{"rounds": ["--rounds", "16"], "bench": ["--bench", "x"]}.get(other, []))
    rounds = [next(text for text in arguments if text.startswith("rounds=")) for arguments, _ in asv.calls]
    assert rounds == ["rounds=8"] * 3 + [f"rounds={16 if other == 'rounds' else 8}"] * 3
    assert len({path.parent for path in Path(".asv", "sessions").rglob("*.jsonl")}) == 2


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--sessions", "2"], "--sessions 2: wanted at least 3"),
        (["--rounds", "1"], "--rounds 1: wanted at least 2"),
    ],
)
def test_too_few_is_a_usage_error(argv, text):
    with pytest.raises(UsageError, match=f"^{text}$"):
        obtain(*argv)


def spoilt(**fields):
    """Return a session's line with other fields."""
    return json.dumps(parse(encode(generated.sessions(1)["00"][0])) | fields).encode()


GOOD = spoilt()
BROKEN = {
    "torn": (GOOD + b'\n{"b":', "not JSON"),
    "foreign": (b'{"hello": 1}', "is missing"),
    "empty": (b"", "no rounds"),
    "shared launch": (GOOD + b"\n" + GOOD, "rounds of one series share a launch"),
    "no time": (spoilt(e=0), "e: a positive time is wanted, got 0"),
    "cut off": (gzip.compress(GOOD)[:-12], ""),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_session_is_one_line_that_names_its_file(tmp_path, kind):
    content, text = BROKEN[kind]
    generated.write(generated.sessions(4), tmp_path)
    path = tmp_path / ("04.jsonl" if text else "04.jsonl.gz")
    path.write_bytes(content)
    with pytest.raises(ResultsError) as caught:
        false_alarms.read(tmp_path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and text in message and "\n" not in message
    assert message.endswith("; remove the file to measure that session again")


def test_sessions_need_one_method_and_different_names(tmp_path):
    with pytest.raises(ResultsError, match=rf"{re.escape(str(tmp_path))}: no sessions; wanted files such as"):
        false_alarms.read(tmp_path)
    planted = generated.sessions(3)
    planted["01"] = [replace(round_, method="other") for round_ in planted["01"]]
    with pytest.raises(ResultsError, match=rf"{re.escape(str(tmp_path))}: .* 2 methods \(m, other\)"):
        false_alarms.read(generated.write(planted, tmp_path))
    generated.write(generated.sessions(1), tmp_path, compressed=True)
    with pytest.raises(ResultsError, match=r"00\.jsonl\.gz: a session named 00 is there already"):
        false_alarms.read(tmp_path)


def test_signals_are_gauges_of_nearly_all_rounds():
    result = generated.sessions(3, common=0.03, kernels=("add", "matmul"))
    of = false_alarms.signals_of(result)
    core = {
        (name, round_.launch): math.log(round_.core_gauge)
        for name, rounds in result.items()
        for round_ in rounds
        if round_.benchmark == series(kernel="add")[0]
    }
    (first, first_value), *others = of[series(kernel="add")][0].items()
    assert {key: value - first_value for key, value in others} == pytest.approx(
        {key: core[key] - core[first] for key, _ in others}
    )
    always = {
        name: [replace(round_, control_gauge=round_.core_gauge * 9) for round_ in rounds]
        for name, rounds in result.items()
    }
    assert [len(false_alarms.signals_of(source)[series()]) for source in (result, always)] == [2, 3]
    assert false_alarms.signals_of(always | {"00": result["00"]}) == of  # a third of the rounds without


def test_session_is_adjusted_with_slopes_of_the_others():
    everyone = ("native", "eager", "compile")
    result = generated.sessions(8, common=0.03, implementations=everyone, gauges=False, seed=5)
    values, signals = false_alarms.logs_of(result)[series()], false_alarms.signals_of(result)[series()]
    adjusted, fits = false_alarms.out_of_sample(values, signals)
    assert adjusted.keys() == values.keys()
    for name, fit in zip(result, fits, strict=True):
        others = {key: value for key, value in values.items() if key[0] != name}
        assert fit == slopes(others, signals, dict.fromkeys(result, "the same code"))[0]
        for key in values:
            if key[0] == name:
                assert adjusted[key] == values[key] - fit[0] * signals[0][key]
    assert len(set(fits)) == len(result)
