"""Sessions of identical code: measured by a stand-in for asv, stored as files, read again, and their spread."""

import argparse
import gzip
import io
import json
import math
import random
import re
from pathlib import Path

import pytest

from kernel_velocity import lock
from kernel_velocity.__main__ import main
from kernel_velocity.errors import NothingMeasured, ResultsError, UsageError
from kernel_velocity.harness import telemetry
from kernel_velocity.harness.sampling import ROUNDS
from kernel_velocity.harness.spool import append, append_blocks, append_line, blocks_path, spool_path
from kernel_velocity.lab import sessions, spread
from kernel_velocity.results.lines import failures_spool
from kernel_velocity.runner import select
from kernel_velocity.runner.asv import Ended
from kernel_velocity.stats.adjust import slopes
from tests.lab import sessions as generated
from tests.lab.sessions import changed, series

COMMIT = "c0ffee" * 6
PATH = Path("kept", "01.jsonl")


class Asv:
    """Runs instead of asv: it spools the rounds of the next session, stores their blocks and ends as planned."""

    def __init__(self):
        self.sessions = list(generated.sessions(6, common=0.03, kernels=("add", "matmul")).values())
        self.calls = []
        self.ends = 0  # a status, or an exception
        self.spools = True
        self.torn = None  # a file that gets half a line

    def __call__(self, arguments, *, root, environment, log):
        rounds = self.sessions[len(self.calls)]
        self.calls.append((arguments, environment))
        named = {**environment, "ASV_ENV_NAME": "env", "ASV_COMMIT": COMMIT}
        for round_ in rounds if self.spools else ():
            append(spool(), round_.round)
        for round_ in reversed(rounds):
            if round_.blocks:
                append_blocks(round_.round, round_.blocks, Path.cwd(), named)
        append_line(failures_spool(Path.cwd(), "env", COMMIT), "{}")
        Path("results", sessions.MACHINE).mkdir(parents=True)
        if self.torn:
            append_line(self.torn(), '{"b":')
        if isinstance(self.ends, BaseException):
            raise self.ends
        return Ended(self.ends, "", log)


def spool():
    return spool_path(Path.cwd(), "env", COMMIT)


def means():
    return blocks_path(Path.cwd(), "env", COMMIT)


def left_behind():
    """Return the files of a session where the next one, or ingest, would find them."""
    paths = spool(), means(), failures_spool(Path.cwd(), "env", COMMIT), Path("results", sessions.MACHINE)
    return [path for path in paths if path.exists()]


@pytest.fixture
def asv(tmp_path, monkeypatch):
    """A stand-in for asv in an empty repository."""
    stand_in = Asv()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(lock.HOLDER, "")
    monkeypatch.setattr(sessions, "environment_of", lambda _: argparse.Namespace(name="env"))
    monkeypatch.setattr(sessions, "machine", lambda name: name)
    monkeypatch.setattr(sessions, "settings", lambda: argparse.Namespace(results_dir="results"))
    monkeypatch.setattr(sessions, "run_asv", stand_in)
    monkeypatch.setattr(sessions, "device", lambda: "cpu")
    monkeypatch.setattr(sessions.git, "commits", lambda root, wanted: [COMMIT])
    chosen = argparse.Namespace(series=())
    monkeypatch.setattr(select, "expressions", lambda series: ["one", "two"])
    monkeypatch.setattr(sessions.config, "suite", lambda root: None)
    monkeypatch.setattr(sessions.select, "select", lambda *_: chosen)
    return stand_in


def measure():
    return sessions._measure(COMMIT, (), ROUNDS, PATH)


def command(*argv):
    out, err = io.StringIO(), io.StringIO()
    return main(["lab", *argv], out, err), out.getvalue(), err.getvalue()


def test_session_stores_telemetry_and_blocks_of_the_same_round(asv):
    first, *others = asv.sessions[0]
    asv.sessions[0] = [changed(first, blocks=()), *others]
    named = {"KV_BLOCKS": "1", "ASV_ENV_NAME": "env", "ASV_COMMIT": COMMIT}
    append_blocks(first.round, first.blocks, Path.cwd(), named)  # of a session that was interrupted
    assert measure() is False
    (read,) = sessions.read(PATH.parent).values()
    for round_, planted in zip(read, asv.sessions[0], strict=True):
        assert (round_.series, round_.round.launch) == (planted.series, planted.round.launch)
        assert round_.round.estimate == planted.round.estimate
        assert round_.blocks == pytest.approx(planted.blocks, rel=1e-4)
    ((arguments, environment),) = asv.calls
    assert environment["KV_BLOCKS"] == "1"
    assert Path(arguments[1].removeprefix("HASHFILE:")).read_text() == f"{COMMIT}\n"
    assert f"rounds={ROUNDS}" in arguments and "--interleave-rounds" in arguments
    assert arguments[-4:] == ["--bench", "one", "--bench", "two"]
    assert arguments[arguments.index("--machine") + 1] == sessions.MACHINE


