"""`make track`'s settings: defaults, precedence, and values that make no sense."""

import argparse
import io
from typing import ClassVar

import pytest

from kernel_velocity.ab import session
from kernel_velocity.errors import UsageError
from kernel_velocity.findings import store
from kernel_velocity.lab import sessions
from kernel_velocity.nightly import journal
from kernel_velocity.runner import track
from kernel_velocity.runner.asv import OWN_FOLDERS


def parse(*argv, **environ):
    parser = argparse.ArgumentParser()
    track.add_arguments(parser)
    return track.settings(parser.parse_args(argv), {f"KV_{name}": value for name, value in environ.items()})


def test_defaults():
    chosen = parse()
    assert (chosen.range, chosen.bench, chosen.rounds, chosen.tier, chosen.machine) == (None, None, 8, "core", None)
    assert not chosen.again


def test_empty_is_unset():
    assert parse(RANGE="", ROUNDS="", TIER="", THREADS="") == parse()


def test_the_command_line_wins_over_the_environment():
    assert parse("--rounds", "3", ROUNDS="4", TIER="full") == parse("--rounds=3", "--tier=full")


@pytest.mark.parametrize("rounds", ["0", "-1", "many", "1.5", "6", "²"])
def test_rounds_that_make_no_sense(rounds):
    with pytest.raises(UsageError, match="ROUNDS"):
        parse(ROUNDS=rounds)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("THREADS", "0"), ("RULE", "guess"), ("EPS", "small"), ("EPS", "-1")),
        *(("TIMER", "sundial"), ("NVML_SAMPLE", "often"), ("NVML_SAMPLE", "0"), ("PATIENCE", "-1")),
    ],
)
def test_settings_of_the_engine_are_checked_before_anything_is_built(name, value):
    with pytest.raises(UsageError):
        parse(**{name: value})


@pytest.mark.parametrize("name", ["a/b", "<b>x</b>", "../../esc", ".hidden", "-x", "a b", "é"])
def test_a_machine_is_named_by_plain_letters(name):
    with pytest.raises(UsageError, match="MACHINE=") as caught:
        parse(MACHINE=name)
    assert "\n" not in str(caught.value)
    assert parse(MACHINE="Bench_2.x-y").machine == "Bench_2.x-y"


@pytest.mark.parametrize("name", ["kv-ab", "kv-sessions", "findings", "sessions", "journals"])
def test_a_machine_is_not_named_as_a_folder_of_ours(name):
    for given in ({"MACHINE": name}, {}):
        with pytest.raises(UsageError, match="a folder of our own in results/") as caught:
            parse(*([] if given else ["--machine", name]), **given)
        assert "\n" not in str(caught.value)


def test_the_folders_of_ours_are_those_that_our_modules_write():
    assert {session.MACHINE, sessions.MACHINE, store.FOLDER, journal.FOLDER.name} < OWN_FOLDERS


@pytest.mark.parametrize(("text", "again"), [("1", True), ("0", False), ("yes", True), ("", False)])
def test_again(text, again):
    assert parse(AGAIN=text).again is again


class Interrupted:
    """A session whose measuring is interrupted."""

    steps: ClassVar[list[str]] = []

    def __init__(self, **_):
        self.steps.clear()

    def recover(self, out):
        self.steps.append("recover")

    def build(self, again, out):
        self.steps.append("build")

    def measure(self, again, out):
        raise KeyboardInterrupt

    def ingest(self, err):
        self.steps.append("ingest")


def test_whoever_interrupts_a_run_keeps_what_was_timed(tmp_path, monkeypatch):
    (tmp_path / "asv.conf.json").write_text("{}")
    monkeypatch.setattr(track, "_check", lambda *_: ("cpu", (), None))
    monkeypatch.setattr(track, "machine", lambda name: "box")
    monkeypatch.setattr(track, "Session", Interrupted)
    monkeypatch.delenv("KV_LOCK_HOLDER", raising=False)
    args = argparse.ArgumentParser()
    track.add_arguments(args)
    with pytest.raises(KeyboardInterrupt):
        track.run(args.parse_args(["--root", str(tmp_path)]), io.StringIO(), io.StringIO())
    assert Interrupted.steps == ["recover", "ingest", "build", "ingest"]
