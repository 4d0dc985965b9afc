"""Sessions of identical code: measured by a stand-in for asv, kept as files, read again."""

import argparse
import gzip
import io
import json
import math
import re
from pathlib import Path

import pytest

from kernel_velocity import lock
from kernel_velocity.__main__ import main
from kernel_velocity.errors import NothingMeasured, ResultsError, UsageError
from kernel_velocity.harness import blocks, telemetry
from kernel_velocity.harness.sampling import ROUNDS
from kernel_velocity.harness.spool import append, append_line, spool_path
from kernel_velocity.lab import sessions
from kernel_velocity.results import failures
from tests.lab import sessions as generated
from tests.lab.sessions import changed, series

COMMIT = "c0ffee" * 6
KEPT = Path("kept", "01.jsonl")


class Asv:
    """What runs instead of asv: it spools the rounds of the next session, keeps their blocks and ends as it is told."""

    def __init__(self):
        self.sessions = list(generated.sessions(6, common=0.03, kernels=("add", "matmul")).values())
        self.calls = []
        self.ends = 0  # a status, or an exception
        self.spools = True

    def __call__(self, arguments, *, root, environment, log, on_line):
        rounds = self.sessions[len(self.calls)]
        self.calls.append((arguments, environment))
        named = {**environment, "ASV_ENV_NAME": "env", "ASV_COMMIT": COMMIT}
        for item in rounds if self.spools else ():
            append(spool(), item.round)
        for item in reversed(rounds):
            if item.blocks:
                blocks.keep(item.round, item.blocks, Path.cwd(), named)
        append_line(failures.spool_path(Path.cwd(), "env", COMMIT), "{}")
        Path("results", sessions.MACHINE).mkdir(parents=True)
        if isinstance(self.ends, BaseException):
            raise self.ends
        return self.ends


def spool():
    return spool_path(Path.cwd(), "env", COMMIT)


def left_behind():
    """Return what a session has left where the next one, or ingest, would find it."""
    paths = (
        spool(),
        blocks.path_of(Path.cwd(), "env", COMMIT),
        failures.spool_path(Path.cwd(), "env", COMMIT),
        Path("results", sessions.MACHINE),
    )
    return [path for path in paths if path.exists()]


@pytest.fixture
def asv(tmp_path, monkeypatch):
    """A stand-in for asv in an empty repository."""
    found = Asv()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(lock.HOLDER, "")
    monkeypatch.setattr(sessions, "environment_of", lambda _: argparse.Namespace(name="env"))
    monkeypatch.setattr(sessions, "machine", lambda name: name)
    monkeypatch.setattr(sessions.Config, "load", lambda: argparse.Namespace(results_dir="results"))
    monkeypatch.setattr(sessions, "run_asv", found)
    monkeypatch.setattr(sessions, "device", lambda: "cpu")
    monkeypatch.setattr(sessions.git, "commits", lambda root, wanted: [COMMIT])
    chosen = argparse.Namespace(expressions=lambda: ["one", "two"])
    monkeypatch.setattr(sessions.config, "suite", lambda root: None)
    monkeypatch.setattr(sessions.select, "select", lambda *_: chosen)
    return found


def measure():
    return sessions._measure(COMMIT, ["one", "two"], ROUNDS, KEPT)


def command(*argv):
    out, err = io.StringIO(), io.StringIO()
    return main(argv, out, err), out.getvalue(), err.getvalue()


def test_a_session_keeps_telemetry_and_blocks_of_the_same_round(asv):
    assert measure() is False
    read = sessions.read(KEPT.parent)
    assert list(read) == ["01"]
    wanted = asv.sessions[0]
    assert [item.round.launch for item in read["01"]] == [item.round.launch for item in wanted]
    for item, planted in zip(read["01"], wanted, strict=True):
        assert item.series == planted.series
        assert item.round.estimate == planted.round.estimate
        assert item.blocks == pytest.approx(planted.blocks, rel=1e-4)