@pytest.mark.parametrize(
    ("ends", "spools", "torn", "error", "text"),
    [
        (0, True, None, None, ""),
        (2, True, None, None, ""),  # a series failed, and the others are kept
        (1, True, None, NothingMeasured, "status 1"),
        (0, False, None, NothingMeasured, "status 0"),
        (KeyboardInterrupt("now"), True, None, KeyboardInterrupt, "now"),
        (OSError("no space left"), True, None, OSError, "no space left"),
        (0, True, spool, ResultsError, "measure the session again"),
        (0, True, means, ResultsError, "measure the session again"),
    ],
)
def test_session_leaves_nothing_in_the_spool(asv, *, ends, spools, torn, error, text):
    asv.ends, asv.spools, asv.torn = ends, spools, torn
    if error is None:
        assert measure() is (ends == 2)
    else:
        with pytest.raises(error, match=text):
            measure()
    assert left_behind() == []
    assert PATH.exists() == (error is None)


def test_rounds_that_wait_to_be_ingested_are_not_taken(asv):
    append(spool(), asv.sessions[0][0].round)
    with pytest.raises(UsageError, match="kv ingest"):
        measure()
    assert asv.calls == [] and spool().exists()


@pytest.mark.parametrize("compressed", [False, True])
def test_only_missing_sessions_are_measured(asv, compressed):
    asv.ends = 2
    status, out, err = command("spread", "--sessions", "3")
    assert status == 0 and "matmul.Cpu.time_hot native" in out
    assert [line.partition(":")[0] for line in out.splitlines()[:3]] == [f"session {n}/3" for n in (1, 2, 3)]
    assert [line.partition(" (")[0] for line in err.splitlines()] == [
        f"session {n}: a series failed" for n in (1, 2, 3)
    ]
    (folder,) = Path(".asv", "sessions").glob(f"env-*/{COMMIT[:8]}")
    path = folder / "01.jsonl"
    if compressed:
        path.with_name("01.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    before = {path: path.read_bytes() for path in folder.iterdir()}
    status, out, _ = command("spread", "--sessions", "4")
    assert status == 0 and len(asv.calls) == 4 and out.startswith("session 4/4: ")
    assert {path: path.read_bytes() for path in before} == before
    assert set(folder.iterdir()) - set(before) == {folder / "04.jsonl"}


@pytest.mark.parametrize("other", ["rounds", "bench", "method"])
def test_other_choices_are_other_sessions(asv, monkeypatch, other):
    command("spread", "--sessions", "3")
    if other == "method":
        monkeypatch.setenv("KV_THREADS", "2")
    command("spread", "--sessions", "3", *{"rounds": ["--rounds", "16"], "bench": ["--bench", "x"]}.get(other, []))
    rounds = [next(text for text in arguments if text.startswith("rounds=")) for arguments, _ in asv.calls]
    assert rounds == ["rounds=8"] * 3 + [f"rounds={16 if other == 'rounds' else 8}"] * 3
    assert len({path.parent for path in Path(".asv", "sessions").rglob("*.jsonl")}) == 2


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["spread", "--sessions", "2"], "--sessions 2: wanted at least 3"),
        (["false-alarms", "--sessions", "4"], "--sessions 4: wanted at least 5"),
        (["spread", "--rounds", "1"], "--rounds 1: wanted at least 2"),
    ],
)
def test_too_few_is_a_usage_error(argv, text):
    assert command(*argv) == (2, "", f"error: {text}\n")


def test_lines_without_blocks_are_read(tmp_path):
    """Telemetry as it was before."""
    (tmp_path / "01.jsonl").write_text(telemetry.encode(generated.sessions(1)["00"][0].round) + "\n")
    assert [round_.blocks for round_ in sessions.read(tmp_path)["01"]] == [()]


def spoilt(**fields):
    """Return a session's line with other fields."""
    return json.dumps(json.loads(generated.line(generated.sessions(1)["00"][0])) | fields).encode()


