"""asv.conf.json and the section of kernel-velocity: what makes no sense is one line that says what is wanted."""

import pytest

from kernel_velocity.errors import UsageError
from kernel_velocity.runner import asv
from kernel_velocity.suite import config

GOOD = '"version": 1, "repo": "."'


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "empty"),
        ("[]", "an object of settings is wanted, got []"),
        ("[" * 10_000, "nested too deeply"),
        ("\ufeff{}", "begins with the byte order mark of UTF-8; save it as UTF-8 without one"),
        ('{"version": 2}', '"version": 1 is wanted, got 2'),
        ('{"repo": "."}', '"version": 1 is wanted, got nothing'),
        ('{"version": 1}', "No repo specified"),
        (f"{{{GOOD}, {GOOD}}}", "the key 'version' comes twice"),
        (f'{{{GOOD}, "branches": []}}', "No branches specified"),
        (f'{{{GOOD}, "branches": "main"}}', "branches: a list of texts is wanted, got 'main'"),
        (f'{{{GOOD}, "results_dir": ""}}', "results_dir: a path is wanted, got ''"),
        (f'{{{GOOD}, "results_dr": "x"}}', "'results_dr' is no setting of asv: results_dir is wanted"),
        (f'{{{GOOD}, "install_timeout": true}}', "install_timeout: a time in seconds is wanted, got True"),
        (f'{{{GOOD}, "launch_method": "fork"}}', "launch_method: auto, spawn or forkserver is wanted"),
        (f'{{{GOOD}, "regressions_thresholds": {{"(": 1}}}}', "regressions_thresholds: an object of regular expr"),
        (f'{{{GOOD}, "project": "\\ud800"}}', "a text has half of a surrogate pair"),
    ],
)
def test_settings_that_make_no_sense_are_one_line(tmp_path, monkeypatch, text, what):
    monkeypatch.chdir(tmp_path)
    (tmp_path / config.NAME).write_text(text)
    with pytest.raises(UsageError) as error:
        asv.settings()
    assert what in str(error.value).lower() if text == "" else what in str(error.value)
    assert config.NAME in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("bench", "got 'bench': there is none; make it, or let `kv init` write an example"),
        (config.NAME, "it is a file"),
    ],
)
def test_folder_of_benchmarks_is_wanted(tmp_path, value, what):
    (tmp_path / config.NAME).write_text(f'{{{GOOD}, "benchmark_dir": "{value}"}}')
    with pytest.raises(UsageError, match="benchmark_dir: a folder is wanted") as error:
        config.suite(tmp_path)
    assert what in str(error.value)


def test_text_in_utf_16_is_one_line_with_the_cure(tmp_path):
    (tmp_path / config.OWN_FILE).write_text("build = 'x {out}'", encoding="utf-16")
    with pytest.raises(UsageError, match="the byte order mark of UTF-16; save it as UTF-8 without one"):
        config.project(tmp_path)


def test_settings_of_plugins_and_comments_pass(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / config.NAME).write_text(f'{{{GOOD}, /* ours */ "slack_channel": [1], "dvcs": null,}}')
    assert (asv.settings().slack_channel, asv.settings().repo) == ([1], ".")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("tool = 3", "a table of keys is wanted, got 3"),
        ("[tool]\nkernel-velocity = []", "a table of keys is wanted, got []"),
        ("[tool.kernel-velocity]\nbuilt-from = ['']", "built-from[0]: a text that is not empty is wanted"),
        (
            "[tool.kernel-velocity]\nbuilt_from = ['a']",
            "built_from: one of better, build, built-from, counts, kernels, sources, toolchain is wanted",
        ),
        ("[tool.kernel-velocity]\nbuild = 'make'", "build: a shell command that puts what it builds into {out}"),
        (
            "[tool.kernel-velocity.better]\n'*.track_x' = 'more'",
            "better.*.track_x: one of higher, lower, neither is wanted, got 'more'",
        ),
        ("x = " + "[" * 10_000, "no TOML: nested too deeply"),
        ("x = 1" + "0" * 5000, "Exceeds the limit"),
    ],
)
def test_section_that_makes_no_sense_is_one_line(tmp_path, text, what):
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(UsageError) as error:
        config.project(tmp_path)
    assert what in str(error.value) and "\n" not in str(error.value)