def test_asv_is_asked_for_blocks_of_all_series_of_one_commit(asv):
    measure()
    ((arguments, environment),) = asv.calls
    assert environment["KV_BLOCKS"] == "1"
    assert arguments[:2] == ["run", f"{COMMIT}^!"]
    assert f"rounds={ROUNDS}" in arguments
    assert arguments[-4:] == ["--bench", "one", "--bench", "two"]
    assert "--interleave-rounds" in arguments
    assert arguments[arguments.index("--machine") + 1] == sessions.MACHINE


def test_a_round_without_blocks_is_kept_without(asv):
    first, *others = asv.sessions[0]
    asv.sessions[0] = [changed(first, blocks=()), *others]
    measure()
    assert [len(item.blocks) for item in sessions.read(KEPT.parent)["01"]] == [0] + [16] * len(others)


def test_blocks_of_a_session_that_was_cut_off_are_not_mixed_in(asv):
    first, *others = asv.sessions[0]
    asv.sessions[0] = [changed(first, blocks=()), *others]
    named = {"KV_BLOCKS": "1", "ASV_ENV_NAME": "env", "ASV_COMMIT": COMMIT}
    blocks.keep(first.round, first.blocks, Path.cwd(), named)
    measure()
    assert sessions.read(KEPT.parent)["01"][0].blocks == ()


@pytest.mark.parametrize("ends", [0, 2])
def test_nothing_stays_of_a_session_that_is_kept(asv, ends):
    asv.ends = ends
    assert measure() is (ends == 2)
    assert left_behind() == []
    assert len(sessions.read(KEPT.parent)["01"]) == len(asv.sessions[0])


@pytest.mark.parametrize(
    ("ends", "error", "said"),
    [
        (1, NothingMeasured, "status 1"),
        (KeyboardInterrupt("now"), KeyboardInterrupt, "now"),
        (OSError("no space left"), OSError, "no space left"),
    ],
)
def test_nothing_stays_of_a_session_that_failed(asv, ends, error, said):
    asv.ends = ends
    with pytest.raises(error, match=said):
        measure()
    assert left_behind() == []
    assert not KEPT.exists()


def test_a_session_without_rounds_is_none(asv):
    asv.spools = False
    with pytest.raises(NothingMeasured, match="status 0"):
        measure()
    assert not KEPT.exists()


@pytest.mark.parametrize("path", [spool, lambda: blocks.path_of(Path.cwd(), "env", COMMIT)])
def test_a_line_that_cannot_be_read_ends_in_an_error_that_says_where(asv, monkeypatch, path):
    def torn(*arguments, **more):
        status = asv(*arguments, **more)
        append_line(path(), '{"b":')
        return status

    monkeypatch.setattr(sessions, "run_asv", torn)
    with pytest.raises(ResultsError, match=f"{re.escape(str(path()))}.*measure the session again"):
        measure()
    assert left_behind() == []
    assert not KEPT.exists()


def test_rounds_that_wait_to_be_ingested_are_not_taken(asv):
    append(spool(), asv.sessions[0][0].round)
    with pytest.raises(UsageError, match="kv ingest"):
        measure()
    assert asv.calls == []
    assert spool().exists()


def folder():
    (found,) = Path(".asv", "sessions").glob(f"env-*/{COMMIT[:8]}")
    return found


def test_sessions_that_are_missing_are_measured(asv):
    status, out, err = command("lab", "spread", "--sessions", "4")
    assert (status, err) == (0, "")
    assert [line.partition(":")[0] for line in out.splitlines()[:4]] == [f"session {n}/4" for n in (1, 2, 3, 4)]
    assert "matmul.Cpu.time_hot native" in out
    assert sorted(path.name for path in folder().iterdir()) == ["01.jsonl", "02.jsonl", "03.jsonl", "04.jsonl"]


