"""The settings of `kv track`: defaults, precedence, malformed values, and an interrupted run."""

import argparse
import io
from types import SimpleNamespace

import pytest

from kernel_velocity.ab import session
from kernel_velocity.errors import UsageError
from kernel_velocity.findings import store
from kernel_velocity.nightly import measure
from kernel_velocity.results.asv_file import OWN_FOLDERS
from kernel_velocity.runner import select, track


def parse(*argv, **environ):
    parser = argparse.ArgumentParser()
    track.add_arguments(parser)
    return track.settings(parser.parse_args(argv), {f"KV_{name}": value for name, value in environ.items()})


def test_defaults():
    chosen = parse()
    assert (chosen.range, chosen.bench, chosen.rounds, chosen.tier, chosen.machine) == (None, None, 8, "core", None)
    assert not chosen.again


def test_empty_setting_is_unset():
    assert parse(RANGE="", ROUNDS="", TIER="", THREADS="") == parse()


def test_command_line_overrides_environment():
    assert parse("--rounds", "3", ROUNDS="4", TIER="full") == parse("--rounds=3", "--tier=full")


@pytest.mark.parametrize("rounds", ["0", "many", "6", "²"])
def test_malformed_rounds_are_refused(rounds):
    with pytest.raises(UsageError, match="ROUNDS"):
        parse(ROUNDS=rounds)


@pytest.mark.parametrize(
    ("name", "value"),
    [("THREADS", "0"), ("RULE", "guess"), ("EPS", "-1"), ("PATIENCE", "-1")],
)
def test_malformed_timing_settings_are_refused(name, value):
    with pytest.raises(UsageError):
        parse(**{name: value})


@pytest.mark.parametrize("name", ["a/b", "../../esc", ".hidden", "-x", "é"])
def test_machine_name_has_plain_letters(name):
    with pytest.raises(UsageError, match="MACHINE=") as caught:
        parse(MACHINE=name)
    assert "\n" not in str(caught.value)
    assert parse(MACHINE="Bench_2.x-y").machine == "Bench_2.x-y"


@pytest.mark.parametrize("name", ["kv-ab", "findings"])
def test_machine_name_is_no_reserved_folder(name):
    for environ in ({"MACHINE": name}, {}):
        with pytest.raises(UsageError, match="reserved for a folder in results/") as caught:
            parse(*([] if environ else ["--machine", name]), **environ)
        assert "\n" not in str(caught.value)


def test_reserved_folders_include_those_of_every_module():
    assert {session.MACHINE, store.FOLDER, measure.JOURNALS.name} < OWN_FOLDERS


@pytest.mark.parametrize(("text", "again"), [("1", True), ("0", False), ("", False)])
def test_again(text, again):
    assert parse(AGAIN=text).again is again


@pytest.mark.parametrize(
    ("minutes", "waves", "left"),
    [
        (100, ["gfe", "dcb", "a"], ""),
        (5, ["gfe", "dc"], "no time left for 2 commits"),
        (1, ["gfe"], "no time left for 4 commits"),  # the newest are measured in any case
    ],
)
def test_minutes_measure_the_newest_commits_first(monkeypatch, minutes, waves, left):
    """Each commit takes a minute."""
    clock, out = [0.0], io.StringIO()
    monkeypatch.setattr(track.time, "monotonic", lambda: clock[0])
    series = select.Selection(series=(("matmul.Cpu.time_hot", ("native", "small")),), versions={})
    plan = track.Waves(
        chosen=parse(f"--minutes={minutes}"), line=tuple("gfedcba"), device="cpu", series=series, began=0.0
    )
    measured = ["".join(plan.commits)]
    while True:
        clock[0] += 60 * len(plan.commits)
        if not plan.advance(SimpleNamespace(measured=plan.commits), out):
            break
        measured.append("".join(plan.commits))
    assert measured == waves and left in out.getvalue()


def test_without_minutes_all_commits_are_one_session():
    series = select.Selection(series=(("matmul.Cpu.time_hot", ("native", "small")),), versions={})
    plan = track.Waves(chosen=parse(), line=tuple("cba"), device="cpu", series=series)
    assert plan.commits == tuple("cba")
    assert not plan.advance(SimpleNamespace(measured=plan.commits), io.StringIO())