GOOD = spoilt()
BROKEN = {
    "torn": (GOOD + b'\n{"b":', "not JSON"),
    "foreign": (b'{"hello": 1}', "is missing"),
    "not text": (b"\xff\xfe", "can't decode"),
    "empty": (b"", "no rounds"),
    "shared launch": (GOOD + b"\n" + GOOD, "rounds of one series share a launch"),
    "no time": (spoilt(e=0), "e: a positive time is wanted, got 0"),
    "no gauge": (spoilt(j=0.0), "j: a positive time"),
    "no control": (spoilt(K=-1.0), "K: a positive time"),
    **{
        f"blocks {value!r}": (spoilt(blocks=value), "blocks: a list of positive times is wanted, got")
        for value in ([0], [1e-3, -1e-3], ["a"], None, [True], [float("nan")], [float("inf")])
    },
    "cut off": (gzip.compress(GOOD)[:-12], ""),
    "another checksum": (gzip.compress(GOOD)[:-8] + bytes(8), ""),
    "no gzip": (b"no gzip", ""),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_session_is_one_line_that_names_its_file(tmp_path, kind):
    content, text = BROKEN[kind]
    generated.write(generated.sessions(4), tmp_path)
    path = tmp_path / ("04.jsonl" if text else "04.jsonl.gz")
    path.write_bytes(content)
    status, out, err = command("false-alarms", "--read", str(tmp_path))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {path}: ") and text in err
    assert err.endswith("; remove the file to measure that session again\n")


def test_sessions_need_one_method_and_different_names(tmp_path):
    with pytest.raises(ResultsError, match=rf"{re.escape(str(tmp_path))}: no sessions; wanted files such as"):
        sessions.read(tmp_path)
    planted = generated.sessions(3)
    planted["01"] = [changed(round_, method="other") for round_ in planted["01"]]
    with pytest.raises(ResultsError, match=rf"{re.escape(str(tmp_path))}: .* 2 methods \(m, other\)"):
        sessions.read(generated.write(planted, tmp_path))
    generated.write(generated.sessions(1), tmp_path, compressed=True)
    with pytest.raises(ResultsError, match=r"00\.jsonl\.gz: a session named 00 is there already"):
        sessions.read(tmp_path)


def test_signals_are_gauges_of_nearly_all_rounds():
    result = generated.sessions(3, common=0.03, kernels=("add", "matmul"))
    of = sessions.signals(result)
    core = {
        (name, round_.round.launch): math.log(round_.round.core_gauge)
        for name, rounds in result.items()
        for round_ in rounds
        if round_.series == series(kernel="add")
    }
    (first, first_value), *others = of[series(kernel="add")][0].items()
    assert {key: value - first_value for key, value in others} == pytest.approx(
        {key: core[key] - core[first] for key, _ in others}
    )
    always = {
        name: [changed(round_, control_gauge=round_.round.core_gauge * 9) for round_ in rounds]
        for name, rounds in result.items()
    }
    assert [len(sessions.signals(source)[series()]) for source in (result, always)] == [2, 3]
    assert sessions.signals(always | {"00": result["00"]}) == of  # a third of the rounds without


# The spread of sessions.
def shared(number=8, *, gauges=False):
    """Return sessions in which native and two controls share a factor."""
    everyone = ("native", "eager", "compile")
    return generated.sessions(number, common=0.03, implementations=everyone, gauges=gauges, seed=5)


def without(by_session, name, *implementations):
    """Return the sessions without these implementations in one of them."""
    return by_session | {name: [round_ for round_ in by_session[name] if round_.round.params[0] not in implementations]}


def test_adjusting_by_controls_reduces_the_spread():
    (row,) = spread.rows(shared())
    assert row.series == series()
    assert row.raw > 0.02 and row.adjusted < 0.005
    assert row.seconds == pytest.approx(1e-3, rel=0.1)
    (row,) = spread.rows(without(shared(), "02", "native"))
    assert row.adjusted < 0.005


def test_cold_rounds_are_no_controls_of_hot_ones():
    """What empties the caches scatters by itself."""
    rng = random.Random(7)
    result = shared()
    for rounds in result.values():
        rounds += [
            changed(
                round_,
                benchmark="matmul.Cpu.time_cold",
                estimate=round_.round.estimate * (1 + rng.gauss(0, 0.3)),
                time=round_.round.time + 0.5,
            )
            for round_ in list(rounds)
        ]
    (hot,) = (row for row in spread.rows(result) if row.series[0].endswith("time_hot"))
    (alone,) = spread.rows(shared())
    assert hot.adjusted == pytest.approx(alone.adjusted)


@pytest.mark.parametrize("names", [["04"], [f"{number:02}" for number in range(8)]])
def test_session_without_controls_leaves_no_adjusted_spread(names):
    """The two spreads would be of different sessions."""
    result = shared()
    for name in names:
        result = without(result, name, "eager", "compile")
    (row,) = spread.rows(result)
    assert row.raw > 0.02 and row.adjusted is None
    assert spread.table([row]).splitlines()[1].endswith(" -")


def test_session_is_adjusted_with_slopes_of_the_others():
    result = shared()
    values, signals = sessions.logs(result)[series()], sessions.signals(result)[series()]
    adjusted, fits = sessions.out_of_sample(values, signals)
    assert adjusted.keys() == values.keys()
    for name, fit in zip(result, fits, strict=True):
        others = {key: value for key, value in values.items() if key[0] != name}
        assert fit == slopes(others, signals, dict.fromkeys(result, "the same code"))[0]
        for key in values:
            if key[0] == name:
                assert adjusted[key] == values[key] - fit[0] * signals[0][key]
    assert len(set(fits)) == len(result)


def test_spread_needs_three_sessions_of_a_series():
    result = shared()
    for name in list(result)[2:]:
        result = without(result, name, "native")
    assert spread.rows(result) == []
    with pytest.raises(ResultsError, match="2 sessions: wanted at least 3"):
        spread.rows(shared(2))