@pytest.mark.parametrize("compressed", [False, True])
def test_a_session_that_is_there_is_not_measured_again(asv, compressed):
    assert command("lab", "spread", "--sessions", "3")[0] == 0
    path = folder() / "01.jsonl"
    if compressed:
        path.with_name("01.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    before = {path: path.stat() for path in folder().iterdir()}
    status, out, _ = command("lab", "spread", "--sessions", "4")
    assert status == 0
    assert len(asv.calls) == 4
    assert out.startswith("session 4/4: ")
    assert all(path.stat() == stat for path, stat in before.items())


def test_a_series_that_failed_is_said_and_its_session_kept(asv):
    asv.ends = 2
    status, _, err = command("lab", "spread", "--sessions", "3")
    assert status == 0
    assert [line.partition(" (")[0] for line in err.splitlines()] == [
        f"session {n}: a series failed" for n in (1, 2, 3)
    ]


def test_other_rounds_are_other_sessions(asv):
    command("lab", "spread", "--sessions", "3")
    command("lab", "spread", "--sessions", "3", "--rounds", "16")
    assert [next(text for text in arguments if text.startswith("rounds=")) for arguments, _ in asv.calls] == [
        *["rounds=8"] * 3,
        *["rounds=16"] * 3,
    ]
    assert len({path.parent for path in Path(".asv", "sessions").rglob("*.jsonl")}) == 2


def test_one_round_has_no_spread(asv):
    status, out, err = command("lab", "spread", "--sessions", "3", "--rounds", "1")
    assert (status, out, err) == (2, "", "error: --rounds 1: at least 2 have a spread\n")
    assert not asv.calls


def test_another_method_is_another_folder(asv, monkeypatch):
    command("lab", "spread", "--sessions", "3")
    monkeypatch.setenv("KV_THREADS", "2")
    asv.calls.clear()
    command("lab", "spread", "--sessions", "3")
    assert len(asv.calls) == 3
    assert len(list(Path(".asv", "sessions").iterdir())) == 2


@pytest.mark.parametrize("compressed", [False, True])
def test_what_is_written_is_read(tmp_path, compressed):
    planted = generated.sessions(3, kernels=("add", "matmul"))
    read = sessions.read(generated.write(planted, tmp_path, compressed=compressed))
    assert list(read) == ["00", "01", "02"]
    for name, rounds in planted.items():
        assert [(item.series, item.round.launch, item.blocks) for item in read[name]] == [
            (item.series, item.round.launch, item.blocks) for item in rounds
        ]


def test_lines_without_blocks_are_read(tmp_path):
    """Telemetry as it was before."""
    (tmp_path / "01.jsonl").write_text(telemetry.encode(generated.sessions(1)["00"][0].round) + "\n")
    assert [item.blocks for item in sessions.read(tmp_path)["01"]] == [()]


def spoilt(**fields):
    """Return a session's line with other fields."""
    return json.dumps(json.loads(generated.line(generated.sessions(1)["00"][0])) | fields).encode()


BROKEN = {
    "torn": (b'{"b":', "not JSON"),
    "foreign": (b'{"hello": 1}', "is missing"),
    "no object": (b"[1]", "an object is wanted"),
    "not text": (b"\xff\xfe", "can't decode"),
    "empty": (b"", "no rounds"),
    "no time": (spoilt(e=0), "e: a positive time is wanted, got 0"),
    "negative time": (spoilt(e=-1e-3), "e: a positive time"),
    "no gauge": (spoilt(j=0.0), "j: a positive time"),
    "no other gauge": (spoilt(J=-1.0), "J: a positive time"),
    "no control": (spoilt(K=0.0), "K: a positive time"),
    **{
        f"blocks {value!r}": (spoilt(blocks=value), "blocks: a list of positive times is wanted, got")
        for value in ([0], [1e-3, -1e-3], ["a"], 5, None, {}, [True], [float("nan")], [float("inf")], [[1e-3]])
    },
}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_session_is_one_line_that_names_its_file(tmp_path, kind, compressed):
    content, said = BROKEN[kind]
    generated.write(generated.sessions(4), tmp_path)
    path = tmp_path / ("04.jsonl.gz" if compressed else "04.jsonl")
    path.write_bytes(gzip.compress(content) if compressed else content)
    status, out, err = command("lab", "false-alarms", "--read", str(tmp_path))
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {path}: ")
    assert said in err
    assert err.endswith("; remove the file to measure that session again\n")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda whole: whole[:-12],  # truncated
        lambda whole: whole[:30],
        lambda whole: whole[:10] + b"\xff" * 20 + whole[30:],
        lambda whole: whole[:-8] + bytes(8),  # another checksum
        lambda whole: b"no gzip",
    ],
)
def test_a_broken_archive_is_one_line_that_names_its_file(tmp_path, spoil):
    generated.write(generated.sessions(4), tmp_path, compressed=True)
    path = tmp_path / "02.jsonl.gz"
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(ResultsError) as caught:
        sessions.read(tmp_path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


def test_a_torn_line_is_found_behind_good_ones(tmp_path):
    generated.write(generated.sessions(4), tmp_path)
    with (tmp_path / "03.jsonl").open("a") as stream:
        stream.write('{"b":')
    with pytest.raises(ResultsError, match=r"03\.jsonl: not JSON"):
        sessions.read(tmp_path)


def test_sessions_of_two_methods_are_refused(tmp_path):
    found = generated.sessions(3)
    found["01"] = [changed(item, method="other") for item in found["01"]]
    generated.write(found, tmp_path)
    with pytest.raises(ResultsError, match=rf"{re.escape(str(tmp_path))}: .* 2 methods \(m, other\)"):
        sessions.read(tmp_path)


@pytest.mark.parametrize("inner", ["", "absent"])
def test_a_folder_without_sessions_says_what_was_wanted(tmp_path, inner):
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(ResultsError, match=rf"{re.escape(str(tmp_path / inner))}: no sessions; wanted files such as"):
        sessions.read(tmp_path / inner)


def test_one_session_twice_is_refused(tmp_path):
    """One of the two would be lost without a word."""
    generated.write(generated.sessions(3), tmp_path)
    generated.write(generated.sessions(1), tmp_path, compressed=True)
    with pytest.raises(ResultsError, match=r"00\.jsonl\.gz: a session named 00 is there already"):
        sessions.read(tmp_path)


def test_a_series_is_adjusted_by_its_own_gauges():
    found = generated.sessions(3, common=0.03, kernels=("add", "matmul"))
    core = {
        (name, item.round.launch): item.round.core_gauge
        for name, rounds in found.items()
        for item in rounds
        if item.series == series(kernel="add")
    }
    signal = sessions.signals(found)[series(kernel="add")][0]
    first, *others = core
    assert signal.keys() == core.keys()
    for key in others:
        assert signal[key] - signal[first] == pytest.approx(math.log(core[key] / core[first]))


def test_a_gauge_that_was_seldom_read_is_no_signal():
    found = generated.sessions(3, common=0.03)
    usual = sessions.signals(found)[series()]
    assert len(usual) == 2
    always = {
        name: [generated.changed(item, control_gauge=item.round.core_gauge * 9) for item in rounds]
        for name, rounds in found.items()
    }
    assert len(sessions.signals(always)[series()]) == 3
    seldom = always | {"00": found["00"]}  # a third of the rounds without
    assert sessions.signals(seldom)[series()] == usual


def test_rounds_that_shared_a_launch_are_refused(tmp_path):
    """One of them would stand for all, as if nothing scattered."""
    folder = generated.write(generated.sessions(3), tmp_path)
    path = folder / "01.jsonl"
    lines = [json.loads(line) | {"l": "one"} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ResultsError, match=r"01\.jsonl: rounds of one series share a launch"):
        sessions.read(folder)
